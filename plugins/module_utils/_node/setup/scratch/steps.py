# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The steps that change something, and their words; ``apply`` turns them into commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NEW = "the new array"
"""Placeholder for the kernel name of an array that an earlier step creates or assembles: the kernel chooses it."""

_WORDS = {
    "unmount": "unmount {where}",
    "stop": "stop {device}",
    "erase": "wipe the signature on {device}",
    "forget": "zero our md superblocks on {disks}",
    "wipe": "wipe the signatures on {disks}",
    "create": "create a RAID 0 of {disks}",
    "assemble": "assemble {disks}",
    "mkfs": "make {detail} on {device}",
    "mount": "mount {device} on {where}",
    "remount": "mount {where} with {detail}",
    "own": "make {where} {detail}",
}


@dataclass(frozen=True)
class Step:
    """One step.

    :ivar verb: a key of ``_WORDS``.
    :ivar device: kernel name of the device, or NEW.
    :ivar disks: kernel names of the disks.
    :ivar where: the mountpoint.
    :ivar detail: further input of the step, also shown to the user.
    :ivar uuid: the array's UUID, for assembly; the file system's UUID is derived from it.
    """

    verb: str
    device: str = ""
    disks: tuple[str, ...] = ()
    where: str = ""
    detail: str = ""
    uuid: str = ""

    def __str__(self) -> str:
        words = {"device": self.device, "where": self.where, "detail": self.detail, "disks": " ".join(self.disks)}
        return _WORDS[self.verb].format_map(words)


@dataclass(frozen=True)
class ScratchPlan:
    """What to do, and the state before and after.

    :ivar steps: in order; empty if there is nothing to do.
    :ivar warnings: what the user should know, one line each.
    :ivar before: the scratch before, for the diff.
    :ivar after: the scratch after.
    :ivar members: its disks afterwards.
    :ivar device: kernel name of what is mounted afterwards, NEW, or empty.
    :ivar adopted: it is an array that we did not make.
    """

    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    device: str = ""
    adopted: bool = False

    @property
    def steps_until_look(self) -> tuple[Step, ...]:
        """The steps up to the next look at the machine: an array's content is visible only after it is assembled."""
        for number, step in enumerate(self.steps, start=1):
            if step.verb == "assemble":
                return self.steps[:number]
        return self.steps
