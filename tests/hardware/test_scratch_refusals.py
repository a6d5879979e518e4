# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvme_raid on disks that hold something: refused by name and byte-identical afterwards, unless told otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from hardware.controller import Result
from hardware.scratch import MOUNTPOINT, Scratch
from hardware.vm import Machine

PARTITION = "echo 'label: gpt\n,64M' | sfdisk -q {disk}"
# Mounted read-only, for a mounted file system writes by itself, now and then.
OCCUPANTS = {
    "file_system": "mkfs.xfs -q -L precious {disk}",
    "file_system_mounted": "mkfs.ext4 -q {disk}; mkdir -p /mnt/data; mount -o ro {disk} /mnt/data",
    "partition": PARTITION,
    "foreign_superblock": "mdadm --create /dev/md77 --quiet --run --force --level=0 --raid-devices=1 {disk}; "
    "mdadm --stop --quiet /dev/md77",
    "device_mapper": 'dmsetup create held --table "0 2048 linear {disk} 0"',
    "swap": "mkswap -q {disk}; swapon {disk}",
    "loop_device": "losetup /dev/loop6 {disk}; mkfs.ext4 -q /dev/loop6; mkdir -p /mnt/loop; "
    "mount -o ro /dev/loop6 /mnt/loop",
}


@dataclasses.dataclass(frozen=True)
class Refusals:
    """What the module said about each occupied disk, and what became of the disks."""

    disks: dict[str, str]
    results: dict[str, Result]
    untouched: dict[str, bool]
    free_disk_untouched: bool


@pytest.fixture(scope="module")
def refusals(started: Machine) -> Iterator[Refusals]:
    """Each kind of occupant on a disk of its own, and the module on each of them together with a free disk."""
    scratch = Scratch(started)
    scratch.clear()
    paths = scratch.disks()
    disks = dict(zip(OCCUPANTS, paths, strict=False))
    free = paths[len(OCCUPANTS)]
    for kind, command in OCCUPANTS.items():
        started.run(command.format(disk=disks[kind]))
    started.run("udevadm settle")
    before = scratch.digests()
    wanted: list[dict[str, object]] = [{"devices": [disk, free]} for disk in disks.values()]
    results = scratch.plays(*wanted)
    same = [old == new for old, new in zip(before, scratch.digests(), strict=True)]
    yield Refusals(
        disks=disks,
        results=dict(zip(OCCUPANTS, results, strict=True)),
        untouched=dict(zip(OCCUPANTS, same, strict=False)),
        free_disk_untouched=same[len(OCCUPANTS)],
    )
    scratch.clear()


@pytest.mark.parametrize("kind", OCCUPANTS)
def test_refuses_an_occupied_disk_by_name(refusals: Refusals, kind: str) -> None:
    result = refusals.results[kind]
    assert result.failed
    assert not result.changed
    assert refusals.disks[kind] in result.msg
    assert refusals.untouched[kind]


def test_refusal_leaves_the_free_disk_alone_too(refusals: Refusals) -> None:
    assert refusals.free_disk_untouched


@pytest.mark.thorough
def test_refuses_the_disk_that_the_system_runs_from(scratch: Scratch) -> None:
    refused, forced = scratch.plays({"devices": ["/dev/vda"]}, {"devices": ["/dev/vda"], "force_devices": ["/dev/vda"]})
    for result in (refused, forced):
        assert result.failed
        # Not merely a command that failed because the disk is busy.
        assert "/dev/vda is the operating system's disk" in result.msg
    assert scratch.machine.succeeds("touch /var/tmp/still-there; sync; test -e /bin/sh")


@pytest.mark.thorough
def test_takes_an_occupied_disk_that_is_forced_and_no_other(scratch: Scratch) -> None:
    first, second, *rest = scratch.disks()
    scratch.machine.run(f"mkfs.xfs -q -L old {first}; {PARTITION.format(disk=second)}; udevadm settle")
    before = scratch.digests()
    half, whole = scratch.plays({"force_devices": [first]}, {"force_devices": [first, second]})
    assert half.failed
    assert second in half.msg
    assert not whole.failed, whole.msg
    assert whole.changed
    assert len(scratch.members()) == 2 + len(rest)
    assert scratch.digests() != before


@pytest.mark.thorough
def test_half_a_permission_writes_nothing(scratch: Scratch) -> None:
    first, second, *_rest = scratch.disks()
    scratch.machine.run(f"mkfs.xfs -q -L old {first}; mkfs.ext4 -q {second}; udevadm settle")
    before = scratch.digests()
    assert scratch.raid(force_devices=[first]).failed
    assert scratch.digests() == before


@pytest.mark.thorough
def test_refuses_a_healthy_array_that_is_not_ours_unless_adopted(scratch: Scratch) -> None:
    scratch.array(*scratch.disks())
    scratch.machine.run("mount /dev/md128 /mnt; echo kept > /mnt/file; umount /mnt")
    before = scratch.digests()
    [refused] = scratch.plays({})
    assert refused.failed
    assert "md128" in refused.msg
    assert scratch.digests() == before
    adopted, again = scratch.plays({"adopt": True}, {"adopt": True})
    assert not adopted.failed, adopted.msg
    assert adopted.changed
    assert (again.failed, again.changed) == (False, False), again.msg
    assert scratch.machine.run(f"cat {MOUNTPOINT}/file") == "kept\n"


@pytest.mark.thorough
def test_refuses_a_mountpoint_that_holds_files(scratch: Scratch) -> None:
    scratch.machine.run(f"mkdir -p {MOUNTPOINT}; echo hidden > {MOUNTPOINT}/file")
    before = scratch.digests()
    refused = scratch.raid()
    assert refused.failed
    assert MOUNTPOINT in refused.msg
    assert scratch.digests() == before


@pytest.mark.thorough
def test_refuses_a_label_that_another_file_system_bears(scratch: Scratch) -> None:
    *ours, other = scratch.disks()
    scratch.machine.run(f"mkfs.ext4 -q -L taken {other}; udevadm settle")
    before = scratch.digests()
    refused = scratch.raid(devices=ours, label="taken")
    assert refused.failed
    assert "taken" in refused.msg
    assert scratch.digests() == before
