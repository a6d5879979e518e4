# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An instance of a baked image boots: what it knows comes from the metadata service, and nobody runs Ansible on it.

One machine goes through all of it, in this order. Faults that need no boot are played by starting slurmd again, which
runs the steps anew that it requires.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from hardware.baked import BLOCKING, STEPS, Node, assert_all_good, assert_blocked
from hardware.baked_files import FOUND, GPU_STATE, IMDS_UNIT, NCCL_BLOCK
from hardware.scratch import MOUNTPOINT, Scratch
from hardware.vm import ALL, Machine

# Not daily: test_scratch_boots.py, test_scratch_refusals.py and test_pins.py hold the daily part.
pytestmark = pytest.mark.thorough
SLOW = 200_000
"""Bytes a second and disk: a file system takes a minute to make."""
BOUND_S = 1800
"""All that the boot phase can take where each blocking step hangs until systemd ends it."""


@pytest.fixture(scope="module")
def baked(started: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The machine as an image leaves it, once rebooted: the metadata service fails three times before it answers."""
    node = Node(Scratch(started))
    try:
        node.bake(tmp_path_factory.mktemp("nvml"))
        node.imds(failing=3)
        started.reboot()
        yield node
    finally:
        node.remove()


@pytest.fixture
def node(baked: Node, machine: Machine) -> Iterator[Node]:
    """That machine; after a fault it is as before."""
    assert machine is baked.machine
    yield baked
    baked.scratch.undo()
    baked.imds()
    baked.gpus(2)
    baked.machine.run("systemctl reset-failed; timeout 400 systemctl start slurmd.service || true", 450)


# Boots


def test_comes_up_with_nothing_but_the_metadata_service(node: Node) -> None:
    assert_all_good(node)
    assert node.status()["steps"]["instance"]["verdict"] == "pass"


def test_steps_ran_in_their_order(node: Node) -> None:
    # Not by their records: those of gpu and clocks are of a later run, for the driver that was loaded in the boot.
    units = " ".join(f"hpcai-{step}.service" for step in STEPS)
    told = node.machine.run(f"systemctl show --property=ExecMainStartTimestampMonotonic --value {units} slurmd.service")
    started = [int(line) for line in told.split()]
    assert len(started) == len(STEPS) + 1
    assert started == sorted(started)
    assert node.record("gpu")["boot_id"] == node.record("key")["boot_id"] == node.machine.boot_id()


def test_a_metadata_service_that_fails_first_is_asked_again(node: Node) -> None:
    journal = node.machine.run(f"journalctl --boot --no-pager --output=cat --unit={IMDS_UNIT}")
    answers = [line.split('" ')[1].split()[0] for line in journal.splitlines() if "/metadata/instance" in line]
    assert answers[:4] == ["500", "500", "500", "200"]
    # Other steps ask the service too, but the first one had it right.
    assert node.record("instance")["verdict"] == "pass"


def test_the_images_own_service_does_not_get_the_last_word_on_nccl_conf(node: Node) -> None:
    # It wrote the file anew in this boot, before the step.
    assert node.machine.succeeds("systemctl is-active --quiet sku-customizations.service")
    text = node.machine.run("cat /etc/nccl.conf")
    assert "NCCL_IB_PCI_RELAXED_ORDERING=1" in text
    assert NCCL_BLOCK in text
    assert "NCCL_DEBUG=WARN" in text
    node.machine.run("systemctl restart sku-customizations.service")
    node.machine.wait_until(f"grep -q '{NCCL_BLOCK}' /etc/nccl.conf", 90)


def test_each_blocking_unit_is_bounded(node: Node) -> None:
    units = " ".join(f"hpcai-{step}.service" for step in BLOCKING)
    told = node.machine.run(
        f"systemctl show --property=TimeoutStartUSec --value {units}; systemctl show "
        "--property=Requires --value slurmd.service"
    )
    *limits, required = filter(str.strip, told.splitlines())
    assert len(limits) == len(BLOCKING)
    seconds = [seconds_of(limit) for limit in limits]
    assert all(0 < each < BOUND_S for each in seconds)
    assert sum(seconds) < BOUND_S
    assert all(f"hpcai-{step}.service" in required for step in BLOCKING)


def seconds_of(text: str) -> int:
    """A time of systemd's, such as ``3min 20s``; C(infinity) is none."""
    units = {"h": 3600, "min": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)(h|min|s)\b", text))


def test_reboot_keeps_array_and_files(node: Node) -> None:
    machine = node.machine
    before = machine.run(f"blkid -o value -s UUID $(findmnt -rno SOURCE -M {MOUNTPOINT})")
    machine.run(f"echo kept > {MOUNTPOINT}/file; sync")
    machine.reboot()
    assert_all_good(node)
    assert node.found()["file"] == "kept\n"
    assert machine.run(f"blkid -o value -s UUID $(findmnt -rno SOURCE -M {MOUNTPOINT})") == before


def test_blank_disks_are_built_anew(node: Node) -> None:
    node.machine.power_cut()
    node.machine.blank(*ALL)
    node.machine.start()
    assert_all_good(node)
    assert node.found()["file"] == ""


# Faults


def test_a_disk_less_keeps_slurmd_from_starting(node: Node) -> None:
    machine = node.machine
    machine.run(f"systemctl stop slurmd.service; umount {MOUNTPOINT}; mdadm --stop --quiet --scan")
    node.scratch.unplug(5)
    status = node.start_again("scratch", "directories")
    assert status["state"] == "blocked"
    assert "scratch" in status["blocking"]
    assert not node.is_started()
    words = "there are 7 local NVMe disks where 8 are expected"
    assert words in status["steps"]["scratch"]["summary"]
    assert words in node.journal("scratch")


def test_a_gpu_less_keeps_slurmd_from_starting(node: Node) -> None:
    node.gpus(1)
    assert_blocked(node, node.start_again("gpu"), "gpu", "1 of 2 GPUs", "0002:00:00.0")


def test_a_driver_that_is_not_loaded_keeps_slurmd_from_starting(node: Node) -> None:
    # As where the kernel is newer than the modules that were built.
    node.machine.run("modprobe -r nvidia_uvm nvidia; mkdir /run/away; mv /lib/modules/*/extra/*.ko /run/away")
    node.later("mv /run/away/*.ko /lib/modules/*/extra; rmdir /run/away")
    assert_blocked(node, node.start_again("gpu"), "gpu", "driver is not loaded")


def test_a_driver_that_does_not_answer_is_not_waited_for_long(node: Node) -> None:
    node.configure("gpu", {"timeout": 10})
    node.later("sed -i s/10/30/ /etc/hpcai/gpu.json")
    node.gpus(2, "hang.nvmlInitWithFlags=600")
    began = time.monotonic()
    status = node.start_again("gpu", "directories")
    assert time.monotonic() - began < 200
    assert_blocked(node, status, "gpu", "did not answer twice")
    # One step's failure does not keep the others from doing their part.
    assert status["steps"]["directories"]["verdict"] == "pass"


def test_an_unknown_vm_size_keeps_slurmd_from_starting(node: Node) -> None:
    node.imds({"vmSize": "Standard_Nonesuch_v9"})
    assert_blocked(node, node.start_again("instance"), "instance", "Standard_Nonesuch_v9")


@pytest.mark.parametrize(
    ("settings", "step"),
    [("node", "instance"), ("scratch", "scratch")],
)
def test_broken_settings_keep_slurmd_from_starting(node: Node, settings: str, step: str) -> None:
    path = f"/etc/hpcai/{settings}.json"
    node.machine.run(f"cp {path} {path}.good; echo '{{' > {path}")
    node.later(f"mv {path}.good {path}")
    assert_blocked(node, node.start_again(step), step, path, "not valid JSON")


def test_missing_settings_of_a_known_size_are_no_hindrance(node: Node) -> None:
    # Clocks and NCCL may be left as they are; the number of disks is the VM size's.
    node.machine.run("cd /etc/hpcai; mkdir away; mv gpu.json directories.json away")
    node.later("mv /etc/hpcai/away/* /etc/hpcai; rmdir /etc/hpcai/away")
    status = node.start_again("gpu", "directories")
    assert status["state"] == "ready"
    assert node.is_started()


def test_no_metadata_service_is_got_along_without_by_what_is_remembered(node: Node) -> None:
    node.machine.run(f"systemctl stop {IMDS_UNIT}")
    node.later(f"systemctl start {IMDS_UNIT}")
    status = node.start_again("instance")
    assert status["steps"]["instance"]["verdict"] == "warn"
    assert "using the recorded values" in status["steps"]["instance"]["summary"]
    assert status["steps"]["instance"]["seconds"] < 80
    assert status["state"] == "ready"
    assert node.is_started()


def test_no_metadata_service_and_nothing_known_keeps_slurmd_from_starting(node: Node) -> None:
    node.imds(refusing=403)
    node.machine.run("mkdir /run/away; mv /var/lib/hpcai/instance.json /var/lib/hpcai/joining.json /run/away")
    node.later("mv -f /run/away/* /var/lib/hpcai; rmdir /run/away")
    assert_blocked(node, node.start_again("instance"), "instance", "nothing else identifies this machine")


def test_a_slow_metadata_service_is_waited_for(node: Node) -> None:
    node.imds(drip=0.01)
    status = node.start_again("instance")
    assert status["steps"]["instance"]["verdict"] == "pass"
    assert status["steps"]["instance"]["seconds"] > 4
    assert node.is_started()


def test_a_key_that_comes_later_lets_slurmd_start(node: Node) -> None:
    node.machine.run("mv /etc/munge/munge.key /etc/munge/away")
    node.later("test -e /etc/munge/munge.key || mv /etc/munge/away /etc/munge/munge.key")
    assert_blocked(node, node.start_again("key"), "key", "no munge key")
    # As site.yml does it.
    node.machine.run("mv /etc/munge/away /etc/munge/munge.key; systemctl start slurmd.service")
    assert node.is_started()
    assert node.status()["state"] == "ready"


def test_a_full_system_disk_is_said_and_leaves_nothing_half_written(node: Node) -> None:
    node.machine.run("mount -t tmpfs -o size=4k tmpfs /var/lib/hpcai; head -c 4096 /dev/zero > /var/lib/hpcai/all")
    node.later("umount /var/lib/hpcai")
    assert_blocked(node, node.start_again("instance"), "instance", "No space left", "/var/lib/hpcai")
    assert node.machine.run("ls -A /var/lib/hpcai") == "all\n"
    assert "Free some space" in node.status()["steps"]["instance"]["action"]


def test_a_step_whose_record_cannot_be_written_is_done_all_the_same(node: Node) -> None:
    node.machine.run("systemctl stop slurmd.service hpcai-gpu.service")
    # Without an inode left, whoever comes first.
    node.machine.run("mount -t tmpfs -o nr_inodes=1 tmpfs /run/hpcai")
    node.later("umount /run/hpcai")
    status = node.start_again("gpu")
    assert node.is_started()
    assert "no record" in status["steps"]["gpu"]["summary"]
    assert "cannot write /run/hpcai" in node.journal("gpu")


def test_a_full_scratch_is_told(node: Node) -> None:
    node.machine.run(
        f"fallocate -l $(df -B1 --output=avail {MOUNTPOINT} | tail -n1) {MOUNTPOINT}/all || "
        f"dd if=/dev/zero of={MOUNTPOINT}/all bs=1M 2>/dev/null || true"
    )
    node.later(f"rm -f {MOUNTPOINT}/all")
    status = node.start_again("directories")
    assert f"{MOUNTPOINT} is full" in status["steps"]["directories"]["summary"]
    # Jobs clear it up.
    assert node.is_started()


def test_clocks_come_back_after_a_driver_reload(node: Node) -> None:
    machine = node.machine
    node.start_again("gpu")
    machine.run(f"modprobe -r nvidia_uvm nvidia; rm -f {GPU_STATE}/state; modprobe nvidia")
    machine.wait_until(f"test $(grep -c set.application_graphics=1410 {GPU_STATE}/state) = 2", 150)
    machine.wait_until("systemctl show -P ActiveState hpcai-driver-loaded.service | grep -qx inactive", 60)
    assert machine.run("systemctl show -P Result hpcai-driver-loaded.service").strip() == "success"
    assert machine.succeeds("test -d /sys/module/nvidia_uvm")


# A boot that is cut short


def test_a_power_cut_in_the_boot_phase_is_made_good_by_the_next_boot(node: Node) -> None:
    machine = node.machine
    machine.run(
        f"systemctl stop slurmd.service hpcai-scratch.service; umount {MOUNTPOINT}; mdadm --stop --quiet --scan"
    )
    machine.run(f"rm -rf {FOUND}; wipefs --all --quiet --force /dev/nvme*n1; udevadm settle; sync")
    machine.throttle(SLOW, *ALL)
    machine.run("systemctl start --no-block slurmd.service")
    machine.wait_until("pgrep -x mkfs.xfs", 90)
    status = node.status()
    assert (status["state"], status["steps"]["scratch"]["verdict"]) == ("unfinished", "running")
    machine.power_cut()
    machine.start()
    assert_all_good(node)
