# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What lies on a disk: read from the disk itself, not from udev's notes about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .root import Root
from .run import Result, Run

RAID_MEMBER = "linux_raid_member"
_FIELD = re.compile(r"\s*(Array UUID|Raid Devices|Raid Level|Chunk Size|Device Role) : (.+)")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class Signature:
    """A mark by which libblkid knows what lies on a device.

    :ivar type: ``xfs``, ``linux_raid_member``, ``gpt`` ...
    :ivar label: the file system's label, or the name of the md array; empty where there is none.
    :ivar uuid: its UUID, of the array for a member; empty where there is none.
    """

    type: str
    label: str = ""
    uuid: str = ""


@dataclass(frozen=True)
class Superblock:
    """What a member's md superblock says of its array.

    :ivar uuid: the array's UUID, in the usual spelling with dashes.
    :ivar level: ``raid0`` ...
    :ivar raid_disks: how many members the array has.
    :ivar chunk_bytes: size of its stripe unit; 0 where it says none.
    :ivar role: which member this is, from 0; None for a spare.
    """

    uuid: str
    level: str
    raid_disks: int
    chunk_bytes: int
    role: int | None


def read_signatures(root: Root, names: Sequence[str], run: Run) -> dict[str, tuple[Signature, ...] | None]:
    """Return the signatures on each device; an empty tuple for a blank one, None where it could not be read.

    :param names: kernel names. Below another root than ``/`` the device's content is a file of that name in ``dev``.
    """
    paths = {name: root.at(f"/dev/{name.replace('!', '/')}") for name in names}
    there = [name for name in names if root.exists(f"/dev/{name.replace('!', '/')}")]
    answers: dict[str, tuple[Signature, ...] | None] = dict.fromkeys(names)
    if not there:
        return answers
    together = _wipefs(run, [paths[name] for name in there])
    if together.rc == 0:
        found = _parse(together)
        answers.update({name: found.get(paths[name].rsplit("/", 1)[-1], ()) for name in there})
        return answers
    # One device that cannot be read ends wipefs for all.
    for name in there:
        alone = _wipefs(run, [paths[name]])
        if alone.rc == 0:
            answers[name] = _parse(alone).get(paths[name].rsplit("/", 1)[-1], ())
    return answers


def _wipefs(run: Run, paths: Iterable[str]) -> Result:
    return run(["wipefs", "--no-act", "--json", *paths])


def _parse(result: Result) -> Mapping[str, tuple[Signature, ...]]:
    found: dict[str, tuple[Signature, ...]] = {}
    for entry in json.loads(result.stdout or "{}").get("signatures", ()):
        signature = Signature(entry["type"], entry.get("label") or "", entry.get("uuid") or "")
        found[entry["device"]] = (*found.get(entry["device"], ()), signature)
    return found


def read_superblocks(root: Root, names: Sequence[str], run: Run) -> dict[str, Superblock]:
    """Return the md superblocks of devices, by kernel name; a device whose superblock mdadm cannot read is left out."""
    if not names:
        return {}
    paths = {root.at(f"/dev/{name.replace('!', '/')}"): name for name in names}
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in run(["mdadm", "--examine", *paths]).stdout.splitlines():
        if line.rstrip(":") in paths and line.endswith(":"):
            current = found.setdefault(paths[line.rstrip(":")], {})
        match = _FIELD.match(line)
        if match:
            current[match.group(1)] = match.group(2).strip()
    return {name: _as_superblock(fields) for name, fields in found.items() if "Array UUID" in fields}


def _as_superblock(fields: Mapping[str, str]) -> Superblock:
    role = re.match(r"Active device (\d+)", fields.get("Device Role", ""))
    return Superblock(
        uuid=with_dashes(fields["Array UUID"]),
        level=fields.get("Raid Level", ""),
        raid_disks=int(fields.get("Raid Devices", "0")),
        chunk_bytes=parse_size(fields.get("Chunk Size", "0")),
        role=int(role.group(1)) if role else None,
    )


def with_dashes(uuid: str) -> str:
    """Return mdadm's ``aaaaaaaa:bbbbbbbb:cccccccc:dddddddd`` as the rest of the world spells a UUID."""
    digits = uuid.replace(":", "").replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def parse_size(text: str) -> int:
    """Return ``512K`` in bytes.

    :raises ValueError: it is no such size.
    """
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is no size such as 512K")
    return int(match.group(1)) * _UNITS[match.group(2).upper()]
