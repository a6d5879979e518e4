# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvme_raid refuses disks in use, names them, and leaves them byte-identical, unless an option allows their use."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from hardware.controller import Result
from hardware.scratch import MOUNTPOINT, Scratch
from hardware.vm import Machine

PARTITION = "echo 'label: gpt\n,64M' | sfdisk -q {disk}"
# File systems are mounted read-only, because a mounted file system sometimes writes without a request.
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
    """The module's result for each occupied disk, and whether the disks are unchanged."""

    disks: dict[str, str]
    results: dict[str, Result]
    untouched: dict[str, bool]
    free_disk_untouched: bool


@pytest.fixture(scope="module")
def refusals(started: Machine) -> Iterator[Refusals]:
    """Put each kind of occupant on one disk, and run the module on each of these together with a free disk."""
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
    results = scratch.raids(*wanted)
    same = [old == new for old, new in zip(before, scratch.digests(), strict=True)]
    yield Refusals(
        disks=disks,
        results=dict(zip(OCCUPANTS, results, strict=True)),
        untouched=dict(zip(OCCUPANTS, same, strict=False)),
        free_disk_untouched=same[len(OCCUPANTS)],
    )
    scratch.clear()


@pytest.mark.parametrize("kind", OCCUPANTS)
def test_an_occupied_disk_is_refused_and_named(refusals: Refusals, kind: str) -> None:
    result = refusals.results[kind]
    assert result.failed
    assert not result.changed
    assert refusals.disks[kind] in result.msg
    assert refusals.untouched[kind]


def test_a_refusal_does_not_change_the_free_disk(refusals: Refusals) -> None:
    assert refusals.free_disk_untouched


@pytest.mark.thorough
def test_the_system_disk_is_refused_even_with_force(scratch: Scratch) -> None:
    refused, forced = scratch.raids({"devices": ["/dev/vda"]}, {"devices": ["/dev/vda"], "force_devices": ["/dev/vda"]})
    for result in (refused, forced):
        assert result.failed
        # A refusal by the module, not a command that failed because the disk is busy.
        assert "/dev/vda is the operating system's disk" in result.msg
    assert scratch.machine.succeeds("touch /var/tmp/still-there; sync; test -e /bin/sh")


@pytest.mark.thorough
def test_only_occupied_disks_in_force_devices_are_used(scratch: Scratch) -> None:
    first, second, *rest = scratch.disks()
    scratch.machine.run(f"mkfs.xfs -q -L old {first}; {PARTITION.format(disk=second)}; udevadm settle")
    before = scratch.digests()
    incomplete, complete = scratch.raids({"force_devices": [first]}, {"force_devices": [first, second]})
    assert incomplete.failed
    assert second in incomplete.msg
    assert not complete.failed, complete.msg
    assert complete.changed
    assert len(scratch.members()) == 2 + len(rest)
    assert scratch.digests() != before


@pytest.mark.thorough
def test_one_disk_without_permission_prevents_any_write(scratch: Scratch) -> None:
    first, second, *_rest = scratch.disks()
    scratch.machine.run(f"mkfs.xfs -q -L old {first}; mkfs.ext4 -q {second}; udevadm settle")
    before = scratch.digests()
    assert scratch.raid(force_devices=[first]).failed
    assert scratch.digests() == before


@pytest.mark.thorough
def test_a_foreign_array_is_refused_unless_adopted(scratch: Scratch) -> None:
    scratch.array(*scratch.disks())
    scratch.machine.run("mount /dev/md128 /mnt; echo kept > /mnt/file; umount /mnt")
    before = scratch.digests()
    [refused] = scratch.raids({})
    assert refused.failed
    assert "md128" in refused.msg
    assert scratch.digests() == before
    adopted, again = scratch.raids({"adopt": True}, {"adopt": True})
    assert not adopted.failed, adopted.msg
    assert adopted.changed
    assert (again.failed, again.changed) == (False, False), again.msg
    assert scratch.machine.run(f"cat {MOUNTPOINT}/file") == "kept\n"


@pytest.mark.thorough
def test_a_mountpoint_with_files_is_refused(scratch: Scratch) -> None:
    scratch.machine.run(f"mkdir -p {MOUNTPOINT}; echo hidden > {MOUNTPOINT}/file")
    before = scratch.digests()
    refused = scratch.raid()
    assert refused.failed
    assert MOUNTPOINT in refused.msg
    assert scratch.digests() == before


@pytest.mark.thorough
def test_a_label_of_another_file_system_is_refused(scratch: Scratch) -> None:
    *ours, other = scratch.disks()
    scratch.machine.run(f"mkfs.ext4 -q -L taken {other}; udevadm settle")
    before = scratch.digests()
    refused = scratch.raid(devices=ours, label="taken")
    assert refused.failed
    assert "taken" in refused.msg
    assert scratch.digests() == before
