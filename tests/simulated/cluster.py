# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated cluster for running playbooks: real nodes, the real inventory plugin, the real SDK."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute.models import Sku, VirtualMachineScaleSetUpdate, VirtualMachineScaleSetVMInstanceRequiredIDs
from testinfra import get_host
from testinfra.host import Host

from simulator import clients

REPOSITORY = Path(__file__).resolve().parents[2]
RESOURCE_GROUP = "hpcai-sim"
SCALE_SET = "compute"

SPARE = "hpcai: no such instance"
ANSWER_S = 120

INVENTORY = """\
plugin: hpcai.azure.azure_vmss
endpoint: {endpoint}
auth_source: token
token: simulated-token
subscription_ids: [00000000-0000-4000-8000-000000000001]
resource_groups: [hpcai-sim]
include_vms: tagged
tags: {{hpcai_cluster: sim}}
# The image has what containers need, and the scenario "cluster" tests it; here it would only cost time.
compose: {{hpcai_key_source: "'{key_source}'", hpcai_containers: "false"}}
"""


OWN_SETTINGS = {
    "Write which cluster the machine belongs to",
    "Write the machine's VM size",
    "Prepare the node for containers",
    "Install the scripts that run before and after each job",
    "Let users log in only where they have a job, and admins always",
    "Install the scripts that run the checks",
    "Write the grants",
}
"""Tasks that change a node which joined alone: its image has no record of a machine, and the roles' defaults."""


@dataclass(frozen=True)
class Recap:
    """The result of a playbook run.

    :ivar rc: exit status of ansible-playbook.
    :ivar output: its complete output.
    :ivar hosts: for each host of the recap, its counters, e.g. ``{"ctl": {"ok": 18, "changed": 0, ...}}``.
    """

    rc: int
    output: str
    hosts: dict[str, dict[str, int]]

    @property
    def changed(self) -> int:
        """Number of changed tasks on all hosts together."""
        return sum(counters["changed"] for counters in self.hosts.values())

    def changed_tasks(self, host: str) -> set[str]:
        """The names of the tasks, without their roles, that changed a host."""
        tasks = re.findall(r"^TASK \[(?:[\w.]+ : )?(.*)\] \**\n((?:(?!TASK|PLAY).*\n)*)", self.output, re.MULTILINE)
        return {name for name, results in tasks if f"changed: [{host}]" in results}

    @property
    def summary(self) -> str:
        """The output of the play "Sum up" of site.yml and of the plays after it, on one line."""
        return " ".join(self.output.rpartition("PLAY [Sum up]")[2].split())


@dataclass(frozen=True)
class Cluster:
    """A running simulator with nodes.

    :ivar endpoint: base URL of the simulated Resource Manager.
    :ivar state: the simulator's state folder, which contains the ssh key.
    :ivar key_source: hpcai_key_source of its inventory, ``key_vault`` or ``push``. It must match the scenario.
    """

    endpoint: str
    state: Path
    key_source: str = "key_vault"

    def sdk(self) -> ComputeManagementClient:
        """The Azure SDK's client of the simulated subscription."""
        return clients.compute(self.endpoint)

    def set_capacity(self, capacity: int) -> None:
        """Grow or shrink the scale set through the SDK."""
        update = VirtualMachineScaleSetUpdate(sku=Sku(capacity=capacity))
        self.sdk().virtual_machine_scale_sets.begin_update(RESOURCE_GROUP, SCALE_SET, update).result()

    def delete_instances(self, *instance_ids: str) -> None:
        """Delete instances of the scale set by their ids."""
        which = VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=list(instance_ids))
        self.sdk().virtual_machine_scale_sets.begin_delete_instances(RESOURCE_GROUP, SCALE_SET, which).result()

    def restart_instance(self, instance_id: str) -> None:
        """Restart an instance through Azure. It may still be booting when this returns."""
        self.sdk().virtual_machine_scale_set_vms.begin_restart(RESOURCE_GROUP, SCALE_SET, instance_id).result()

    def instance_ids(self) -> list[str]:
        """The current instance ids of the scale set."""
        instances = self.sdk().virtual_machine_scale_set_vms.list(RESOURCE_GROUP, SCALE_SET)
        return sorted((str(instance.instance_id) for instance in instances), key=int)

    def write_inventory(self, folder: Path) -> Path:
        """Write the files of a user's repository: the inventory, and the connection variables next to it."""
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / "azure_vmss.yml"
        source.write_text(INVENTORY.format(endpoint=self.endpoint, key_source=self.key_source), encoding="utf-8")
        if not (folder / "group_vars").exists():
            (folder / "group_vars").symlink_to(REPOSITORY / "inventories/simulated/group_vars")
        return source

    def playbook(
        self, playbook: Path | str, inventory: Path, *arguments: str, cwd: Path = REPOSITORY, **environment: str
    ) -> Recap:
        """Run ansible-playbook as a user would, and return the result."""
        done = subprocess.run(
            [program("ansible-playbook"), str(playbook), "-i", str(inventory), *arguments],
            cwd=cwd,
            env={**os.environ, "HPCAI_SIMULATOR_STATE": str(self.state), "ANSIBLE_NOCOLOR": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        recap = done.stdout.rpartition("PLAY RECAP")[2]
        hosts = {
            line.split()[0]: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
            for line in recap.splitlines()
            if "changed=" in line
        }
        return Recap(done.returncode, done.stdout, hosts)

    def site(self, inventory: Path, *arguments: str) -> Recap:
        """Run the clone's site.yml."""
        return self.playbook("playbooks/site.yml", inventory, *arguments)

    def slurm(self, inventory: Path, *arguments: str) -> Recap:
        """Run only the Slurm part of site.yml and the plays around it, in a little more than half of the time."""
        return self.site(inventory, "--tags", "slurm", *arguments)

    def host(self, address: str) -> Host:
        """The node with this address, for testinfra, as the admin user with sudo."""
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        key = str(self.state / "id_ed25519")
        return get_host(f"ssh://azureuser@{address}", sudo=True, ssh_identity_file=key, ssh_extra_args=options)

    def ssh(self, address: str, command: str, check: bool = True, limit: float = 120) -> str:
        """Run a command on a node as the admin user, and return its output."""
        options = ["-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]
        options += ["-o", "ConnectTimeout=10"]
        key = ["-i", str(self.state / "id_ed25519")]
        return subprocess.run(
            ["ssh", *options, *key, f"azureuser@{address}", command],
            capture_output=True,
            text=True,
            timeout=limit,
            check=check,
            stdin=subprocess.DEVNULL,
        ).stdout

    def wait_for_nodes(self, controller: str, wanted: Mapping[str, str]) -> None:
        """Wait until slurmctld has the nodes in these states.

        After a restart of slurmd, slurmctld marks the node as not responding ("idle*") until its next ping.
        """
        deadline = time.monotonic() + ANSWER_S
        while (found := self.nodes(controller)) != wanted:
            assert time.monotonic() < deadline, f"{found} after {ANSWER_S} s"
            time.sleep(1)

    def nodes(self, controller: str) -> dict[str, str]:
        """The nodes of slurmctld without spare nodes, with their states in lower case: ``{"compute-0": "idle"}``."""
        shown = self.ssh(controller, "sinfo --Node --noheader --format=%N:%T:%E")
        lines = [line.split(":", 2) for line in shown.splitlines()]
        return {name: state for name, state, reason in lines if reason != SPARE}

    def reasons(self, controller: str) -> list[str]:
        """The drain and down reasons of nodes, without that of spare nodes."""
        shown = self.ssh(controller, "sinfo --noheader --list-reasons --format=%E")
        return [reason for reason in map(str.strip, shown.splitlines()) if reason != SPARE]

    def run_job(self, controller: str, command: str, *options: str) -> str:
        """Run a command as a Slurm job with one task per node, and return the output of all tasks."""
        words = shlex.join(["srun", "--mpi=none", "--ntasks-per-node=1", "--time=2", *options])
        return self.ssh(controller, f"timeout 60 {words} {command}")


def program(name: str) -> str:
    """Path of a program of the tests' virtual environment."""
    return str(Path(sys.executable).parent / name)
