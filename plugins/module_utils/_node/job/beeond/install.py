# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Installs what a node needs for BeeOND: the settings, a template unit for each daemon, and the sweep at each boot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...machine.atomic import remove_file
from ...machine.root import Root
from ...machine.run import Run, must
from ...setup.daemon import RUNNING
from ...setup.managed_file import FileChange, apply_all, change_of
from .beegfs import release_of
from .options import SETTINGS, as_text, settings_from
from .units import DAEMONS, template, template_texts

_UNITS = "/etc/systemd/system"
SWEEP = "hpcai-beeond-sweep.service"
_WANTS = f"{_UNITS}/slurmd.service.wants/{SWEEP}"
_SWEEP_TEXT = """\
# Written by the role hpcai.azure.beeond, which overwrites it.
[Unit]
Description=Remove what jobs with a BeeOND file system left when the machine went down
# The data is on the scratch; an earlier job's data must be removed before the next job.
After=hpcai-scratch.service hpcai-directories.service
Before=slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/hpcnode beeond sweep
TimeoutStartSec=300

[Install]
WantedBy=slurmd.service
"""


@dataclass(frozen=True)
class Plan:
    """What has to be done.

    :ivar files: files to write or to remove, those of systemd first.
    :ivar link: whether the sweep has to be enabled.
    :ivar unlink: whether the sweep has to be disabled.
    """

    files: tuple[FileChange, ...]
    link: bool
    unlink: bool = False

    @property
    def actions(self) -> list[str]:
        """The actions in words."""
        return [
            *([f"disable {SWEEP}"] if self.unlink else []),
            *(f"{'remove' if file.after is None else 'write'} {file.path}" for file in self.files),
            *([f"enable {SWEEP}"] if self.link else []),
        ]

    @property
    def has_units(self) -> bool:
        """Whether systemd has to reload its units."""
        return self.link or self.unlink or any(file.path.endswith(".service") for file in self.files)


def plan(root: Root, stated: Mapping[str, Any]) -> Plan:
    """Return what gives the node these settings.

    :raises ConfigError: the settings are invalid.
    :raises OSError: a file cannot be read.
    """
    settings = settings_from("settings", stated)
    release = release_of(settings.release)
    daemons = release.daemons(is_first=True, keeps_metadata=True)
    commands = {daemon: release.command(daemon, settings) for daemon in daemons}
    texts = {**template_texts(commands), SWEEP: _SWEEP_TEXT}
    files = [change_of(root.at(f"{_UNITS}/{name}"), text) for name, text in sorted(texts.items())]
    files.append(change_of(root.at(SETTINGS), as_text(settings)))
    linked = os.path.lexists(root.at(_WANTS))
    return Plan(tuple(file for file in files if file.changes), not linked)


def plan_absent(root: Root) -> Plan:
    """Return what removes the settings and all units.

    :raises OSError: a file cannot be read.
    """
    names = (SWEEP, *map(template, DAEMONS))
    files = [change_of(root.at(path), None) for path in (*(f"{_UNITS}/{name}" for name in names), SETTINGS)]
    linked = os.path.lexists(root.at(_WANTS))
    return Plan(tuple(file for file in files if file.changes), link=False, unlink=linked)


def apply(made: Plan, root: Root, run: Run) -> None:
    """Apply the plan. The unit is enabled by a symbolic link, because systemd does not run in an image.

    :raises CommandFailed: systemd cannot reload its units.
    :raises OSError: a file cannot be written or removed.
    """
    if made.unlink:
        remove_file(root.at(_WANTS))
    apply_all(made.files)
    if made.link:
        os.makedirs(root.at(os.path.dirname(_WANTS)), mode=0o755, exist_ok=True)
        os.symlink(f"{_UNITS}/{SWEEP}", root.at(_WANTS))
    if made.has_units and root.exists(RUNNING):
        must(run(["systemctl", "daemon-reload"]))
