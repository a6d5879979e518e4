# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""If a build by nvme_raid fails midway, it cleans up and reports the error, and the next run succeeds."""

from __future__ import annotations

import concurrent.futures

import pytest

from hardware import qemu
from hardware.scratch import Scratch
from hardware.vm import ALL

# Not in `make test`: there, test_scratch_boots.py, test_scratch_refusals.py and test_pins.py run.
pytestmark = pytest.mark.thorough
SLOW = 200_000
"""Bytes per second and disk: mkfs then takes about a minute."""


def test_a_killed_mkfs_is_cleaned_up(scratch: Scratch) -> None:
    machine = scratch.machine
    machine.throttle(SLOW, *ALL)
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = pool.submit(scratch.raid)
            machine.wait_until("pgrep -x mkfs.xfs", 90)
            machine.run("pkill -KILL -x mkfs.xfs")
            machine.throttle(0, *ALL)
            failed = running.result()
    finally:
        machine.throttle(0, *ALL)
    assert failed.failed
    assert "mkfs" in failed.msg
    assert scratch.mounted() == ""
    assert scratch.members() == []
    [again] = scratch.raids({})
    assert not again.failed, again.msg
    assert again.changed
    assert len(scratch.members()) == qemu.DISKS


def test_an_array_is_removed_if_mdadm_fails_midway(scratch: Scratch) -> None:
    # The real program succeeds, but its wrapper fails: superblocks and a running array exist.
    scratch.replace_program(
        "mdadm",
        """case " $* " in *" --create "*) /sbin/mdadm "$@"; echo "mdadm: no such luck" >&2; exit 1;; esac
exec /sbin/mdadm "$@\"""",
    )
    failed = scratch.raid()
    assert failed.failed
    assert "mdadm" in failed.msg
    assert scratch.members() == []
    assert scratch.machine.run("/sbin/mdadm --examine /dev/nvme*n1 2>/dev/null | grep Name || true") == ""
    scratch.undo()
    [again] = scratch.raids({})
    assert not again.failed, again.msg
    assert scratch.mounted()


def test_of_two_runs_at_once_one_waits_for_the_other(scratch: Scratch) -> None:
    # Slow disks, so that the second run starts while the first one still works.
    scratch.machine.throttle(5 * SLOW, *ALL)
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = [pool.submit(scratch.raid, lock_timeout=200) for _run in range(2)]
            results = [running.result() for running in runs]
    finally:
        scratch.machine.throttle(0, *ALL)
    assert [result.failed for result in results] == [False, False], [result.msg for result in results]
    assert sorted(result.changed for result in results) == [False, True]
    assert scratch.mounted()
    assert len(scratch.members()) == qemu.DISKS


def test_a_blank_disk_causes_a_rebuild(scratch: Scratch) -> None:
    [built] = scratch.raids({})
    assert built.changed, built.msg
    machine = scratch.machine
    machine.run("umount /scratch; mdadm --stop --quiet --scan")
    machine.run(f"wipefs --all --quiet --force {scratch.disks()[2]}; udevadm settle")
    rebuilt, again = scratch.raids({}, {})
    assert not rebuilt.failed, rebuilt.msg
    assert rebuilt.changed
    assert (again.failed, again.changed) == (False, False), again.msg
    assert len(scratch.members()) == qemu.DISKS


def test_a_missing_disk_causes_a_rebuild_on_request(scratch: Scratch) -> None:
    [built] = scratch.raids({})
    assert built.changed, built.msg
    scratch.unplug(4)
    left = [disk for disk in scratch.disks() if disk]
    assert len(left) == qemu.DISKS - 1
    refused = scratch.raid(devices=left, expected_count=8)
    assert refused.failed
    assert "7" in refused.msg
    rebuilt, again = scratch.raids({"devices": left}, {"devices": left})
    assert not rebuilt.failed, rebuilt.msg
    assert rebuilt.changed
    assert (again.failed, again.changed) == (False, False), again.msg
    assert scratch.members() == sorted(disk.removeprefix("/dev/") for disk in left)
    assert scratch.machine.succeeds("touch /scratch/file && sync /scratch/file")
