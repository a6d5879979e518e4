# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's block devices from sysfs: disks, partitions, md arrays; and the signatures on them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .root import Root
from .run import Result, Run

_BLOCK = "/sys/block"
_SECTOR = 512  # the unit of sizes in sysfs, independent of the device's own sector size
# Paths of a multipath NVMe disk (nvme0c1n1): the disk itself is nvme0n1.
_HIDDEN = re.compile(r"nvme\d+c\d+n\d+$")


@dataclass(frozen=True)
class Partition:
    """A partition of a disk.

    :ivar name: kernel name, ``nvme0n1p1``.
    :ivar number: ``major:minor``.
    :ivar holders: kernel names of the devices that are stacked on it.
    """

    name: str
    number: str
    holders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Array:
    """An md array as the kernel reports it.

    :ivar level: ``raid0`` ...; empty if it was never started.
    :ivar raid_disks: how many members it should have; 0 if unknown.
    :ivar chunk_bytes: size of its stripe unit; 0 if unknown.
    :ivar state: ``clean``, ``active``, ``inactive``, ``broken`` ... (Documentation/admin-guide/md.rst).
    :ivar members: kernel names of its disks and partitions.
    """

    level: str
    raid_disks: int
    chunk_bytes: int
    state: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class BlockDevice:
    """A block device other than a partition: a disk, an md array, a device-mapper or loop device.

    :ivar name: kernel name, ``nvme0n1`` or ``md127``.
    :ivar number: ``major:minor``.
    :ivar size_bytes: its size.
    :ivar model: the disk's model; empty if it has none.
    :ivar serial: the disk's serial number; empty if it has none.
    :ivar numa_node: the NUMA node of its controller; None if the kernel does not report it.
    :ivar partitions: its partitions.
    :ivar holders: kernel names of the devices that are stacked on the whole device.
    :ivar slaves: kernel names of the devices below it.
    :ivar mapped_name: name of a device-mapper device in /dev/mapper; empty for other devices.
    :ivar array: its md array; None if it is not an md array.
    :ivar backing_file: the file or device behind a loop device; empty for other devices.
    """

    name: str
    number: str
    size_bytes: int
    model: str = ""
    serial: str = ""
    numa_node: int | None = None
    partitions: tuple[Partition, ...] = ()
    holders: tuple[str, ...] = ()
    slaves: tuple[str, ...] = ()
    mapped_name: str = ""
    array: Array | None = None
    backing_file: str = ""

    @property
    def path(self) -> str:
        """The path of its device node."""
        return f"/dev/{self.name.replace('!', '/')}"

    @property
    def is_disk(self) -> bool:
        """Whether it is a disk, and not a device stacked on others."""
        return not self.slaves and self.array is None and not self.name.startswith(("dm-", "md"))


def read_block_devices(root: Root) -> dict[str, BlockDevice]:
    """Return the block devices with a size, by kernel name, sorted by the numbers in their names."""
    found = (_read_device(root, name) for name in root.entries(_BLOCK) if not _HIDDEN.match(name))
    return {device.name: device for device in sorted((d for d in found if d), key=lambda d: by_number(d.name))}


def by_number(name: str) -> list[tuple[str, int]]:
    """Return a sort key that puts nvme10n1 after nvme9n1."""
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D+)(\d*)", name)]


def _read_device(root: Root, name: str) -> BlockDevice | None:
    folder = f"{_BLOCK}/{name}"
    sectors = root.number(f"{folder}/size") or 0
    array = _read_array(root, folder)
    # A loop device without a file and a stopped array are shown as empty devices.
    if not sectors and (array is None or not array.members):
        return None
    numa = root.number(f"{folder}/device/numa_node")
    if numa is None:
        numa = root.number(f"{folder}/device/device/numa_node")
    return BlockDevice(
        name=name,
        number=root.text(f"{folder}/dev") or "",
        size_bytes=sectors * _SECTOR,
        model=root.text(f"{folder}/device/model") or "",
        serial=root.text(f"{folder}/device/serial") or "",
        numa_node=numa if numa is not None and numa >= 0 else None,
        partitions=_read_partitions(root, folder, name),
        holders=tuple(root.entries(f"{folder}/holders")),
        slaves=tuple(root.entries(f"{folder}/slaves")),
        mapped_name=root.text(f"{folder}/dm/name") or "",
        array=array,
        backing_file=root.text(f"{folder}/loop/backing_file") or "",
    )


def _read_partitions(root: Root, folder: str, name: str) -> tuple[Partition, ...]:
    names = [entry for entry in root.entries(folder) if entry.startswith(name)]
    return tuple(
        Partition(entry, root.text(f"{folder}/{entry}/dev") or "", tuple(root.entries(f"{folder}/{entry}/holders")))
        for entry in sorted(names, key=by_number)
        if root.exists(f"{folder}/{entry}/partition")
    )


def _read_array(root: Root, folder: str) -> Array | None:
    state = root.text(f"{folder}/md/array_state")
    if state is None or state == "clear":
        return None
    members = {entry[len("dev-") :] for entry in root.entries(f"{folder}/md") if entry.startswith("dev-")}
    return Array(
        level=root.text(f"{folder}/md/level") or "",
        raid_disks=root.number(f"{folder}/md/raid_disks") or 0,
        chunk_bytes=root.number(f"{folder}/md/chunk_size") or 0,
        state=state,
        members=tuple(sorted(members | set(root.entries(f"{folder}/slaves")), key=by_number)),
    )


def disk_of(devices: Mapping[str, BlockDevice], name: str) -> str:
    """Return the kernel name of the device ``name``, or of the device whose partition it is."""
    if name in devices:
        return name
    for device in devices.values():
        if any(partition.name == name for partition in device.partitions):
            return device.name
    return name


def disks_below(devices: Mapping[str, BlockDevice], name: str) -> set[str]:
    """Return the kernel names of the disks below a device, through partitions, arrays and device-mapper."""
    found: set[str] = set()
    visited: set[str] = set()
    waiting = [disk_of(devices, name)]
    while waiting:
        current = waiting.pop()
        if current in visited or current not in devices:
            continue
        visited.add(current)
        array = devices[current].array
        below = devices[current].slaves + (array.members if array else ())
        waiting += [disk_of(devices, slave) for slave in below]
        if not below:
            found.add(current)
    return found


def resolve(root: Root, path: str) -> str | None:
    """Return the kernel name of the device at a path in /dev, following links; None if there is no such device."""
    target = os.path.realpath(root.at(path))
    base = root.at("/dev")
    if not os.path.exists(target) or not target.startswith(base.rstrip("/") + "/"):
        return None
    return target[len(base.rstrip("/")) + 1 :].replace("/", "!")


RAID_MEMBER = "linux_raid_member"
_FIELD = re.compile(r"\s*(Array UUID|Raid Devices|Raid Level|Chunk Size|Device Role) : (.+)")
_START_BYTES = 64 << 10
"""The superblocks of md, XFS and ext4 are within these first bytes of a device."""
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class Signature:
    """A signature by which libblkid identifies the content of a device.

    :ivar type: ``xfs``, ``linux_raid_member``, ``gpt`` ...
    :ivar label: the file system's label, or the name of the md array; empty if there is none.
    :ivar uuid: its UUID; for a member, the array's; empty if there is none.
    """

    type: str
    label: str = ""
    uuid: str = ""


@dataclass(frozen=True)
class Superblock:
    """The md superblock of a member, which describes its array.

    :ivar uuid: the array's UUID, in the usual format with dashes.
    :ivar level: ``raid0`` ...
    :ivar raid_disks: how many members the array has.
    :ivar chunk_bytes: size of its stripe unit; 0 if the superblock has none.
    :ivar role: which member this is, from 0; None for a spare.
    """

    uuid: str
    level: str
    raid_disks: int
    chunk_bytes: int
    role: int | None


def read_signatures(root: Root, names: Sequence[str], run: Run) -> dict[str, tuple[Signature, ...] | None]:
    """Return the signatures on each device; an empty tuple for a blank device, None if it cannot be read.

    :param names: kernel names. With a root other than ``/``, a device's content is a file with that name in ``dev``.
    """
    paths = {name: root.at(f"/dev/{name.replace('!', '/')}") for name in names}
    present = [name for name in names if root.exists(f"/dev/{name.replace('!', '/')}")]
    answers: dict[str, tuple[Signature, ...] | None] = dict.fromkeys(names)
    if not present:
        return answers
    together = _wipefs(run, [paths[name] for name in present])
    if together.rc == 0:
        found = _parse(together)
        answers.update({name: found.get(paths[name].rsplit("/", 1)[-1], ()) for name in present})
    # wipefs fails for all devices if it cannot open one of them.
    for name in present if together.rc != 0 else ():
        alone = _wipefs(run, [paths[name]])
        if alone.rc == 0:
            answers[name] = _parse(alone).get(paths[name].rsplit("/", 1)[-1], ())
    # After a read error, wipefs succeeds and shows nothing, as for a blank device.
    return {
        name: None if answer == () and not _starts_readable(paths[name]) else answer for name, answer in answers.items()
    }


def _starts_readable(path: str) -> bool:
    try:
        with open(path, "rb") as device:
            device.read(_START_BYTES)
    except OSError:
        return False
    return True


def _wipefs(run: Run, paths: Iterable[str]) -> Result:
    return run(["wipefs", "--no-act", "--json", *paths])


def _parse(result: Result) -> Mapping[str, tuple[Signature, ...]]:
    found: dict[str, tuple[Signature, ...]] = {}
    for entry in json.loads(result.stdout or "{}").get("signatures", ()):
        signature = Signature(entry["type"], entry.get("label") or "", entry.get("uuid") or "")
        found[entry["device"]] = (*found.get(entry["device"], ()), signature)
    return found


def read_superblocks(root: Root, names: Sequence[str], run: Run) -> dict[str, Superblock]:
    """Return the md superblocks of devices, by kernel name; devices without a readable superblock are left out."""
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
    """Return mdadm's ``aaaaaaaa:bbbbbbbb:cccccccc:dddddddd`` in the usual UUID format."""
    digits = uuid.replace(":", "").replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def parse_size(text: str) -> int:
    """Parse a size such as ``512K`` into bytes.

    :raises ValueError: the size is invalid.
    """
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is not a size such as 512K")
    return int(match.group(1)) * _UNITS[match.group(2).upper()]
