# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake slurmctld: it has nodes, and executes scontrol's commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import expand
from ansible_collections.hpcai.azure.plugins.modules import slurm_nodes


@dataclasses.dataclass
class Slurmctld:
    """Has nodes (name: state and reason), executes scontrol's commands, and records the updates."""

    nodes: dict[str, tuple[str, str]]
    # Seconds after which a node registers.
    registers_after: dict[str, int] = dataclasses.field(default_factory=dict)
    down: bool = False
    now: float = 0
    updates: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    updated_at: list[float] = dataclasses.field(default_factory=list)
    addresses: dict[str, str] = dataclasses.field(default_factory=dict)
    hidden: set[str] = dataclasses.field(default_factory=set)
    held: bool = False

    def run(self, command: Sequence[str]) -> Result:
        """Replace the command runner."""
        if self.down:
            return Result(tuple(command), 1, "", "slurm_load_node error: Unable to contact slurm controller\n")
        if list(command) == ["scontrol", "--oneliner", "show", "nodes"]:
            return Result(
                tuple(command), 0, "".join(self._line(name) for name in self.nodes if name not in self.hidden), ""
            )
        if list(command) == ["scontrol", "ping"]:
            return Result(tuple(command), 0, "Slurmctld(primary) at ctl is UP\n", "")
        if "reservation" in command or "ReservationName=hpcai-new-nodes" in command:
            return self._reserve(command)
        assert list(command[:2]) == ["scontrol", "update"]
        self.updates.append(tuple(command[2:]))
        self.updated_at.append(self.now)
        words = dict(word.split("=", 1) for word in command[2:])
        failed = False
        if "State" not in words:
            return Result(tuple(command), 0, "", "")
        for name in expand(words["NodeName"]):
            state, _reason = self.nodes[name]
            if words["State"] == "DOWN":
                self.nodes[name] = "DOWN", words["Reason"]
            elif words["State"] == "DRAIN":
                self.nodes[name] = f"{state}+DRAIN", words["Reason"]
            else:
                # slurmctld 22.05 clears the flag and still fails.
                failed = failed or self._state(name).startswith("UNKNOWN")
                self.nodes[name] = state.replace("+DRAIN", "") + "+NOT_RESPONDING", ""
                # slurmctld marks the node as not responding and contacts it again, which takes less than a second.
                self.registers_after[name] = max(self.registers_after.get(name, 0), int(self.now) + 1)
        return Result(tuple(command), int(failed), "", "slurm_update error: Invalid node state specified\n")

    def _reserve(self, command: Sequence[str]) -> Result:
        if "show" in command:
            shown = "ReservationName=hpcai-new-nodes StartTime=2026-11-21T18:15:57\n"
            return Result(tuple(command), 0, shown, "") if self.held else Result(tuple(command), 1, "", "not found")
        self.updates.append(tuple(command[1:]))
        self.held = "delete" not in command
        return Result(tuple(command), 0, "", "")

    def _state(self, name: str) -> str:
        state = self.nodes[name][0]
        if self.now >= self.registers_after.get(name, 0):
            return state.replace("UNKNOWN", "IDLE").replace("+NOT_RESPONDING", "")
        return state

    def _line(self, name: str) -> str:
        reason = self.nodes[name][1]
        shown_reason = f" Reason={reason} [root@2026-11-21T11:05:53]" if reason else ""
        address = self.addresses.get(name, "127.0.0.1")
        return f"NodeName={name} NodeAddr={address} CPUTot=1 State={self._state(name)} ThreadsPerCore=1{shown_reason}\n"


def play(monkeypatch: pytest.MonkeyPatch) -> Slurmctld:
    """A cluster of four nodes. Its clock only advances while the module sleeps."""
    played = Slurmctld(
        {
            "compute-0": ("IDLE", ""),
            "compute-3": ("IDLE+DRAIN", "hpcai: site: could not be configured"),
            "compute-17": ("IDLE+DRAIN", "bad fan, ticket 4711"),
            "compute-18": ("ALLOCATED", ""),
        }
    )

    def sleep(seconds: float) -> None:
        played.now += seconds

    monkeypatch.setattr(slurm_nodes, "run", played.run)
    monkeypatch.setattr(slurm_nodes.time, "sleep", sleep)
    monkeypatch.setattr(slurm_nodes.time, "monotonic", lambda: played.now)
    return played
