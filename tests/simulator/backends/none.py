# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backend without machines: state only, for thousands of instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from simulator import names
from simulator.authority import Authority
from simulator.backends import Backend, BackendError, NetworkSpec, NodeSpec


class NoneBackend:
    """Every call succeeds at once. It only counts the new systems of a machine, because each has other host keys."""

    def __init__(self) -> None:
        self._systems: Counter[str] = Counter()

    def open(self, network: NetworkSpec, state_dir: Path) -> None:
        """There is no network to make."""

    def create(self, spec: NodeSpec) -> None:
        """There is no machine to make."""

    def start(self, vm_id: str) -> None:
        """There is no machine to start."""

    def stop(self, vm_id: str) -> None:
        """There is no machine to stop."""

    def restart(self, vm_id: str) -> None:
        """There is no machine to restart."""

    def blank_disks(self, vm_id: str) -> None:
        """There are no disks."""

    def replace(self, spec: NodeSpec) -> None:
        """There is no system to replace, only its key."""
        self._systems[spec.vm_id] += 1

    def delete(self, vm_id: str) -> None:
        """There is no machine to delete."""

    def reach(self, vm_id: str, service: str, how: str) -> None:
        """There is no machine whose access could be blocked."""
        raise BackendError("without machines no access can be blocked: add a fault of the service instead")

    def wait_ready(self, vm_id: str, timeout: float) -> None:
        """A machine that does not exist is always ready."""

    def host_keys(self, vm_id: str) -> tuple[str, ...]:
        """A public key without a private half, always the same for a system of a machine."""
        return (names.public_key(f"{vm_id} {self._systems[vm_id]}" if vm_id in self._systems else vm_id),)

    def close(self) -> None:
        """Nothing was made."""


def make() -> Backend:
    """A new backend."""
    return NoneBackend()


def prepare(report: Callable[[str], None]) -> None:
    """Nothing takes long here."""


def authority() -> Authority:
    """A new authority that no machine trusts."""
    return Authority.fresh()


def cleanup(name: str, state_dir: Path) -> None:
    """There is nothing to remove."""
