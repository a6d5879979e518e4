# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A backend for tests: it makes no machines, but records every call, and can be slow or fail."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from pathlib import Path

from simulator import names
from simulator.backends import BackendError, NetworkSpec, NodeNotReady, NodeSpec


class RecordingBackend:
    """Records calls in order. Each call takes ``delay`` seconds; those in ``broken`` fail."""

    def __init__(self, delay: float = 0) -> None:
        self.delay = delay
        self.broken: set[str] = set()
        """Names of calls that fail."""
        self.gate = threading.Event()
        """Calls wait until it is set. It is set at first."""
        self.gate.set()
        self.calls: list[tuple[str, str]] = []
        self.specs: dict[str, NodeSpec] = {}
        self.copies: dict[str, int] = defaultdict(int)
        """How many new systems each machine got."""
        self.closed = False

    def of(self, vm_id: str) -> list[str]:
        """The calls for one machine, without those that only wait."""
        return [call for call, machine in self.calls if machine == vm_id and call != "wait_ready"]

    def open(self, network: NetworkSpec, state_dir: Path) -> None:
        """Note it."""
        self._note("open", network.name)

    def create(self, spec: NodeSpec) -> None:
        """Note it."""
        self._note("create", spec.vm_id)
        self.specs[spec.vm_id] = spec
        self.copies[spec.vm_id] += 1

    def start(self, vm_id: str) -> None:
        """Note it."""
        self._note("start", vm_id)

    def stop(self, vm_id: str) -> None:
        """Note it."""
        self._note("stop", vm_id)

    def restart(self, vm_id: str) -> None:
        """Note it."""
        self._note("restart", vm_id)

    def blank_disks(self, vm_id: str) -> None:
        """Note it."""
        self._note("blank_disks", vm_id)

    def replace(self, spec: NodeSpec) -> None:
        """Note it."""
        self._note("replace", spec.vm_id)
        self.specs[spec.vm_id] = spec
        self.copies[spec.vm_id] += 1

    def delete(self, vm_id: str) -> None:
        """Note it."""
        self._note("delete", vm_id)
        self.specs.pop(vm_id, None)

    def reach(self, vm_id: str, service: str, how: str) -> None:
        """Note it."""
        self._note(f"reach {service} {how}", vm_id)

    def wait_ready(self, vm_id: str, timeout: float) -> None:
        """Note it."""
        self._note("wait_ready", vm_id)

    def host_keys(self, vm_id: str) -> tuple[str, ...]:
        """A different key for each new system."""
        return (names.public_key(f"{vm_id} {self.copies[vm_id]}"),)

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def _note(self, call: str, machine: str) -> None:
        self.calls.append((call, machine))
        self.gate.wait(30)
        time.sleep(self.delay)
        if call in self.broken:
            raise (NodeNotReady if call == "wait_ready" else BackendError)(f"{call} failed on purpose")
