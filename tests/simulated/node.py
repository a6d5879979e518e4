# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests read and change on a node, in Slurm and in the simulator."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from simulator.names import base36

from .cluster import REPOSITORY, RESOURCE_GROUP, SCALE_SET, Cluster

VAULT, SECRET = "hpcai-sim", "munge-key"
MPI_PROGRAM = REPOSITORY / "tests/site/machine_ids.py"


@dataclass(frozen=True)
class Identity:
    """The ids of one machine."""

    instance_id: str
    computer_name: str
    vm_id: str
    machine_id: str
    host_key: str


@dataclass(frozen=True)
class Node:
    """An instance of the scale set, through Azure, Slurm and ssh."""

    cluster: Cluster
    controller: str
    instance_id: str
    address: str

    @classmethod
    def of(cls, cluster: Cluster, controller: str, instance_id: str) -> Node:
        """The instance with this id."""
        for item in admin(cluster, "get", "state")["instances"]:
            if item["name"] == f"{SCALE_SET}_{instance_id}":
                return cls(cluster, controller, instance_id, item["private_ipv4"])
        raise KeyError(instance_id)

    @property
    def name(self) -> str:
        """Its name in Slurm."""
        return f"{SCALE_SET}-{self.instance_id}"

    @property
    def host_name(self) -> str:
        """Its host name."""
        return f"{SCALE_SET}{base36(int(self.instance_id))}"

    @property
    def azure_id(self) -> str:
        """Its id in Azure."""
        return str(self.cluster.sdk().virtual_machine_scale_set_vms.get(RESOURCE_GROUP, SCALE_SET, self.instance_id).id)

    def sh(self, command: str, check: bool = True) -> str:
        """Run a command on the node as root."""
        return self.cluster.ssh(self.address, f"sudo sh -c {shlex.quote(command)}", check)

    def write(self, path: str, content: bytes, mode: str) -> None:
        """Write a file on the node."""
        send(self.cluster, self.address, content, f"sudo install -D -m {mode} /dev/stdin {shlex.quote(path)}")

    def identity(self) -> Identity:
        """Its ids."""
        shown = self.cluster.sdk().virtual_machine_scale_set_vms.get(RESOURCE_GROUP, SCALE_SET, self.instance_id)
        scan = ["ssh-keyscan", "-T", "10", "-t", "ed25519", self.address]
        key = subprocess.run(scan, capture_output=True, text=True, check=True, timeout=30).stdout.split()[2]
        machine_id = self.sh("cat /etc/machine-id").strip()
        return Identity(self.instance_id, self.sh("hostname").strip(), str(shown.vm_id), machine_id, key)

    def boot(self) -> dict[str, Any]:
        """The output of ``hpcnode boot status``."""
        return dict(json.loads(self.sh("hpcnode boot status --json", check=False)))

    def verdicts(self) -> dict[str, str]:
        """The verdict of each boot step."""
        return {step["name"]: step["verdict"] for step in self.boot()["steps"]}

    def state(self) -> str:
        """Its state in Slurm."""
        shown = self.cluster.ssh(self.controller, f"sinfo --noheader --format=%T --nodes={self.name}", check=False)
        return shown.strip()

    def resumed(self) -> bool:
        """Whether it is idle. A drained node is resumed, so that a successful attack does not fail the next test."""
        if "drain" in self.state():
            self.cluster.ssh(self.controller, f"sudo scontrol update nodename={self.name} state=resume")
        return self.state() == "idle"

    def runs_a_job(self) -> bool:
        """Whether a job on this node succeeds. It must start within 5 s, and end within 15 s."""
        words = f"srun --immediate=5 --mpi=none --time=1 --nodelist={self.name} hostname"
        return self.cluster.ssh(self.controller, f"timeout 15 {words}", check=False).strip() == self.host_name

    def ansible_runs(self) -> int:
        """How many Ansible modules ran on it since its boot. Each writes to the journal under its own name."""
        return self.sh("journalctl --boot --no-pager --output=json --output-fields=SYSLOG_IDENTIFIER").count(
            '"SYSLOG_IDENTIFIER":"ansible-'
        )

    def slurmd(self) -> str:
        """The state of slurmd's unit."""
        return self.sh("systemctl is-active slurmd", check=False).strip()


def wait_for(what: Callable[[], bool], seconds: float, why: Callable[[], object]) -> float:
    """Wait until a condition is true, and return the seconds that it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, why()
        time.sleep(0.5)
    return time.monotonic() - began


def admin(cluster: Cluster, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Send a request to the simulator's interface for tests."""
    answer = requests.request(method, f"{cluster.endpoint}/_simulator/{path}", json=body, timeout=30)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def run_mpi(cluster: Cluster, controller: str, *nodes: Node) -> list[str]:
    """Run an MPI job with one rank on each of these nodes, and return the host names of the ranks."""
    send(cluster, controller, MPI_PROGRAM.read_bytes(), "cat > machine_ids.py")
    names = ",".join(node.name for node in nodes)
    command = (
        "sbcast --force machine_ids.py /tmp/machine_ids.$SLURM_JOB_ID.py; "
        "srun --mpi=pmix python3 /tmp/machine_ids.$SLURM_JOB_ID.py"
    )
    shown = cluster.ssh(
        controller,
        f"timeout 60 salloc --quiet --time=2 --nodes={len(nodes)} --ntasks={len(nodes)} --nodelist={names} "
        f"sh -ec '{command}'",
    )
    answer = json.loads(shown)
    assert answer["sum"] == sum(range(1, len(nodes) + 1))
    return sorted(rank["computer_name"] for rank in answer["ranks"])


def send(cluster: Cluster, address: str, content: bytes, command: str) -> None:
    """Run a command as the admin user, with ``content`` as its standard input."""
    key = Path(cluster.state / "id_ed25519")
    options = ["-F", "none", "-i", str(key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    subprocess.run(
        ["ssh", *options, "-o", "LogLevel=ERROR", f"azureuser@{address}", command],
        input=content,
        check=True,
        timeout=60,
    )
