# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An instance of a baked image boots without Ansible: it gets its data from the metadata service.

All tests use one machine, in this order. For faults that need no reboot, the tests start slurmd again, which repeats
the steps that it requires.
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

# Not in `make test`: there, test_scratch_boots.py, test_scratch_refusals.py and test_pins.py run.
pytestmark = pytest.mark.thorough
SLOW = 200_000
"""Bytes per second and disk: mkfs then takes about a minute."""
BOUND_S = 1800
"""Maximum duration of the boot phase if each blocking step hangs until systemd ends it."""


@pytest.fixture(scope="module")
def baked(started: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The machine after the first boot of a baked image. The metadata service failed three times before it answered."""
    node = Node(Scratch(started))
    try:
        node.bake(tmp_path_factory.mktemp("nvml"))
        node.set_metadata(failing=3)
        started.reboot()
        yield node
    finally:
        node.remove()


@pytest.fixture
def node(baked: Node, machine: Machine) -> Iterator[Node]:
    """The machine. Faults are undone after each test."""
    assert machine is baked.machine
    yield baked
    baked.scratch.undo()
    baked.set_metadata()
    baked.set_gpus(2)
    baked.machine.run("systemctl reset-failed; timeout 400 systemctl start slurmd.service || true", 450)


# Boots


def test_a_baked_image_boots_with_only_the_metadata_service(node: Node) -> None:
    assert_all_good(node)
    assert node.status()["steps"]["instance"]["verdict"] == "pass"


def test_steps_run_in_order(node: Node) -> None:
    # The records cannot show this: gpu and clocks ran again when the driver was loaded during the boot.
    units = " ".join(f"hpcai-{step}.service" for step in STEPS)
    text = node.machine.run(f"systemctl show --property=ExecMainStartTimestampMonotonic --value {units} slurmd.service")
    started = [int(line) for line in text.split()]
    assert len(started) == len(STEPS) + 1
    assert started == sorted(started)
    assert node.record("gpu")["boot_id"] == node.record("key")["boot_id"] == node.machine.boot_id()


def test_a_failing_metadata_service_is_asked_again(node: Node) -> None:
    journal = node.machine.run(f"journalctl --boot --no-pager --output=cat --unit={IMDS_UNIT}")
    answers = [line.split('" ')[1].split()[0] for line in journal.splitlines() if "/metadata/instance" in line]
    assert answers[:4] == ["500", "500", "500", "200"]
    # Other steps query the service, too; the step instance itself passed.
    assert node.record("instance")["verdict"] == "pass"


def test_the_nccl_block_is_restored_after_the_images_service(node: Node) -> None:
    # The service wrote the file in this boot, before the step ran.
    assert node.machine.succeeds("systemctl is-active --quiet sku-customizations.service")
    text = node.machine.run("cat /etc/nccl.conf")
    assert "NCCL_IB_PCI_RELAXED_ORDERING=1" in text
    assert NCCL_BLOCK in text
    assert "NCCL_DEBUG=WARN" in text
    node.machine.run("systemctl restart sku-customizations.service")
    node.machine.wait_until(f"grep -q '{NCCL_BLOCK}' /etc/nccl.conf", 90)


def test_each_blocking_unit_has_a_start_timeout(node: Node) -> None:
    units = " ".join(f"hpcai-{step}.service" for step in BLOCKING)
    output = node.machine.run(
        f"systemctl show --property=TimeoutStartUSec --value {units}; systemctl show "
        "--property=Requires --value slurmd.service"
    )
    *limits, required = filter(str.strip, output.splitlines())
    assert len(limits) == len(BLOCKING)
    seconds = [seconds_of(limit) for limit in limits]
    assert all(0 < each < BOUND_S for each in seconds)
    assert sum(seconds) < BOUND_S
    assert all(f"hpcai-{step}.service" in required for step in BLOCKING)


def seconds_of(text: str) -> int:
    """Seconds of a time in systemd's format, such as ``3min 20s``; 0 for C(infinity)."""
    units = {"h": 3600, "min": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)(h|min|s)\b", text))


def test_a_reboot_keeps_array_and_files(node: Node) -> None:
    machine = node.machine
    before = machine.run(f"blkid -o value -s UUID $(findmnt -rno SOURCE -M {MOUNTPOINT})")
    machine.run(f"echo kept > {MOUNTPOINT}/file; sync")
    machine.reboot()
    assert_all_good(node)
    assert node.found()["file"] == "kept\n"
    assert machine.run(f"blkid -o value -s UUID $(findmnt -rno SOURCE -M {MOUNTPOINT})") == before


def test_blank_disks_get_a_new_array(node: Node) -> None:
    node.machine.power_cut()
    node.machine.blank(*ALL)
    node.machine.start()
    assert_all_good(node)
    assert node.found()["file"] == ""


# Faults


def test_a_missing_disk_keeps_slurmd_from_starting(node: Node) -> None:
    machine = node.machine
    machine.run(f"systemctl stop slurmd.service; umount {MOUNTPOINT}; mdadm --stop --quiet --scan")
    node.scratch.unplug(5)
    status = node.restart_slurmd("scratch", "directories")
    assert status["state"] == "blocked"
    assert "scratch" in status["blocking"]
    assert not node.is_started()
    words = "there are 7 local NVMe disks where 8 are expected"
    assert words in status["steps"]["scratch"]["summary"]
    assert words in node.journal("scratch")


def test_a_missing_gpu_keeps_slurmd_from_starting(node: Node) -> None:
    node.set_gpus(1)
    assert_blocked(node, node.restart_slurmd("gpu"), "gpu", "1 of 2 GPUs", "0002:00:00.0")


def test_an_unloaded_driver_keeps_slurmd_from_starting(node: Node) -> None:
    # The same happens if the kernel is newer than the built modules.
    node.machine.run("modprobe -r nvidia_uvm nvidia; mkdir /run/away; mv /lib/modules/*/extra/*.ko /run/away")
    node.add_cleanup("mv /run/away/*.ko /lib/modules/*/extra; rmdir /run/away")
    assert_blocked(node, node.restart_slurmd("gpu"), "gpu", "driver is not loaded")


def test_a_hanging_driver_blocks_slurmd_after_a_timeout(node: Node) -> None:
    node.configure("gpu", {"timeout": 10})
    node.add_cleanup("sed -i s/10/30/ /etc/hpcai/gpu.json")
    node.set_gpus(2, "hang.nvmlInitWithFlags=600")
    began = time.monotonic()
    status = node.restart_slurmd("gpu", "directories")
    assert time.monotonic() - began < 200
    assert_blocked(node, status, "gpu", "did not answer twice")
    # The failure of one step does not stop the others.
    assert status["steps"]["directories"]["verdict"] == "pass"


def test_an_unknown_vm_size_keeps_slurmd_from_starting(node: Node) -> None:
    node.set_metadata({"vmSize": "Standard_Nonesuch_v9"})
    assert_blocked(node, node.restart_slurmd("instance"), "instance", "Standard_Nonesuch_v9")


@pytest.mark.parametrize(
    ("settings", "step"),
    [("node", "instance"), ("scratch", "scratch")],
)
def test_broken_settings_keep_slurmd_from_starting(node: Node, settings: str, step: str) -> None:
    path = f"/etc/hpcai/{settings}.json"
    node.machine.run(f"cp {path} {path}.good; echo '{{' > {path}")
    node.add_cleanup(f"mv {path}.good {path}")
    assert_blocked(node, node.restart_slurmd(step), step, path, "not valid JSON")


def test_slurmd_starts_without_optional_settings(node: Node) -> None:
    # The VM size states the number of disks. Without their settings, GPU and folders need no changes.
    node.machine.run("cd /etc/hpcai; mkdir away; mv gpu.json directories.json away")
    node.add_cleanup("mv /etc/hpcai/away/* /etc/hpcai; rmdir /etc/hpcai/away")
    status = node.restart_slurmd("gpu", "directories")
    assert status["state"] == "ready"
    assert node.is_started()


def test_without_metadata_service_a_boot_uses_stored_data(node: Node) -> None:
    node.machine.run(f"systemctl stop {IMDS_UNIT}")
    node.add_cleanup(f"systemctl start {IMDS_UNIT}")
    status = node.restart_slurmd("instance")
    assert status["steps"]["instance"]["verdict"] == "warn"
    assert "using the recorded values" in status["steps"]["instance"]["summary"]
    assert status["steps"]["instance"]["seconds"] < 80
    assert status["state"] == "ready"
    assert node.is_started()


def test_without_metadata_service_and_stored_data_slurmd_does_not_start(node: Node) -> None:
    node.set_metadata(refusing=403)
    node.machine.run("mkdir /run/away; mv /var/lib/hpcai/instance.json /var/lib/hpcai/joining.json /run/away")
    node.add_cleanup("mv -f /run/away/* /var/lib/hpcai; rmdir /run/away")
    assert_blocked(node, node.restart_slurmd("instance"), "instance", "nothing else identifies this machine")


def test_a_slow_metadata_service_is_waited_for(node: Node) -> None:
    node.set_metadata(drip=0.01)
    status = node.restart_slurmd("instance")
    assert status["steps"]["instance"]["verdict"] == "pass"
    assert status["steps"]["instance"]["seconds"] > 4
    assert node.is_started()


def test_slurmd_starts_once_the_key_exists(node: Node) -> None:
    node.machine.run("mv /etc/munge/munge.key /etc/munge/away")
    node.add_cleanup("test -e /etc/munge/munge.key || mv /etc/munge/away /etc/munge/munge.key")
    assert_blocked(node, node.restart_slurmd("key"), "key", "no munge key")
    # As site.yml does.
    node.machine.run("mv /etc/munge/away /etc/munge/munge.key; systemctl start slurmd.service")
    assert node.is_started()
    assert node.status()["state"] == "ready"


def test_a_full_system_disk_is_reported_and_leaves_no_partial_file(node: Node) -> None:
    node.machine.run("mount -t tmpfs -o size=4k tmpfs /var/lib/hpcai; head -c 4096 /dev/zero > /var/lib/hpcai/all")
    node.add_cleanup("umount /var/lib/hpcai")
    assert_blocked(node, node.restart_slurmd("instance"), "instance", "No space left", "/var/lib/hpcai")
    assert node.machine.run("ls -A /var/lib/hpcai") == "all\n"
    assert "Free some space" in node.status()["steps"]["instance"]["action"]


def test_a_step_runs_even_if_its_record_cannot_be_written(node: Node) -> None:
    node.machine.run("systemctl stop slurmd.service hpcai-gpu.service")
    # No inode is left, whichever service writes first.
    node.machine.run("mount -t tmpfs -o nr_inodes=1 tmpfs /run/hpcai")
    node.add_cleanup("umount /run/hpcai")
    status = node.restart_slurmd("gpu")
    assert node.is_started()
    assert "no record" in status["steps"]["gpu"]["summary"]
    assert "cannot write /run/hpcai" in node.journal("gpu")


def test_a_full_scratch_is_reported(node: Node) -> None:
    node.machine.run(
        f"fallocate -l $(df -B1 --output=avail {MOUNTPOINT} | tail -n1) {MOUNTPOINT}/all || "
        f"dd if=/dev/zero of={MOUNTPOINT}/all bs=1M 2>/dev/null || true"
    )
    node.add_cleanup(f"rm -f {MOUNTPOINT}/all")
    status = node.restart_slurmd("directories")
    assert f"{MOUNTPOINT} is full" in status["steps"]["directories"]["summary"]
    # slurmd starts, because jobs can clean up the scratch.
    assert node.is_started()


def test_clocks_are_set_again_after_a_driver_reload(node: Node) -> None:
    machine = node.machine
    node.restart_slurmd("gpu")
    machine.run(f"modprobe -r nvidia_uvm nvidia; rm -f {GPU_STATE}/state; modprobe nvidia")
    machine.wait_until(f"test $(grep -c set.application_graphics=1410 {GPU_STATE}/state) = 2", 150)
    machine.wait_until("systemctl show -P ActiveState hpcai-driver-loaded.service | grep -qx inactive", 60)
    assert machine.run("systemctl show -P Result hpcai-driver-loaded.service").strip() == "success"
    assert machine.succeeds("test -d /sys/module/nvidia_uvm")


# A boot that is cut short


def test_a_boot_recovers_from_a_power_cut_in_the_boot_phase(node: Node) -> None:
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
