# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster for rollouts: a simulated scale set, and what replaces slurmctld in the process of a test.

A node's slurmd starts again when the simulator gives its instance a new system.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.action import slurm_roll
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import rolling
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import expand
from simulator.backends import NodeSpec
from simulator.backends.recording import RecordingBackend
from simulator.testing import Simulator, running

from .azure import OLD_IMAGE, action_of, add_gallery, options_of, set_image, version_id

FIRST_BOOT = "2026-11-22T16:40:00"


@dataclass
class FakeNode:
    """A node as slurmctld shows it."""

    states: set[str]
    reason: str = ""
    started: str = FIRST_BOOT
    job: str = ""


class FakeSlurm:
    """A slurmctld with one job per node, if any.

    :ivar most_out: the most nodes that were out because of a rollout at the same time.
    :ivar silent: nodes whose slurmd does not start again.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.nodes = {name: FakeNode({"IDLE"}) for name in names}
        self.most_out = 0
        self.silent: set[str] = set()
        self.drained: list[str] = []
        self.fails = 0
        """How many of the next commands fail."""
        self.on_look: Callable[[], None] = lambda: None
        """Called at each look at the nodes."""
        self.lock = threading.RLock()
        self._boots = 0

    def run(self, command: Sequence[str]) -> Result:
        """Run a command."""
        with self.lock:
            if self.fails:
                self.fails -= 1
                return Result(tuple(command), 1, "", "slurm_load_node error: Unable to contact slurm controller")
            return Result(tuple(command), 0, self._answer(command), "")

    def _answer(self, command: Sequence[str]) -> str:
        if command[0] == "squeue":
            jobs = {name: node.job for name, node in self.nodes.items() if node.job}
            return "".join(f"{job}|alice|RUNNING|{name}\n" for name, job in jobs.items())
        if command[1] == "update":
            self._update(dict(word.split("=", 1) for word in command[2:]))
            return ""
        self.on_look()
        return "".join(self._line(name, node) for name, node in self.nodes.items())

    def _line(self, name: str, node: FakeNode) -> str:
        reason = f" Reason={node.reason} [root@2026-11-22T16:40:00]" if node.reason else ""
        busy = {"ALLOCATED"} if node.job else set()
        states = "+".join(sorted((node.states - {"IDLE"} if busy else node.states) | busy))
        return f"NodeName={name} State={states} SlurmdStartTime={node.started}{reason}\n"

    def _update(self, wanted: Mapping[str, str]) -> None:
        for name in expand(wanted["NodeName"]):
            node = self.nodes[name]
            if wanted["State"] == "DRAIN":
                if "DRAIN" not in node.states:
                    self.drained.append(name)
                node.states.add("DRAIN")
                node.reason = wanted["Reason"]
            else:
                assert "NOT_RESPONDING" not in node.states
                node.states.discard("DRAIN")
                node.reason = ""
        out = [node for node in self.nodes.values() if node.reason.startswith("hpcai: roll:")]
        self.most_out = max(self.most_out, len(out))

    def boot(self, name: str) -> None:
        """Start the new system of a node."""
        with self.lock:
            node = self.nodes[name]
            assert not node.job, f"{name} got a new system while a job ran there"
            assert "DRAIN" in node.states
            self._boots += 1
            if name in self.silent:
                node.states.add("NOT_RESPONDING")
                node.reason += " : Not responding"
            else:
                node.started = f"2026-11-26T23:00:{self._boots:02}"


class Clock:
    """The time of a rollout, which only a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """The time in seconds."""
        return self.now

    def sleep(self, _seconds: float) -> None:
        """Wait briefly, because the simulator works meanwhile."""
        time.sleep(0.02)


class BootingBackend(RecordingBackend):
    """Starts a node's slurmd when its instance gets a new system."""

    slurm: FakeSlurm | None = None

    def replace(self, spec: NodeSpec) -> None:
        """Replace the system."""
        super().replace(spec)
        if self.slurm is not None:
            self.slurm.boot(spec.name.replace("_", "-"))


class Cluster:
    """A scale set of nodes, and their slurmctld."""

    def __init__(self, simulator: Simulator, backend: BootingBackend, clock: Clock) -> None:
        self.simulator, self.backend, self.clock = simulator, backend, clock
        members = [item for item in simulator.model.instances() if item.scale_set is not None]
        self.instances = {item.name.replace("_", "-"): item for item in members}
        self.slurm = backend.slurm = FakeSlurm(list(self.instances))

    def want(self, version: str) -> None:
        """Give the sets' models a version."""
        names = list(dict.fromkeys(str(item.scale_set and item.scale_set.name) for item in self.instances.values()))
        set_image(self.simulator, version_id(self.simulator, version), *names)
        self.simulator.clear()

    def roll(self, *, check: bool = False, **options: Any) -> dict[str, Any]:
        """Run slurm_roll."""
        action = action_of(slurm_roll, check=check)
        slurm = self.slurm

        def look(_variables: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
            names, image = arguments.pop("nodes"), arguments.pop("image")
            try:
                return rolling.perform(names, image, slurm.run, **arguments, check_mode=check)
            except Exception as error:
                return {"failed": True, "msg": str(error)}

        action.look = look
        nodes = [{"node": name, "azure_id": item.id, "vm_id": item.vm_id} for name, item in self.instances.items()]
        wanted = {"nodes": nodes, "image": "node/1.1.0", "boot_timeout": 60, **options}
        return dict(action.work(options_of(slurm_roll, self.simulator, **wanted), {"inventory_hostname": "ctl"}))

    def images(self) -> dict[str, str]:
        """The version of each instance's image."""
        return {name: item.image.exact_version for name, item in self.instances.items() if not item.deleted}

    def updates(self) -> int:
        """How many updates of instances were requested."""
        return sum(item["path"].lower().endswith("/manualupgrade") for item in self.simulator.requests())


@contextmanager
def cluster_of(*sets: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster whose nodes have version 1.0.0, and whose models have 1.1.0."""
    clock = Clock()
    monkeypatch.setattr(slurm_roll, "time", clock)
    backend = BootingBackend()
    with running({"scale_sets": [{"image": {"id": OLD_IMAGE}, **one} for one in sets]}, backend=backend) as simulator:
        add_gallery(simulator, "1.0.0", "1.1.0")
        made = Cluster(simulator, backend, clock)
        made.want("1.0.0")
        for item in made.instances.values():
            assert item.scale_set is not None
            item.image, item.model_version = item.scale_set.image, item.scale_set.model_version
            item.touch()
        made.want("1.1.0")
        yield made
