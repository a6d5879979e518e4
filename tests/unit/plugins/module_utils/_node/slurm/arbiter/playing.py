# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake cluster: nodes with their reports, and a slurmctld that stores what it is sent."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.observed import ObservedNode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import Fault, Report, encode
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState

NOW = 1_795_365_600.0
"""2026-11-22 16:40:00 UTC."""
BOOTED = NOW - 5 * 24 * 3600
LOST = Fault("gpu_count", "replace", "7 of 8 GPUs: 0003:00:00.0 is not there", blocks=True)
FULL = Fault("free_space", "observe", "/ is full")
HUNG = Fault("gpu_xid", "reboot", "XID 79 of 0001:00:00.0: fallen off the bus")
RESET = Fault("gpu_ecc", "reset_gpu", "0001:00:00.0 has uncorrectable errors")


def report(*faults: Fault, age: float = 60, vm_id: str = "vm-0", **more: Any) -> Report:
    """A report that a node sent a minute ago."""
    return Report(int(NOW - age), "b007b007", vm_id, more.pop("host", "host-a"), tuple(faults), **more)


def node(name: str = "compute-0", states: Sequence[str] = ("IDLE",), reason: str = "") -> NodeState:
    """A node as slurmctld shows it."""
    return NodeState(name, tuple(states), reason)


def drained(reason: str, name: str = "compute-0") -> NodeState:
    """A node that is drained for a reason."""
    return node(name, ("IDLE", "DRAIN"), reason)


def observe(what: NodeState, sent: Report | None = None, **more: Any) -> ObservedNode:
    """A node with its report, on a machine that booted long ago."""
    problem = "" if sent else more.pop("problem", "it has not reported")
    return ObservedNode(what, sent, problem, more.pop("booted", BOOTED), more.pop("reason_since", None))


@dataclass
class Slurmctld:
    """A fake slurmctld that keeps nodes as ``scontrol`` shows and changes them, with the messages of Slurm 22.05.

    :ivar silent: it does not answer.
    """

    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    silent: bool = False
    refuses: str = ""
    commands: list[str] = field(default_factory=list)
    now: float = NOW

    def add(self, name: str, sent: Report | None = None, state: str = "IDLE", reason: str = "") -> None:
        """Add a node."""
        self.nodes[name] = {"state": state, "reason": reason, "extra": encode(sent) if sent else ""}

    def receive(self, name: str, sent: Report) -> None:
        """Receive a node's report."""
        self.nodes[name]["extra"] = encode(sent)

    def shown(self, name: str) -> str:
        """A line of ``scontrol --oneliner show nodes``."""
        held = self.nodes[name]
        booted = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(BOOTED))
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.now))
        reason = f" Reason={held['reason']} [root@{since}]" if held["reason"] else ""
        extra = f" Extra={held['extra']}" if held["extra"] else ""
        return (
            f"NodeName={name} CPUAlloc=0 NodeAddr=10.0.0.4 NodeHostName={name}  State={held['state']} ThreadsPerCore=1 "
            f"  BootTime={booted} SlurmdStartTime={booted} CurrentWatts=0{reason}{extra}"
        )

    def __call__(self, command: Sequence[str], timeout_s: float = 120) -> Result:
        words = list(command)
        self.commands.append(" ".join(words))
        if self.silent:
            return Result(tuple(words), 1, "", "slurm_load_node error: Unable to contact slurm controller\n")
        assert words.pop(0) == "scontrol"
        if words[:2] == ["--oneliner", "show"]:
            names = list(self.nodes) if words[2] == "nodes" else [words[3]]
            return Result(tuple(command), 0, "".join(f"{self.shown(name)}\n" for name in names), "")
        if self.refuses and self.refuses in " ".join(words):
            return Result(tuple(command), 1, "", "slurm_update error: Invalid node state specified\n")
        if words[0] == "reboot":
            held = self.nodes[words[-1]]
            held["state"] = "IDLE+DRAIN+REBOOT_REQUESTED"
            held["reason"] = next(word for word in words if word.startswith("reason=")).partition("=")[2]
        else:
            given = dict(word.split("=", 1) for word in words[1:])
            held = self.nodes[given["NodeName"]]
            if given.get("State") == "DRAIN":
                held["state"] = "IDLE+DRAIN"
            if given.get("State") == "RESUME":
                held.update(state="IDLE", reason="")
            held["reason"] = given.get("Reason", held["reason"])
        return Result(tuple(command), 0, "", "")

    def reasons(self) -> dict[str, str]:
        """What ``sinfo -R`` would show."""
        return {name: held["reason"] for name, held in self.nodes.items() if re.search("DRAIN", held["state"])}


def consecutive(fault: Fault, runs: int) -> Fault:
    """The fault, found in this number of consecutive runs."""
    return replace(fault, runs=runs)
