# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hosts and users of a converged cluster, as fixtures for the tests that run on it.

A role without hosts is an error: its tests would otherwise be skipped, and pass for nothing.
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
from testinfra import get_host
from testinfra.backend.base import CommandResult
from testinfra.host import Host

from .cluster import Cluster
from .node import Node, wait_for

ENDPOINT = os.environ.get("HPCAI_AZURE_ENDPOINT", "http://127.0.0.1:8480")


@pytest.fixture(scope="session")
def inventory_source(request: pytest.FixtureRequest) -> Path:
    """The inventory that the cluster was converged with, for further runs of playbooks."""
    return Path(request.config.getoption("ansible_inventory"))


@pytest.fixture(scope="session")
def inventory(inventory_source: Path) -> dict[str, Any]:
    """What the inventory plugin gives."""
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "--list", "-i", str(inventory_source)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return dict(json.loads(answer.stdout))


def by_role(inventory: dict[str, Any], role: str) -> list[Host]:
    """The hosts of the group hpcai_ROLE, as the admin user with root's rights, over one ssh connection."""
    names = inventory.get(f"hpcai_{role}", {}).get("hosts", [])
    if not names:
        pytest.fail(f"no host is in the group hpcai_{role}")
    return [connect(plain(inventory["_meta"]["hostvars"][name]["ansible_host"])) for name in names]


def connect(address: str) -> Host:
    """A machine by its address."""
    key = Path(os.environ["HPCAI_SIMULATOR_STATE"]) / "id_ed25519"
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return get_host(f"ssh://azureuser@{address}", sudo=True, ssh_identity_file=str(key), ssh_extra_args=options)


def plain(value: Any) -> str:
    """ansible-inventory marks what must not be templated."""
    return str(value["__ansible_unsafe"] if isinstance(value, dict) else value)


@pytest.fixture(scope="session")
def controller(inventory: dict[str, Any]) -> Host:
    """The controller, which is the login node too."""
    (host,) = by_role(inventory, "controller")
    return host


@pytest.fixture(scope="session")
def computes(inventory: dict[str, Any]) -> list[Host]:
    """The compute nodes: compute-0 and compute-3."""
    return by_role(inventory, "compute")


@dataclass(frozen=True)
class User:
    """An ordinary user on the login node.

    Commands are taken as they stand: a per cent sign needs no doubling here, as it does with testinfra's own.
    """

    host: Host
    name: str

    def run(self, command: str, seconds: int = 90) -> CommandResult:
        """Run a shell command, from a folder that everybody may enter. After so long it is ended, with status 124."""
        with self.host.sudo(self.name):
            return self.host.run(f"cd /tmp && timeout {seconds} sh -c %s", command)

    def check_output(self, command: str, seconds: int = 90) -> str:
        """What a command prints that has to succeed."""
        done = self.run(command, seconds)
        assert done.rc == 0, f"{self.name}: {command}: {done.rc}: {done.stdout}{done.stderr}"
        return str(done.stdout).rstrip("\n")

    def srun(self, options: str, command: str) -> str:
        """What a job prints. Without nodes for it srun would wait for ever, and none of its limits would count."""
        return self.check_output(f"srun --time=2 {options} {command}")

    def sbatch(self, options: str, command: str) -> str:
        """Submit a job; its number."""
        said = self.check_output(f"sbatch --parsable --output=/dev/null {options} --wrap '{command}'")
        return said.partition(";")[0]

    def job(self, number: str) -> dict[str, str]:
        """What slurmctld has of a job, by key: JobState, NodeList and so on."""
        shown = self.check_output(f"scontrol --oneliner show job {number}")
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def is_put_back(self, number: str) -> bool:
        """Whether a job is in the queue again, for the first time, and not held."""
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
    """Azure behind the cluster: capacity, restarts and deletions through the SDK, and playbooks on it."""
    return Cluster(ENDPOINT, Path(os.environ["HPCAI_SIMULATOR_STATE"]))


@pytest.fixture(scope="session")
def node(azure: Cluster, inventory: dict[str, Any]) -> Callable[[str], Node]:
    """Gives an instance by its id, as Azure, Slurm and ssh see it: its state, a job on it, commands there as root."""
    (name,) = inventory["hpcai_controller"]["hosts"]
    address = plain(inventory["_meta"]["hostvars"][name]["ansible_host"])
    return lambda instance_id: Node.of(azure, address, instance_id)


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool], float, Callable[[], object]], float]:
    """Wait until something is so, at most so many seconds; what the last one returns stands in the error."""
    return wait_for
