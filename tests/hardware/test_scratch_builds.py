# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvme_raid on free disks: it builds the requested scratch, changes nothing in the next run, and can remove it."""

from __future__ import annotations

import re

import pytest

from hardware import qemu
from hardware.scratch import MOUNTPOINT, Scratch

# Not in `make test`: there, test_scratch_boots.py, test_scratch_refusals.py and test_pins.py run.
pytestmark = pytest.mark.thorough


def stripes(scratch: Scratch) -> dict[str, int]:
    """Stripe sizes of the file system and of its array, in bytes."""
    info = scratch.machine.run(f"xfs_info {MOUNTPOINT}")
    block = int(re.findall(r"^data.*bsize=(\d+)", info, re.MULTILINE)[0])
    unit, width = map(int, re.findall(r"sunit=(\d+)\s+swidth=(\d+) blks", info)[0])
    chunk = scratch.machine.run("cat /sys/block/md*/md/chunk_size")
    return {"unit": unit * block, "width": width * block, "chunk": int(chunk)}


def test_the_first_run_builds_and_the_second_changes_nothing(scratch: Scratch) -> None:
    before = scratch.digests()
    [predicted] = scratch.raids({"check": True})
    assert predicted.changed, predicted.msg
    assert not predicted.failed, predicted.msg
    assert predicted["diff"]
    assert scratch.digests() == before
    assert scratch.mounted() == ""

    built, again, still = scratch.raids({}, {}, {"check": True})
    assert not built.failed, built.msg
    assert built.changed
    assert [(result.failed, result.changed) for result in (again, still)] == [(False, False)] * 2, again.msg
    assert scratch.mounted().split()[1] == "xfs"
    assert len(scratch.members()) == qemu.DISKS
    assert scratch.machine.succeeds("mdadm --detail /dev/md* 2>/dev/null | grep -q 'Name : .*hpcai-scratch'")
    geometry = stripes(scratch)
    assert geometry["unit"] == geometry["chunk"]
    assert geometry["width"] == geometry["chunk"] * qemu.DISKS
    assert (
        scratch.machine.run(f"touch {MOUNTPOINT}/file; stat -c '%F' {MOUNTPOINT}/file").strip() == "regular empty file"
    )


def test_the_scratch_has_the_requested_options(scratch: Scratch) -> None:
    four = [disk for disk in scratch.disks() if disk][:4]
    wanted: dict[str, object] = {
        "devices": four,
        "filesystem": "ext4",
        "chunk": "256K",
        "label": "fast",
        "mountpoint": MOUNTPOINT,
        "mount_options": ["noatime", "nodev"],
        "owner": "daemon",
        "group": "games",
        "mode": "1775",
    }
    built, again = scratch.raids(dict(wanted), dict(wanted))
    assert not built.failed, built.msg
    assert (again.failed, again.changed) == (False, False), again.msg
    _source, kind, options = scratch.mounted().split()
    assert kind == "ext4"
    assert {"noatime", "nodev"} <= set(options.split(","))
    assert scratch.machine.run(f"stat -c '%U %G %a' {MOUNTPOINT}").split() == ["daemon", "games", "1775"]
    assert scratch.machine.run("cat /sys/block/md*/md/chunk_size").strip() == str(256 << 10)
    assert scratch.members() == sorted(disk.removeprefix("/dev/") for disk in four)
    assert scratch.machine.run("blkid -o value -s LABEL /dev/md12?").strip() == "fast"


def test_a_single_disk_gets_no_array(scratch: Scratch) -> None:
    disk = scratch.disks()[3]
    built, again = scratch.raids({"devices": [disk]}, {"devices": [disk]})
    assert not built.failed, built.msg
    assert built.changed
    assert (again.failed, again.changed) == (False, False), again.msg
    assert scratch.mounted().split()[:2] == [disk, "xfs"]
    assert scratch.members() == []


def test_too_few_disks_fail_before_anything_is_written(scratch: Scratch) -> None:
    before = scratch.digests()
    seven = scratch.disks()[:7]
    refused = scratch.raid(devices=seven, expected_count=8)
    assert refused.failed
    assert "7" in refused.msg
    assert "8" in refused.msg
    assert scratch.digests() == before
    assert scratch.mounted() == ""


def test_an_unmounted_scratch_is_mounted_again_with_its_files(scratch: Scratch) -> None:
    [built] = scratch.raids({})
    assert built.changed, built.msg
    scratch.machine.run(f"echo kept > {MOUNTPOINT}/file; umount {MOUNTPOINT}")
    [again] = scratch.raids({})
    assert not again.failed, again.msg
    assert again.changed
    assert scratch.machine.run(f"cat {MOUNTPOINT}/file") == "kept\n"

    # Stop the array, and start it by hand under another number and name.
    scratch.machine.run(
        f"umount {MOUNTPOINT}; mdadm --stop --scan; mdadm --assemble --quiet /dev/md42 {' '.join(scratch.disks())}"
    )
    moved, unchanged = scratch.raids({}, {})
    assert not moved.failed, moved.msg
    assert moved.changed
    assert (unchanged.failed, unchanged.changed) == (False, False)
    assert scratch.mounted().startswith("/dev/md42 ") or "42" in scratch.machine.run(
        f"readlink -f $(findmnt -no SOURCE {MOUNTPOINT})"
    )
    assert scratch.machine.run(f"cat {MOUNTPOINT}/file") == "kept\n"


def test_absent_removes_our_scratch(scratch: Scratch) -> None:
    built, predicted = scratch.raids({}, {"state": "absent", "check": True})
    assert built.changed, built.msg
    assert predicted.changed, predicted.msg
    assert scratch.mounted()
    assert len(scratch.members()) == qemu.DISKS
    gone, again = scratch.raids({"state": "absent"}, {"state": "absent"})
    assert not gone.failed, gone.msg
    assert gone.changed
    assert (again.failed, again.changed) == (False, False), again.msg
    assert scratch.mounted() == ""
    assert scratch.members() == []
    assert scratch.machine.run("mdadm --examine /dev/nvme*n1 2>/dev/null | grep Name || true") == ""
    assert not scratch.machine.succeeds("test -e /etc/hpcai/scratch.json")
