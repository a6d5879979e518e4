# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""All settings of an image together: what is wanted, what has to be done for it, and the doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...machine.root import Root
from ...machine.run import Run, must
from ..managed_file import diff_of, printable
from . import agent, clock, kernel_modules, limits, network, part, sysctl, updates
from .base import is_container, is_running
from .part import Part


@dataclass(frozen=True)
class Wanted:
    """What the image should have. What is empty takes away what an earlier run has written.

    :ivar limits: by the names of limits.conf.
    :ivar sysctl: settings of the kernel.
    :ivar modules: modules of the kernel that are loaded at boot.
    :ivar module_options: by module and option.
    :ivar agent: keys of waagent.conf.
    :ivar updates: one of ``updates.MODES``.
    :ivar time: one of ``clock.MODES``.
    :ivar network: whether old rules go.
    :ivar scratch: where scratch is mounted.
    :ivar insist: limits and settings of the kernel that win over the base's own.
    """

    limits: Mapping[str, object] = field(default_factory=dict)
    sysctl: Mapping[str, object] = field(default_factory=dict)
    modules: Sequence[str] = ()
    module_options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    agent: Mapping[str, object] = field(default_factory=dict)
    updates: str = updates.LEAVE
    time: str = clock.LEAVE
    network: bool = False
    scratch: str = "/scratch"
    insist: Sequence[str] = ()


def plan(root: Root, wanted: Wanted) -> tuple[Part, ...]:
    """Return what has to be done, part by part. Changes nothing.

    :raises OSError: a file of the image cannot be read.
    """
    contained = is_container(root)
    live = is_running(root) and not contained
    parts = [
        # A login that asks for more than the container was given is refused altogether.
        limits.plan(root, {} if contained else wanted.limits, wanted.insist),
        sysctl.plan(root, wanted.sysctl, wanted.insist, live),
        kernel_modules.plan(root, wanted.modules, wanted.module_options),
        updates.plan(root, wanted.updates),
        clock.plan(root, clock.LEAVE if contained else wanted.time),
    ]
    if contained:
        parts.append(Part(remarks=("a container: limits, clock and kernel are its host's, and are left to it",)))
    if wanted.agent:
        parts.append(agent.plan(root, wanted.agent, wanted.scratch))
    if wanted.network:
        parts.append(network.plan(root))
    return tuple(parts)


def changes(parts: Sequence[Part]) -> list[str]:
    """Return the paths that change, and the kernel's settings that are given anew."""
    return [
        *(change.path for made in parts for change in made.files if change.changes),
        *(path for made in parts for path in made.unlink),
        *(f"/proc/sys/{path}" for made in parts for path in made.live),
    ]


def apply(root: Root, parts: Sequence[Part], run: Run) -> None:
    """Do it, and let a running systemd know.

    :raises OSError: something cannot be written.
    :raises CommandFailed: systemd does not take it.
    """
    systemd = any(change.changes and "/systemd/" in change.path for made in parts for change in made.files)
    for made in parts:
        part.apply(root, made)
        part.set_live(root, made.live)
    if systemd and root.is_this_machine and is_running(root):
        must(run(["systemctl", "daemon-reload"]))


def as_diff(parts: Sequence[Part]) -> list[dict[str, str]]:
    """Return the changes in the form of Ansible's diff."""
    found: list[dict[str, Any]] = diff_of(change for made in parts for change in made.files)
    for made in parts:
        found += [{"before_header": path, "before": "present\n", "after": ""} for path in made.unlink]
        found += [{"after_header": path, "before": "", "after": f"{value}\n"} for path, value in made.live.items()]
    return found


def in_words(texts: Sequence[str]) -> list[str]:
    """Return texts that JSON can carry, each once."""
    return list(dict.fromkeys(printable(text) for text in texts))
