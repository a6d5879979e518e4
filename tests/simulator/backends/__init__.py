# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a simulated instance more than a record: the contract between the simulator and its backends.

Resource Manager decides *what* happens (a redeploy is stop, blank disks, start), a backend only does it. Every
call blocks until it is done and raises BackendError when it cannot be; the operation that asked for it runs in
a thread of its own and reports the failure the way Azure does. Calls for different machines come concurrently,
calls for one machine never do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from simulator.authority import Authority

REACHES = ("normal", "refused", "blackhole")
"""How a machine may reach a service: as it should, not at all and told so at once, or without any answer."""


class BackendError(Exception):
    """One line that says what failed, on which machine, and what to do."""


class NodeNotReady(BackendError):
    """The machine did not become reachable in time."""


@dataclass(frozen=True)
class NetworkSpec:
    """The one virtual network that the machines live in."""

    name: str
    """The simulator's name: unique on this host, filesystem safe."""
    cidr: str
    gateway: str
    """First usable address of the network. The metadata service listens on it (bound before open() is called)."""
    imds_port: int
    """Port of the metadata service on the gateway: what 169.254.169.254:80 must reach."""
    admin_private_key: str = ""
    """Path of the private key that belongs to the machines' ssh_public_keys (empty with no state folder)."""
    vault_port: int = 0
    """Port of the key vaults on the gateway: what the gateway's port 443 must reach from a machine (0: none)."""
    vault_names: tuple[str, ...] = ()
    """Host names of the key vaults, which machines resolve to the gateway."""


@dataclass(frozen=True)
class NodeSpec:
    """A machine as the backend has to make it."""

    vm_id: str
    azure_id: str
    name: str
    """Unique in the simulator and filesystem safe (never reused, unlike computer names and addresses)."""
    computer_name: str
    private_ipv4: str
    public_ipv4: str | None
    """A second address inside the same network that stands for a public one."""
    admin_username: str
    ssh_public_keys: tuple[str, ...]
    cpus: int
    memory_mib: int
    local_disks: bool
    """Whether the machine has local disks, which blank_disks() empties."""


class Backend(Protocol):
    """Makes, changes and removes machines. Addressed by vm_id once created."""

    def open(self, network: NetworkSpec, state_dir: Path) -> None:
        """Prepare the network. Called once, before any machine."""

    def create(self, spec: NodeSpec) -> None:
        """Make a machine and start it, without waiting until it answers."""

    def start(self, vm_id: str) -> None:
        """Start a stopped machine, without waiting until it answers."""

    def stop(self, vm_id: str) -> None:
        """Stop a machine; its disks stay."""

    def restart(self, vm_id: str) -> None:
        """Reboot a running machine, without waiting until it answers."""

    def blank_disks(self, vm_id: str) -> None:
        """Empty the local disks of a stopped machine (the system disk stays)."""

    def replace(self, spec: NodeSpec) -> None:
        """Give the machine spec.vm_id a fresh system: new host keys, new machine-id, same name and addresses."""

    def delete(self, vm_id: str) -> None:
        """Remove the machine and its disks. Removing one that is not there is no error."""

    def reach(self, vm_id: str, service: str, how: str) -> None:
        """Change from now on how a machine reaches ``imds`` or ``vault``: one of REACHES."""

    def wait_ready(self, vm_id: str, timeout: float) -> None:
        """Return once the machine answers (ssh for a real one); raise NodeNotReady after ``timeout`` seconds."""

    def host_keys(self, vm_id: str) -> tuple[str, ...]:
        """The public host keys of a machine that answers, each as in a file ``ssh_host_*_key.pub``."""

    def close(self) -> None:
        """Remove every machine and the network."""


class BackendModule(Protocol):
    """What a module below ``simulator.backends`` offers."""

    def make(self) -> Backend:
        """A new backend, not yet opened."""

    def prepare(self, report: Callable[[str], None]) -> None:
        """Whatever takes long and is shared (images), in the foreground before the server starts.

        ``report`` prints one line of progress.
        """

    def authority(self) -> Authority:
        """The certificate authority that the machines trust."""

    def cleanup(self, name: str, state_dir: Path) -> None:
        """Remove all that a dead simulator called ``name`` left behind: by label and state folder, nothing else."""


NAMES = ("none", "containers")


def load(name: str) -> BackendModule:
    """The backend module called ``name``."""
    if name not in NAMES:
        raise BackendError(f"unknown backend {name!r}: choose one of {', '.join(NAMES)}")
    return cast(BackendModule, importlib.import_module(f"simulator.backends.{name}"))
