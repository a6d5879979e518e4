# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's block devices, out of sysfs: disks, their partitions, what is stacked on them, md arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .root import Root

_BLOCK = "/sys/block"
_SECTOR = 512  # sysfs counts sizes in these, whatever the device's own sector is
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
    """What the kernel knows of an md array.

    :ivar level: ``raid0`` ...; empty for one that was never started.
    :ivar raid_disks: how many members it wants; 0 where it is not known.
    :ivar chunk_bytes: size of its stripe unit; 0 where it is not known.
    :ivar state: ``clean``, ``active``, ``inactive``, ``broken`` ... (Documentation/admin-guide/md.rst).
    :ivar members: kernel names of the disks and partitions it holds.
    """

    level: str
    raid_disks: int
    chunk_bytes: int
    state: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class BlockDevice:
    """A block device that is no partition: a disk, an md array, a device-mapper or loop device.

    :ivar name: kernel name, ``nvme0n1`` or ``md127``.
    :ivar number: ``major:minor``.
    :ivar size_bytes: its size.
    :ivar model: the disk's model, empty where it has none.
    :ivar serial: the disk's serial number, empty where it has none.
    :ivar numa_node: the NUMA node of its controller; None where the kernel does not say.
    :ivar partitions: its partitions.
    :ivar holders: kernel names of the devices that are stacked on the whole device.
    :ivar slaves: kernel names of the devices that it is stacked on itself.
    :ivar mapped_name: name of a device-mapper device below /dev/mapper, else empty.
    :ivar array: what md says of it; None where it is no md array.
    :ivar backing_file: what a loop device shows, a file or the path of another device; empty for other devices.
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
        """Where its node is on the machine."""
        return f"/dev/{self.name.replace('!', '/')}"

    @property
    def is_disk(self) -> bool:
        """Whether it is a disk and not something stacked on others."""
        return not self.slaves and self.array is None and not self.name.startswith(("dm-", "md"))


def read_block_devices(root: Root) -> dict[str, BlockDevice]:
    """Return the block devices that have a size, by kernel name, in the order of their names' numbers."""
    found = (_read_device(root, name) for name in root.entries(_BLOCK) if not _HIDDEN.match(name))
    return {device.name: device for device in sorted((d for d in found if d), key=lambda d: by_number(d.name))}


def by_number(name: str) -> list[tuple[str, int]]:
    """Return a sort key that has nvme10n1 after nvme9n1."""
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D+)(\d*)", name)]


def _read_device(root: Root, name: str) -> BlockDevice | None:
    folder = f"{_BLOCK}/{name}"
    sectors = root.number(f"{folder}/size") or 0
    array = _read_array(root, folder)
    # A loop device without a file and an array that was stopped leave an empty device behind.
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
    """Return the kernel name of the device that ``name`` is, or is a partition of."""
    if name in devices:
        return name
    for device in devices.values():
        if any(partition.name == name for partition in device.partitions):
            return device.name
    return name


def disks_below(devices: Mapping[str, BlockDevice], name: str) -> set[str]:
    """Return the kernel names of the disks that a device lies on: through partitions, arrays and device-mapper."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [disk_of(devices, name)]
    while waiting:
        current = waiting.pop()
        if current in seen or current not in devices:
            continue
        seen.add(current)
        array = devices[current].array
        below = devices[current].slaves + (array.members if array else ())
        waiting += [disk_of(devices, slave) for slave in below]
        if not below:
            found.add(current)
    return found


def resolve(root: Root, path: str) -> str | None:
    """Return the kernel name that a path below /dev stands for, links followed; None if there is no such device."""
    target = os.path.realpath(root.at(path))
    base = root.at("/dev")
    if not os.path.exists(target) or not target.startswith(base.rstrip("/") + "/"):
        return None
    return target[len(base.rstrip("/")) + 1 :].replace("/", "!")
