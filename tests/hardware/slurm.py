# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An emulated machine as a cluster of one node: slurmctld and slurmd by the roles, with their defaults.

Stand-ins for GPUs are device files without a driver. Whoever may open one hears that there is no such device, whoever
may not is not permitted: the kernel asks the cgroup first.
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
"""NVMe disks that the machine has. Each costs a boot some time."""
VM_SIZE = "Standard_Emulated"
GROUPS = ("hpcai_controller", "hpcai_compute")
# Only what this machine is, and what it cannot have. How processes are tracked and what is constrained is left alone.
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
    # There is no metadata service, and nothing to set up before slurmd: the tests of the boot phase have both.
    "node_tools_boot_skip": ["instance", "gpu", "fabric", "scratch", "directories", "clocks", "nccl"],
    "slurm_spare_nodes": 0,
    "slurm_node_conf": {VM_SIZE: {"Gres": f"gpu:{GPUS}"}},
    "slurm_gres": {VM_SIZE: {"Name": "gpu", "File": f"/dev/stand-in-gpu[0-{GPUS - 1}]"}},
    # No package of it is in the image.
    "slurm_conf": {"MpiDefault": "none"},
    "slurm_pam_adopt": False,
    "slurm_source": "preinstalled",
    "slurm_accounting": False,
    # The simulated cluster proves hooks. Three at a time may take an emulated processor longer than the 10 s they have.
    "slurm_job_hooks": {"prolog": {"10-scratch": None}},
}
PACKAGES = ["munge", "slurm-client", "slurm-wlm-basic-plugins", "slurmctld", "slurmd"]
# Major 195 is NVIDIA's, and nobody's here.
DEVICES = "; ".join(
    f"test -e /dev/stand-in-gpu{number} || mknod -m 0666 /dev/stand-in-gpu{number} c 195 {number}"
    for number in range(GPUS)
)
OF_THE_HOST = "of-the-host"
# The scratch, on which jobs have their /tmp, is a folder here; and of the host's own files, one in each place.
FOLDERS = f"mkdir -p -m 1777 /scratch; touch /tmp/{OF_THE_HOST} /dev/shm/{OF_THE_HOST}"
# What a job sees when so many jobs run: CPUs, what each device says to who opens it, what is in folders of its own.
LOOK = """\
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
    """The machine as that cluster."""

    def __init__(self, machine: Machine) -> None:
        """On this machine."""
        self.machine = machine

    def configure(self) -> None:
        """Apply the roles as site.yml does, and wait for the node."""
        machine = self.machine
        machine.run(f"{DEVICES}; {FOLDERS}")
        version = machine.run("slurmd -V").split()[1]
        functions = [group.removeprefix("hpcai_") for group in GROUPS]
        fact = json.dumps({"packages": PACKAGES, "version": version, "source": "preinstalled", "functions": functions})
        # What an image says that was baked with the role.
        machine.write("/etc/ansible/facts.d/hpcai_slurm.fact", fact)
        machine.write("/opt/look.py", LOOK)
        run_roles(machine, GROUPS, VARIABLES, "cluster", "node_tools", "slurm/configure")
        machine.wait_until(f'[ "$(sinfo --noheader --nodes={HOST} --format=%t)" = idle ]', 120)

    def look(self, *jobs: str) -> list[list[dict[str, Any]]]:
        """Run that program by each of these launchers; what the ranks of each saw, in their order.

        No job looks before all of them run.
        """
        lines = [
            f"timeout 150 {launcher} python3 /opt/look.py {len(jobs)} > /run/look.{number} 2>&1 &"
            for number, launcher in enumerate(jobs)
        ]
        # The devices and one of the files go with a boot, such as one that makes up for the emulator's end.
        fresh = f"{DEVICES}; {FOLDERS}; rm -rf /run/look.* /run/looking; mkdir /run/looking; cd /"
        self.machine.run("\n".join([fresh, *lines, "wait"]), 180)
        found = []
        for number, launcher in enumerate(jobs):
            told = self.machine.run(f"cat /run/look.{number}").splitlines()
            ranks = [json.loads(line) for line in told if line.startswith("{")]
            assert ranks, f"{launcher}: {told}"
            found.append(sorted(ranks, key=lambda rank: int(rank["rank"])))
        return found
