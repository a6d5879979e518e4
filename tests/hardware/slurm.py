# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An emulated machine as a cluster of one node: the roles configure slurmctld and slurmd with their defaults.

Stand-ins for GPUs are device files without a driver. Opening one fails with ENXIO if the cgroup allows the access, and
with EPERM if not, because the kernel checks the cgroup first.
"""

from __future__ import annotations

import json
from typing import Any

from hardware import qemu
from hardware.controller import run_roles
from hardware.vm import HOST, Machine

CORES = 2
"""CPUs of each NUMA node."""
CPUS = CORES * qemu.NUMA_NODES
GPUS = 2
DISKS = 2
"""Number of NVMe disks. Each disk makes a boot slower."""
VM_SIZE = "Standard_Emulated"
GROUPS = ("hpcai_controller", "hpcai_compute")
# Only variables that describe this machine and features that it lacks. Tracking and constraints keep their defaults.
VARIABLES: dict[str, Any] = {
    "azure_private_ipv4": "10.0.2.15",
    "azure_vm_size": VM_SIZE,
    "hpcai_cluster_name": "emulated",
    "hpcai_vm_sizes": {
        VM_SIZE: {
            "vcpus": CPUS,
            "sockets": qemu.NUMA_NODES,
            "cores_per_socket": CORES,
            "threads_per_core": 1,
            "memory_mib": 1900,
            "gpu_count": 0,
            "hca_count": 0,
            "nvme_count": 0,
        }
    },
    # Without a metadata service and without setup before slurmd: the tests of the boot phase cover both.
    "node_tools_boot_skip": ["instance", "gpu", "fabric", "scratch", "directories", "clocks", "nccl"],
    "slurm_spare_nodes": 0,
    "slurm_node_conf": {VM_SIZE: {"Gres": f"gpu:{GPUS}"}},
    "slurm_gres": {VM_SIZE: {"Name": "gpu", "File": f"/dev/stand-in-gpu[0-{GPUS - 1}]"}},
    # The image contains no package of these.
    "slurm_conf": {"MpiDefault": "none"},
    "slurm_pam_adopt": False,
    "slurm_source": "preinstalled",
    "slurm_accounting": False,
    # The simulated cluster tests hooks. Three at a time may take an emulated processor longer than their limit of 10 s.
    "slurm_job_hooks": {"prolog": {"10-scratch": None}},
}
PACKAGES = ["munge", "slurm-client", "slurm-wlm-basic-plugins", "slurmctld", "slurmd"]
# Major number 195 is NVIDIA's, and unused here.
DEVICES = "; ".join(
    f"test -e /dev/stand-in-gpu{number} || mknod -m 0666 /dev/stand-in-gpu{number} c 195 {number}"
    for number in range(GPUS)
)
HOST_FILE = "of-the-host"
# A folder as the scratch, where jobs have their private /tmp, and one file of the host in each shared folder.
FOLDERS = f"mkdir -p -m 1777 /scratch; touch /tmp/{HOST_FILE} /dev/shm/{HOST_FILE}"
# Waits until the given number of jobs runs, and prints what a job can use: its CPUs, the result of opening each device,
# and the files in its private folders.
PROGRAM = """\
import errno, json, os, sys, time
def opened(number):
    try:
        os.close(os.open(f"/dev/stand-in-gpu{number}", os.O_RDWR))
    except OSError as error:
        return errno.errorcode[error.errno]
    return "opened"
job = os.environ["SLURM_JOB_ID"]
for folder in ("/tmp", "/dev/shm", "/run/looking"):
    open(f"{folder}/of-job-{job}", "w").close()
while len(os.listdir("/run/looking")) < int(sys.argv[1]):
    time.sleep(0.1)
print(json.dumps({
    "cpus": sorted(os.sched_getaffinity(0)),
    "devices": [opened(number) for number in range(2)],
    "files": {folder: sorted(os.listdir(folder)) for folder in ("/tmp", "/dev/shm")},
    "gpu": os.environ.get("SLURM_STEP_GPUS"),
    "job": job,
    "rank": int(os.environ["SLURM_PROCID"]),
    "cgroup": open("/proc/self/cgroup").read().strip(),
}), flush=True)
"""


class OneNode:
    """The machine as a cluster of one node."""

    def __init__(self, machine: Machine) -> None:
        """Use this machine."""
        self.machine = machine

    def configure(self) -> None:
        """Apply the roles as site.yml does, and wait for the node."""
        machine = self.machine
        machine.run(f"{DEVICES}; {FOLDERS}")
        version = machine.run("slurmd -V").split()[1]
        functions = [group.removeprefix("hpcai_") for group in GROUPS]
        fact = json.dumps({"packages": PACKAGES, "version": version, "source": "preinstalled", "functions": functions})
        # The fact file of an image that was baked with the role.
        machine.write("/etc/ansible/facts.d/hpcai_slurm.fact", fact)
        machine.write("/opt/look.py", PROGRAM)
        run_roles(machine, GROUPS, VARIABLES, "cluster", "node_tools", "slurm/configure")
        machine.wait_until(f'[ "$(sinfo --noheader --nodes={HOST} --format=%t)" = idle ]', 120)

    def run_jobs(self, *jobs: str) -> list[list[dict[str, Any]]]:
        """Run the program with each of these launchers at the same time; returns its output by job and rank."""
        lines = [
            f"timeout 150 {launcher} python3 /opt/look.py {len(jobs)} > /run/look.{number} 2>&1 &"
            for number, launcher in enumerate(jobs)
        ]
        # The devices and one of the files are lost at a boot, such as the one after a crash of the emulator.
        fresh = f"{DEVICES}; {FOLDERS}; rm -rf /run/look.* /run/looking; mkdir /run/looking; cd /"
        self.machine.run("\n".join([fresh, *lines, "wait"]), 180)
        found = []
        for number, launcher in enumerate(jobs):
            output = self.machine.run(f"cat /run/look.{number}").splitlines()
            ranks = [json.loads(line) for line in output if line.startswith("{")]
            assert ranks, f"{launcher}: {output}"
            found.append(sorted(ranks, key=lambda rank: int(rank["rank"])))
        return found
