# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The steps that change something, in words; ``apply`` turns them into commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NEW = "the new array"
"""Stands for the kernel name of an array that an earlier step makes or assembles: the kernel chooses it."""

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
    :ivar detail: what else the step needs, in words that a reader understands.
    :ivar uuid: the array's UUID, to assemble it by; what the file system's UUID is made of.
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
    """What to do, and what is so before and after it.

    :ivar steps: in their order; empty where nothing is to be done.
    :ivar warnings: what the user should know, one line each.
    :ivar before: the scratch as it is, for the diff.
    :ivar after: the scratch as it will be.
    :ivar members: the disks it lies on afterwards.
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
        """The steps up to where one must look again: what lies on an array shows when it is assembled."""
        for number, step in enumerate(self.steps, start=1):
            if step.verb == "assemble":
                return self.steps[:number]
        return self.steps
