# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hosts and users of a converged cluster, as fixtures for the tests that run on it.

A role without hosts is an error. Otherwise its tests would be skipped without notice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host

from .cluster import Cluster
from .node import Node, wait_for

ENDPOINT = os.environ.get("HPCAI_AZURE_ENDPOINT", "http://127.0.0.1:8480")


@pytest.fixture(scope="session")
def inventory_source(request: pytest.FixtureRequest) -> Path:
    """The inventory with which the cluster was converged, for more runs of playbooks."""
    return Path(request.config.getoption("ansible_inventory"))


@pytest.fixture(scope="session")
def inventory(inventory_source: Path) -> dict[str, Any]:
    """The output of the inventory plugin."""
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "--list", "-i", str(inventory_source)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return dict(json.loads(answer.stdout))


def by_role(inventory: dict[str, Any], role: str) -> list[Host]:
    """The hosts of the group hpcai_ROLE, as the admin user with sudo, each over one ssh connection."""
    names = inventory.get(f"hpcai_{role}", {}).get("hosts", [])
    if not names:
        pytest.fail(f"no host is in the group hpcai_{role}")
    return [connect(plain(inventory["_meta"]["hostvars"][name]["ansible_host"])) for name in names]


def connect(address: str) -> Host:
    """The machine with this address."""
    return Cluster(ENDPOINT, Path(os.environ["HPCAI_SIMULATOR_STATE"])).host(address)


def plain(value: Any) -> str:
    """A value without the mark of ansible-inventory for texts that must not be templated."""
    return str(value["__ansible_unsafe"] if isinstance(value, dict) else value)


@pytest.fixture(scope="session")
def controller(inventory: dict[str, Any]) -> Host:
    """The controller, which is also the login node."""
    (host,) = by_role(inventory, "controller")
    return host


@pytest.fixture(scope="session")
def computes(inventory: dict[str, Any]) -> list[Host]:
    """The compute nodes: compute-0 and compute-3."""
    return by_role(inventory, "compute")


@dataclass(frozen=True)
class User:
    """An ordinary user on the login node.

    Commands are passed on unchanged. Unlike in testinfra's own methods, a per cent sign must not be doubled.
    """

    host: Host
    name: str

    def run(self, command: str, seconds: int = 90) -> CommandResult:
        """Run a shell command in a folder that everyone can enter. After the timeout its exit status is 124."""
        with self.host.sudo(self.name):
            return self.host.run(f"cd /tmp && timeout {seconds} sh -c %s", command)

    def check_output(self, command: str, seconds: int = 90) -> str:
        """The output of a command that must succeed."""
        done = self.run(command, seconds)
        assert done.rc == 0, f"{self.name}: {command}: {done.rc}: {done.stdout}{done.stderr}"
        return str(done.stdout).rstrip("\n")

    def srun(self, options: str, command: str) -> str:
        """The output of a job. Without free nodes srun waits forever, and its own limits have no effect."""
        return self.check_output(f"srun --time=3 {options} {command}", seconds=180)

    def sbatch(self, options: str, command: str) -> str:
        """Submit a job and return its id."""
        output = self.check_output(f"sbatch --parsable --output=/dev/null {options} --wrap '{command}'")
        return output.partition(";")[0]

    def job(self, number: str) -> dict[str, str]:
        """The fields of slurmctld's record of a job, such as JobState and NodeList."""
        shown = self.check_output(f"scontrol --oneliner show job {number}")
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def is_put_back(self, number: str) -> bool:
        """Whether a job was requeued once and is not held."""
        shown = self.job(number)
        return shown["JobState"] == "PENDING" and shown["Restarts"] == "1" and "Held" not in shown["Reason"]


@pytest.fixture(scope="session")
def alice(controller: Host) -> User:
    """An ordinary user."""
    return User(controller, "alice")


@pytest.fixture(scope="session")
def bob(controller: Host) -> User:
    """Another ordinary user."""
    return User(controller, "bob")


@pytest.fixture(scope="session")
def azure() -> Cluster:
    """The cluster's Azure: capacity, restarts and deletions through the SDK, and playbook runs."""
    return Cluster(ENDPOINT, Path(os.environ["HPCAI_SIMULATOR_STATE"]))


@pytest.fixture(scope="session")
def node(azure: Cluster, inventory: dict[str, Any]) -> Callable[[str], Node]:
    """Returns the node with an instance id: its state in Azure and Slurm, jobs, and commands as root."""
    (name,) = inventory["hpcai_controller"]["hosts"]
    address = plain(inventory["_meta"]["hostvars"][name]["ansible_host"])
    return lambda instance_id: Node.of(azure, address, instance_id)


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool], float, Callable[[], object]], float]:
    """Wait until a condition is true, up to a number of seconds. The last argument returns the text of the error."""
    return wait_for
