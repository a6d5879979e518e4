# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machine has the properties that the other tests rely on: NUMA nodes, disks, and recovery from a QEMU crash."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from hardware import qemu
from hardware.controller import Task, play
from hardware.scratch import Scratch
from hardware.vm import EmulatorCrashed, Machine
from simulator.suite import suite

# Not in `make test`: there, test_scratch_boots.py, test_scratch_refusals.py and test_pins.py run.
pytestmark = pytest.mark.thorough


def test_the_machine_runs_the_chosen_release(machine: Machine) -> None:
    assert f"VERSION_CODENAME={suite()}" in machine.run("cat /etc/os-release").splitlines()


def test_each_numa_node_has_two_disks(scratch: Scratch) -> None:
    values = scratch.machine.run(
        "cd /sys/class/nvme; for c in nvme*; do cat $c/serial $c/device/numa_node; done"
    ).split()
    nodes = dict(zip(values[::2], map(int, values[1::2]), strict=True))
    assert nodes == {qemu.serial(number): qemu.node_of(number) for number in range(qemu.DISKS)}
    assert sorted(nodes.values()) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_writing_a_disk_changes_only_its_file_on_the_host(scratch: Scratch) -> None:
    before = scratch.digests()
    disk = scratch.disks()[5]
    scratch.machine.run(f"printf x | dd of={disk} bs=1 seek=12345678 conv=notrunc status=none")
    after = scratch.digests()
    assert [old != new for old, new in zip(before, after, strict=True)] == [number == 5 for number in range(qemu.DISKS)]


def test_clearing_makes_disks_blank(scratch: Scratch) -> None:
    scratch.array(*scratch.disks())
    assert len(scratch.members()) == qemu.DISKS
    scratch.clear()
    assert scratch.members() == []
    assert scratch.machine.run("blkid --probe /dev/nvme*n1 || true") == ""


def test_the_machine_has_no_network_access(machine: Machine) -> None:
    assert not machine.succeeds("ip route | grep default")
    assert not machine.succeeds("timeout 3 bash -c ': < /dev/tcp/10.0.2.2/22'")


@pytest.mark.parametrize(
    "act",
    [lambda machine: machine.run("sleep 60"), lambda machine: play(machine, Task("ansible.builtin.ping"))],
    ids=["command", "play"],
)
def test_a_crash_of_the_emulator_is_reported_and_the_machine_restarted(
    machine: Machine, act: Callable[[Machine], object]
) -> None:
    before = machine.boot_id()
    machine.write("/opt/kept", "on the disk")
    os.kill(machine.pid, signal.SIGSEGV)
    with pytest.raises(EmulatorCrashed, match="ended with -11"):
        act(machine)
    assert machine.boot_id() != before
    assert machine.run("cat /opt/kept; rm /opt/kept") == "on the disk"
