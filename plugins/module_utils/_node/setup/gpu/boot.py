# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the node is told to do about its GPUs at each boot: files and one service. No GPU and no driver is needed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...machine.atomic import remove_file, write_file
from ...machine.config import FOLDER, as_config
from ...machine.root import Root
from ...machine.run import Run, must
from .. import clocks
from .settings import CONFIG, Settings

DAEMON = "nvidia-persistenced"


@dataclass(frozen=True)
class Wish:
    """What is wanted at each boot.

    :ivar settings: of the look at the GPUs; the defaults need no file.
    :ivar clocks: the clocks; None to leave their file as it is.
    :ivar daemon: whether to enable the persistence daemon, where it is installed and not enabled.
    """

    settings: Settings
    clocks: clocks.Wanted | None
    daemon: bool


NOTHING = Wish(Settings(), clocks.Wanted(state="default"), daemon=False)
"""Undoes the files; a daemon that was enabled stays so."""


def bring(root: Root, run: Run, wish: Wish, check_mode: bool = False) -> list[dict[str, str]]:
    """Bring the files and the service to what is wanted; works in an image at rest.

    :return: the changes in the form of Ansible's diff; none where there is nothing to do.
    :raises OSError: a file cannot be written.
    :raises CommandFailed: the service cannot be enabled.
    """
    parts = [_put_settings(root, wish.settings, check_mode)]
    if wish.clocks is not None:
        parts.append(clocks.set_boot(root, wish.clocks, check_mode))
    if wish.daemon:
        parts.append(_enable(run, check_mode))
    return [part for part in parts if part]


def _put_settings(root: Root, settings: Settings, check_mode: bool) -> dict[str, str]:
    path = root.at(f"{FOLDER}/{CONFIG}.json")
    after = "" if settings.is_default else as_config(settings.as_options())
    before = ""
    if os.path.lexists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            before = file.read()
    elif not after:
        return {}
    if before == after and after:
        return {}
    if not check_mode and after:
        write_file(path, after)
    elif not check_mode:
        remove_file(path)
    return {"before": before, "after": after, "before_header": path, "after_header": path}


def _enable(run: Run, check_mode: bool) -> dict[str, str]:
    # Of Ubuntu's package a rule of udev starts it: "static". Whoever masked it meant it. Neither is ours to change, and
    # a machine without the driver has no such unit.
    if run(["systemctl", "is-enabled", DAEMON]).stdout.strip() != "disabled":
        return {}
    if not check_mode:
        must(run(["systemctl", "enable", DAEMON]))
    return {"before": f"{DAEMON}: disabled\n", "after": f"{DAEMON}: enabled\n"}
