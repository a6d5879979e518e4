# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface between the simulator and its backends, which make machines for simulated instances.

Resource Manager decides *what* happens (a redeploy is stop, blank disks, start); a backend only does it. Every call
blocks until it is done, and raises BackendError if it fails. The calling operation runs in its own thread and reports
the failure as Azure does. Calls for different machines are concurrent, calls for one machine never are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from simulator.authority import Authority

REACHES = ("normal", "refused", "blackhole")
"""A machine's access to a service: normal, refused at once, or without any answer."""


class BackendError(Exception):
    """A message of one line: what failed, on which machine, and what to do."""


class NodeNotReady(BackendError):
    """The machine did not become reachable in time."""


@dataclass(frozen=True)
class NetworkSpec:
    """The virtual network of all machines."""

    name: str
    """The simulator's name: unique on this host, and safe in file names."""
    cidr: str
    gateway: str
    """First usable address of the network. The metadata service listens on it, before open() is called."""
    imds_port: int
    """Port of the metadata service on the gateway. 169.254.169.254:80 must lead to it."""
    admin_private_key: str = ""
    """Path of the private key for the machines' ssh_public_keys (empty without a state folder)."""
    tls_port: int = 0
    """Port of the key vaults and of Resource Manager on the gateway, to which its port 443 must lead on machines."""


@dataclass(frozen=True)
class NodeSpec:
    """The properties of a machine that the backend has to make."""

    vm_id: str
    azure_id: str
    name: str
    """Unique in the simulator and safe in file names (never reused, unlike computer names and addresses)."""
    computer_name: str
    private_ipv4: str
    public_ipv4: str | None
    """A second address in the same network that acts as the public one."""
    admin_username: str
    ssh_public_keys: tuple[str, ...]
    cpus: int
    memory_mib: int
    local_disks: bool
    """Whether the machine has local disks, which blank_disks() empties."""
    own_login: bool = True
    """Whether the key of the network's ``admin_private_key`` lets the administrator in."""
    tls_names: tuple[str, ...] = ()
    """Names that the machine resolves to the gateway: Resource Manager, and the key vaults at its creation."""


class Backend(Protocol):
    """Makes, changes and removes machines. After create(), vm_id identifies a machine."""

    def open(self, network: NetworkSpec, state_dir: Path) -> None:
        """Prepare the network. Called once, before any machine."""

    def create(self, spec: NodeSpec) -> None:
        """Make and start a machine, without waiting until it answers."""

    def start(self, vm_id: str) -> None:
        """Start a stopped machine, without waiting until it answers."""

    def stop(self, vm_id: str) -> None:
        """Stop a machine and keep its disks."""

    def restart(self, vm_id: str) -> None:
        """Reboot a running machine, without waiting until it answers."""

    def blank_disks(self, vm_id: str) -> None:
        """Empty the local disks of a stopped machine, but not the system disk."""

    def replace(self, spec: NodeSpec) -> None:
        """Give the machine spec.vm_id a new system: new host keys and machine-id, same name and addresses."""

    def delete(self, vm_id: str) -> None:
        """Remove the machine and its disks. A missing machine is not an error."""

    def reach(self, vm_id: str, service: str, how: str) -> None:
        """Change a machine's access to ``imds`` or ``vault`` to one of REACHES."""

    def wait_ready(self, vm_id: str, timeout: float) -> None:
        """Return once the machine answers (ssh for a real one); raise NodeNotReady after ``timeout`` seconds."""

    def host_keys(self, vm_id: str) -> tuple[str, ...]:
        """The public host keys of a machine that answers, in the format of ``ssh_host_*_key.pub``."""

    def close(self) -> None:
        """Remove every machine and the network."""


class BackendModule(Protocol):
    """The functions of a module below ``simulator.backends``."""

    def make(self) -> Backend:
        """A new backend, not yet opened."""

    def prepare(self, report: Callable[[str], None]) -> None:
        """Prepare what takes long and is shared (images), in the foreground before the server starts.

        ``report`` prints one line of progress.
        """

    def authority(self) -> Authority:
        """The certificate authority that the machines trust."""

    def cleanup(self, name: str, state_dir: Path) -> None:
        """Remove all that a dead simulator ``name`` left behind, found by label and state folder, and nothing else."""


NAMES = ("none", "containers")


def load(name: str) -> BackendModule:
    """The backend module with this name."""
    if name not in NAMES:
        raise BackendError(f"unknown backend {name!r}: choose one of {', '.join(NAMES)}")
    return cast(BackendModule, importlib.import_module(f"simulator.backends.{name}"))
