# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""All settings of an image: options, plan and apply."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...machine.atomic import remove_file
from ...machine.root import Root
from ...machine.run import Run, must
from ..managed_file import diff_of, printable
from . import kernel, services
from .changes import ImageChanges
from .facts import is_container, is_running


@dataclass(frozen=True)
class ImageOptions:
    """The settings of the image. An empty option removes what an earlier run has written.

    :ivar limits: limits by the names in limits.conf.
    :ivar sysctl: kernel settings.
    :ivar modules: kernel modules that are loaded at boot.
    :ivar module_options: values by module and option.
    :ivar agent: keys of waagent.conf.
    :ivar updates: one of ``services.UPDATE_MODES``.
    :ivar time: one of ``services.TIME_MODES``.
    :ivar network: whether to remove old network rules.
    :ivar scratch: the scratch's mountpoint.
    :ivar insist: limits and kernel settings that override the base's own.
    """

    limits: Mapping[str, object] = field(default_factory=dict)
    sysctl: Mapping[str, object] = field(default_factory=dict)
    modules: Sequence[str] = ()
    module_options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    agent: Mapping[str, object] = field(default_factory=dict)
    updates: str = services.UPDATES_LEAVE
    time: str = services.TIME_LEAVE
    network: bool = False
    scratch: str = "/scratch"
    insist: Sequence[str] = ()


def plan(root: Root, options: ImageOptions) -> tuple[ImageChanges, ...]:
    """Return the changes, part by part. Changes nothing.

    :raises OSError: a file of the image cannot be read.
    """
    contained = is_container(root)
    live = is_running(root) and not contained
    planned = [
        # If limits are above those of the container, logins are refused completely.
        kernel.plan_limits(root, {} if contained else options.limits, options.insist),
        kernel.plan_sysctl(root, options.sysctl, options.insist, live),
        kernel.plan_modules(root, options.modules, options.module_options),
        services.plan_updates(root, options.updates),
        services.plan_clock(root, services.TIME_LEAVE if contained else options.time),
    ]
    if contained:
        planned.append(
            ImageChanges(
                remarks=("this is a container: limits, clock and kernel belong to its host and are left unchanged",)
            )
        )
    if options.agent:
        planned.append(services.plan_agent(root, options.agent, options.scratch))
    if options.network:
        planned.append(services.plan_network(root))
    return tuple(planned)


def changes(planned: Sequence[ImageChanges]) -> list[str]:
    """Return the paths that change, and the kernel settings that are set."""
    return [
        *(change.path for made in planned for change in made.files if change.changes),
        *(path for made in planned for path in made.unlink),
        *(f"/proc/sys/{path}" for made in planned for path in made.live),
    ]


def apply(root: Root, planned: Sequence[ImageChanges], run: Run) -> None:
    """Make the changes, and reload a running systemd.

    :raises OSError: something cannot be written.
    :raises CommandFailed: systemd cannot reload.
    """
    systemd = any(change.changes and "/systemd/" in change.path for made in planned for change in made.files)
    for made in planned:
        _apply_files(root, made)
        _set_live(root, made.live)
    if systemd and root.is_this_machine and is_running(root):
        must(run(["systemctl", "daemon-reload"]))


def _apply_files(root: Root, made: ImageChanges) -> None:
    """Change the files only, not the running kernel.

    :raises OSError: something cannot be written.
    """
    for change in made.files:
        change.apply()
    for path in made.unlink:
        remove_file(root.at(path))


def _set_live(root: Root, values: Mapping[str, str]) -> None:
    """Set these values in the running kernel. A refusal is not an error: the file applies at the next boot."""
    for path, value in values.items():
        with (
            contextlib.suppress(OSError),
            open(os.path.join(root.at("/proc/sys"), path), "w", encoding="ascii") as file,
        ):
            file.write(value)


def as_diff(planned: Sequence[ImageChanges]) -> list[dict[str, str]]:
    """Return the changes in the form of Ansible's diff."""
    found: list[dict[str, Any]] = diff_of(change for made in planned for change in made.files)
    for made in planned:
        found += [{"before_header": path, "before": "present\n", "after": ""} for path in made.unlink]
        found += [{"after_header": path, "before": "", "after": f"{value}\n"} for path, value in made.live.items()]
    return found


def in_words(texts: Sequence[str]) -> list[str]:
    """Return the texts without duplicates, and without bytes that JSON cannot contain."""
    return list(dict.fromkeys(printable(text) for text in texts))
