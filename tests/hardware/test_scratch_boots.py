# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""systemd brings up the scratch at each boot: it finds the array under another number, and builds a new one if needed.

All tests use one machine, in this order, and leave it running.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from hardware import qemu
from hardware.controller import Task, play
from hardware.scratch import MOUNTPOINT, Scratch
from hardware.vm import ALL, Machine

# A stand-in for slurmd, which must not start before or without the scratch. It records the state of the scratch.
DAEMON = f"""
[Service]
Type=oneshot
ExecStart=sh -c '{{ findmnt -rno SOURCE -M {MOUNTPOINT}; cat {MOUNTPOINT}/file; true; }} > /run/daemon-found'
[Install]
WantedBy=multi-user.target
"""
SERVICE = "hpcai-scratch.service"
DIRECTORIES = "hpcai-directories.service"
# The VM size states the number of disks, because the settings of an image do not. The other steps are skipped.
NODE = {
    "schema": 1,
    "vm_size": "Standard_Emulated",
    "vm_sizes": {"Standard_Emulated": {"vcpus": 4, "memory_mib": 2048, "nvme_count": qemu.DISKS}},
    "boot_skip": ["instance", "key", "gpu", "fabric", "clocks", "nccl"],
}
FOLDERS = {
    "name": "site",
    "mountpoint": MOUNTPOINT,
    "folders": [{"path": "data/all", "group": "games", "mode": "2775"}],
}
SLOW = 200_000
"""Bytes per second and disk: mkfs then takes about a minute."""


@pytest.fixture(scope="module")
def installed(started: Machine) -> Iterator[Scratch]:
    """hpcnode and its units, a persistent scratch, and a daemon that needs it."""
    scratch = Scratch(started)
    scratch.clear()
    started.write("/etc/systemd/system/slurmd.service", DAEMON)
    started.run("systemctl --quiet enable slurmd.service")
    started.run("mkdir -p /etc/hpcai")
    started.write("/etc/hpcai/node.json", json.dumps(NODE))
    options = {**scratch.options(), "nvme_count": qemu.DISKS}
    tasks = [Task("nvme_raid", {**options, "state": "configured"})]
    tasks += [Task("nvme_raid", options), Task("nvme_raid", options), Task("node_directories", FOLDERS)]
    tools, kept, raid, again, directories = play(started, Task("node_tools"), *tasks)
    assert not tools.failed, tools.msg
    assert kept["actions"] == ["write /etc/hpcai/scratch.json"]
    assert not raid.failed, raid.msg
    assert "write /etc/hpcai/scratch.json" not in raid["actions"]
    assert (again.failed, again.changed) == (False, False), again.msg
    assert not directories.failed, directories.msg
    assert directories["kind"] == "mount"
    started.run(f"echo kept > {MOUNTPOINT}/file; sync")
    yield scratch
    started.run("systemctl --quiet disable slurmd.service; rm -f /etc/systemd/system/slurmd.service")
    scratch.clear()
    started.run("rm -f /etc/hpcai/node.json")
    play(started, Task("node_directories", {"state": "absent"}), Task("node_tools", {"state": "absent"}))


@pytest.fixture
def node(installed: Scratch, machine: Machine) -> Scratch:
    """The installed scratch; ``machine`` saves the journal of a failed test."""
    assert machine is installed.machine
    return installed


def service_state(machine: Machine, service: str = SERVICE) -> str:
    """The state of the scratch service, or of another one."""
    return machine.run(f"systemctl show --value --property=ActiveState {service}").strip()


def has_directories(machine: Machine) -> bool:
    """Whether the directories exist with the expected owners and modes, and their service is active."""
    # stat fails if one of them is missing, and then the comparison fails too.
    shown = machine.run(f"stat -c '%U:%G %a' {MOUNTPOINT}/data {MOUNTPOINT}/data/all || true").splitlines()
    return service_state(machine, DIRECTORIES) == "active" and shown == ["root:root 755", "root:games 2775"]


def found_by_daemon(machine: Machine) -> list[str]:
    """The mounted device and the content of the file when the daemon started."""
    return machine.run("cat /run/daemon-found").split()


def test_a_reboot_finds_the_array_under_another_number(node: Scratch) -> None:
    machine = node.machine
    # Assembled by hand as md42; at the boot, the kernel chooses another number.
    machine.run(f"umount {MOUNTPOINT}; mdadm --stop --quiet --scan")
    machine.run("mdadm --assemble --quiet /dev/md42 /dev/nvme*n1; test -d /sys/block/md42")
    machine.reboot()
    assert service_state(machine) == "active"
    assert not machine.succeeds("test -d /sys/block/md42")
    assert len(node.members()) == qemu.DISKS
    assert len(found_by_daemon(machine)) == 2, "the scratch was not mounted when the daemon started"
    assert found_by_daemon(machine)[1] == "kept"
    assert has_directories(machine)
    again = node.raid(nvme_count=8)
    assert (again.failed, again.changed) == (False, False), again.msg


@pytest.mark.thorough
def test_the_status_contains_the_mountpoint(node: Scratch) -> None:
    status = json.loads(node.machine.run("hpcnode scratch status --json"))
    assert MOUNTPOINT in json.dumps(status)
    assert node.machine.succeeds("hpcnode scratch status")


def test_a_boot_with_blank_disks_builds_a_new_array(node: Scratch) -> None:
    machine = node.machine
    machine.power_cut()
    machine.blank(*ALL)
    machine.start()
    assert service_state(machine) == "active"
    assert len(node.members()) == qemu.DISKS
    # It was mounted when the daemon started, without the old file, and the directories were created again.
    assert len(found_by_daemon(machine)) == 1
    assert has_directories(machine)
    machine.run(f"echo kept > {MOUNTPOINT}/file; sync")


@pytest.mark.thorough
def test_a_boot_with_one_blank_disk_builds_a_new_array(node: Scratch) -> None:
    machine = node.machine
    machine.power_cut()
    machine.blank(5)
    machine.start()
    assert service_state(machine) == "active"
    assert len(node.members()) == qemu.DISKS
    assert not machine.succeeds(f"test -e {MOUNTPOINT}/file")


@pytest.mark.thorough
def test_a_boot_recovers_from_a_power_cut_during_mkfs(node: Scratch) -> None:
    machine = node.machine
    # The service builds on blank disks, slowly enough for the power cut to interrupt it.
    machine.run(f"systemctl stop {SERVICE}; umount -q {MOUNTPOINT} || true; mdadm --stop --quiet --scan")
    machine.run("wipefs --all --quiet --force /dev/nvme*n1; udevadm settle; sync")
    machine.throttle(SLOW, *ALL)
    machine.run(f"systemctl start --no-block {SERVICE}")
    machine.wait_until("pgrep -x mkfs.xfs", 90)
    time.sleep(2)
    machine.power_cut()
    machine.start()
    # The boot found our array with a partial file system.
    assert service_state(machine) == "active"
    assert len(node.members()) == qemu.DISKS
    assert machine.succeeds(f"touch {MOUNTPOINT}/file && sync {MOUNTPOINT}/file")
    again = node.raid(nvme_count=8)
    assert (again.failed, again.changed) == (False, False), again.msg


@pytest.fixture
def without_a_disk(node: Scratch) -> Iterator[Scratch]:
    """The machine, booted without one of the disks, which is plugged in again afterwards."""
    node.machine.power_cut()
    node.machine.start(without=(6,))
    yield node
    node.machine.power_cut()
    node.machine.start()


@pytest.mark.thorough
def test_a_missing_disk_at_boot_fails_the_scratch(without_a_disk: Scratch) -> None:
    node, machine = without_a_disk, without_a_disk.machine
    # With seven of eight expected disks, the node must not get a smaller scratch silently.
    assert service_state(machine) == "failed"
    assert node.mounted() == ""
    assert not machine.succeeds("test -e /run/daemon-found"), "the daemon started without scratch"
    journal = machine.run(f"journalctl --boot --no-pager --output=cat --unit={SERVICE}")
    assert "there are 7 local NVMe disks where 8 are expected" in journal
    # The serial numbers of the found disks show which one is missing.
    assert qemu.serial(5) in journal
    assert qemu.serial(6) not in journal
    # The directories are not created on the system disk instead.
    assert service_state(machine, DIRECTORIES) == "failed"
    assert not machine.succeeds(f"test -e {MOUNTPOINT}/data")
    smaller = node.raid(expected_count=7)
    assert not smaller.failed, smaller.msg
    assert smaller.changed
    assert len(node.members()) == qemu.DISKS - 1
