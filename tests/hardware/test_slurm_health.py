# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults that need a separate kernel: an XID in its log, and a disk that disappears from a running array.

Slurm itself calls the health checks, more often than in production. After each test, the node is idle.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from hardware import qemu
from hardware.controller import module, run_roles
from hardware.scratch import MOUNTPOINT, plug_command, unplug_command
from hardware.slurm import DISKS, GPUS, GROUPS, VARIABLES, VM_SIZE, OneNode
from hardware.vm import HOST, Machine

# In `make test`, the simulated cluster covers drain and resume, and unit tests cover the checks with recorded kernels.
pytestmark = pytest.mark.thorough
PERIOD_S = 30
WITHIN_S = PERIOD_S + 150
"""One period, plus the checks on a busy emulated processor, the report, and the next run of the arbiter."""
OURS = "hpcai: health: "
GPU = "0001:00:00.0"
# Checks that cannot pass: the machine has no GPUs, except for errors in its kernel log, and no network.
SKIPPED_CHECKS = (
    "network "
    "gpu_clocks gpu_count gpu_driver_log gpu_ecc gpu_identity gpu_mig gpu_nvlink gpu_pcie gpu_persistence gpu_power "
    "gpu_processes gpu_retired_pages gpu_row_remap gpu_temperature gpu_throttle peer_memory pci_topology services"
)
SETTINGS = {
    "health_checks_config": {"skip": SKIPPED_CHECKS.split()},
    "health_checks_arbiter": {"interval_s": 2, "max_out": "1"},
    # A prolog waits for the checks, which take an emulated processor seconds.
    "slurm_job_hook_limits": {"prolog": {"total": 100}},
}


@pytest.fixture(scope="module")
def watched(one_node: OneNode) -> Iterator[Machine]:
    """The machine with a scratch on NVMe disks, health checks and an arbiter."""
    machine = one_node.machine
    machine.run(f"rm -rf {MOUNTPOINT}")
    raid = module(machine, "nvme_raid", mountpoint=MOUNTPOINT, models=[qemu.MODEL], nvme_count=DISKS)
    assert not raid.failed, raid.msg
    restart_slurmd_on_scratch(machine)
    expect_devices(machine, gpu_count=GPUS, nvme_count=DISKS)
    run_roles(machine, GROUPS, {**VARIABLES, **SETTINGS}, "health_checks")
    machine.run(
        "cp /etc/slurm/slurm.conf /root/slurm.conf; "
        f"sed -i 's/^HealthCheckInterval=.*/HealthCheckInterval={PERIOD_S}/' /etc/slurm/slurm.conf; "
        "scontrol reconfigure"
    )
    machine.wait_until("scontrol --oneliner show node | grep -q ' Extra=hpcai-health/1;'", WITHIN_S)
    yield machine
    machine.run("cp /root/slurm.conf /etc/slurm/slurm.conf; scontrol reconfigure")
    run_roles(machine, GROUPS, {**VARIABLES, **SETTINGS, "health_checks_state": "absent"}, "health_checks")
    expect_devices(machine, gpu_count=0, nvme_count=0)


def restart_slurmd_on_scratch(machine: Machine) -> None:
    """Prepare the scratch as a boot does, and restart slurmd, which creates the folder for private folders of jobs."""
    machine.run(f"chmod 1777 {MOUNTPOINT}; systemctl restart slurmd", 180)
    wait_for_state(machine, "idle|drained")


def expect_devices(machine: Machine, **devices: int) -> None:
    """Set the numbers of devices that the machine's VM size is expected to have."""
    node = json.loads(machine.run("cat /etc/hpcai/node.json"))
    node["vm_sizes"][VM_SIZE].update(devices)
    machine.write("/etc/hpcai/node.json", json.dumps(node))


def reason(machine: Machine) -> str:
    """The node's drain reason, as sinfo -R shows it."""
    return machine.run("sinfo --list-reasons --noheader --format=%E").strip()


def eventually(machine: Machine, command: str) -> None:
    """Wait until a command succeeds; if it does not, the error contains the state of the cluster."""
    try:
        machine.wait_until(command, WITHIN_S)
    except qemu.EmulatorError as error:
        state = machine.run(
            "set +e; hpcnode health status; hpcnode arbiter status; scontrol show node; squeue --long; "
            "journalctl --no-pager --lines=60 --unit=slurmd --unit=slurmctld --unit='hpcai-health-*' || true"
        )
        raise AssertionError(f"{error}: {state}") from error


def wait_for_reason(machine: Machine, words: str) -> None:
    """Wait until the node's drain reason contains these words."""
    eventually(machine, f"sinfo --list-reasons --noheader --format=%E | grep -qF {shlex.quote(words)}")


def wait_for_state(machine: Machine, state: str) -> None:
    """Wait until the node's state matches this pattern."""
    eventually(machine, f"sinfo --noheader --nodes={HOST} --format=%T | grep -Eqx '{state}'")


def start_job(machine: Machine) -> str:
    """Start a job that runs until end_job, and return its number."""
    words = "sbatch --parsable --ntasks=1 --mem=50 --time=10 --output=/dev/null"
    wrap = "touch /var/tmp/begun; until [ -e /run/enough ]; do sleep 1; done"
    job = machine.run(f"rm -f /run/enough /var/tmp/begun; {words} --wrap '{wrap}'").strip()
    # Slurm reports a job as running as soon as its prolog starts.
    eventually(machine, "[ -e /var/tmp/begun ]")
    return job


def end_job(machine: Machine, job: str) -> None:
    """End the job, and check that it completes."""
    assert "JobState=RUNNING" in machine.run(f"scontrol show job {job}")
    machine.run("touch /run/enough")
    eventually(machine, f"scontrol show job {job} | grep -q JobState=COMPLETED")


def test_a_healthy_node_stays_in_scheduling(watched: Machine) -> None:
    verdicts = json.loads(watched.run("cat /run/hpcai/health/periodic.json"))["checks"]
    found = {check["name"]: check["verdict"] for check in verdicts}
    assert (found["gpu_xid"], found["scratch"]) == ("pass", "pass")
    assert [check for check in verdicts if check["verdict"] == "fail"] == []
    assert (reason(watched), watched.run("sinfo --noheader --format=%T").strip()) == ("", "idle")


def test_an_xid_in_the_kernel_log_drains_the_node_until_it_is_cleared(watched: Machine) -> None:
    job = start_job(watched)
    words = (
        f"NVRM: Xid (PCI:{GPU.removesuffix('.0')}): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit"
    )
    watched.run(f'echo "<4>{words}" > /dev/kmsg')
    wait_for_reason(watched, f"{OURS}gpu_xid: GPU {GPU}: XID 48: ")
    end_job(watched, job)
    wait_for_state(watched, "drained")
    # The log contains it only once, but the check still fails a period later.
    watched.run(f"sleep {PERIOD_S + 10}")
    assert reason(watched).startswith(f"{OURS}gpu_xid: ")
    watched.run("hpcnode health clear gpu_xid")
    wait_for_state(watched, "idle")
    assert reason(watched) == ""


def test_an_array_without_a_disk_drains_the_node_until_it_is_rebuilt(watched: Machine) -> None:
    job = start_job(watched)
    disk = watched.run("ls -d /sys/block/md*/slaves/* | head -n 1").strip().rsplit("/", 1)[1]
    watched.run(unplug_command(disk))
    # The reason must name the array, not the file system, whose shutdown is in the kernel log, too.
    wait_for_reason(watched, f"{OURS}scratch: the scratch's array ")
    end_job(watched, job)
    wait_for_state(watched, "drained")
    watched.run(
        f"umount --lazy {MOUNTPOINT}; mdadm --stop --quiet --scan; {plug_command(DISKS)}; "
        "hpcnode scratch up; hpcnode health clear disk_errors"
    )
    restart_slurmd_on_scratch(watched)
    wait_for_state(watched, "idle")
    assert reason(watched) == ""
    end_job(watched, start_job(watched))
