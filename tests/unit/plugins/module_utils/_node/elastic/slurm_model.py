# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model of slurmctld's power saving, in memory: the states and times that were measured with Slurm 22.05.8.

A node counts as resumed only if its slurmd registers after the request, as with ``slurmd -b``. A node that is down and
registers returns to service (ReturnToService=2).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.turn import (
    BLANK,
    DOWN,
    DRAIN,
    FORCE,
    POWER_DOWN,
    POWER_UP,
    Change,
    NotifyJob,
    Publish,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.views import JobOn, SlotNode, SlurmView
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import PLACEHOLDER_ADDRESS

SUSPEND_S, RESUME_S, SILENT_S, AGAIN_S = 60.0, 3600.0, 60.0, 121.0


@dataclass
class Node:
    """A node."""

    name: str
    power: str = "POWERED_DOWN"  # or POWERING_UP, POWERING_DOWN, POWER_DOWN, empty
    since: float = 0.0
    down: bool = False
    drained: bool = False
    reason: str = ""
    address: str = PLACEHOLDER_ADDRESS
    host_name: str = ""
    lease: str = ""
    last_busy: float = 0.0
    silent: float | None = None
    stuck: bool = False  # powered down, and not responding after somebody has resumed it


@dataclass
class Job:
    """A job."""

    id: int
    nodes_wanted: int
    seconds: float
    state: str = "PENDING"
    nodes: list[str] = field(default_factory=list)
    begin: float = 0.0
    ends: float = 0.0
    allocated: float = 0.0
    started: float | None = None
    words: list[str] = field(default_factory=list)
    requeued: int = 0

    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.state == "DONE"


@dataclass
class Slurm:
    """A cluster whose nodes are all elastic."""

    nodes: dict[str, Node]
    sets: tuple[str, ...]
    jobs: dict[int, Job] = field(default_factory=dict)
    now: float = 0.0
    wall: float = 0.0
    faults: list[str] = field(default_factory=list)

    # What the daemon calls

    def view(self) -> SlurmView:
        """All nodes and jobs."""
        self._fault()
        on = {name: job for job in self.jobs.values() for name in job.nodes}
        nodes = {}
        for node in self.nodes.values():
            job = on.get(node.name)
            states = {"CLOUD", "DOWN" if node.down else "ALLOCATED" if job else "IDLE"}
            states |= {node.power} - {""} | ({"DRAIN"} if node.drained else set())
            states |= (
                {"NOT_RESPONDING"} if node.stuck or node.silent is not None or node.power == "POWERING_UP" else set()
            )
            nodes[node.name] = SlotNode(
                node.name,
                frozenset(states),
                node.reason,
                node.address,
                node.host_name,
                node.lease,
                node.last_busy,
                (node.name.rpartition("-")[0], "all"),
            )
        jobs = [
            JobOn(str(job.id), "ann", job.state, ("all",), tuple(job.nodes)) for job in self.jobs.values() if job.nodes
        ]
        return SlurmView(nodes, tuple(jobs))

    def busy(self, slots: list[str]) -> set[str]:
        """Slots on which jobs run."""
        self._fault()
        return {name for job in self.jobs.values() if job.state == "RUNNING" for name in job.nodes if name in slots}

    def change(self, change: Change) -> None:
        """scontrol update NodeName=..."""
        self._fault()
        for name in change.slots:
            node = self.nodes[name]
            if change.kind == DOWN:
                node.down, node.reason = True, change.reason
                self._requeue(name)
            elif change.kind == DRAIN:
                node.drained, node.reason = True, change.reason
            elif change.kind == FORCE:
                self._requeue(name)
                if not node.drained:
                    node.reason = change.reason
                self._set(node, "POWERING_DOWN")
            elif change.kind == POWER_DOWN:
                if not node.power:
                    # slurmctld ends a drain then (power_save.c).
                    node.drained = False
                    self._set(node, "POWER_DOWN")
            elif change.kind == POWER_UP:
                if node.power == "POWERED_DOWN" and not node.down:
                    self._set(node, "POWERING_UP")
            elif change.kind == BLANK:
                node.address, node.host_name, node.lease = PLACEHOLDER_ADDRESS, name, ""
            else:
                node.down, node.drained, node.silent = False, False, None
                # Measured with 22.05.8 and 24.11.5: the reason stays in 24.11.
                node.stuck = False
                self._set(node, "POWERING_DOWN")

    def publish(self, lease: Publish) -> None:
        """scontrol update NodeAddr, NodeHostName and Comment."""
        self._fault()
        node = self.nodes[lease.slot]
        node.address, node.host_name, node.lease = lease.address, lease.host_name, lease.vm_id

    def notify_job(self, words: NotifyJob) -> None:
        """scontrol update JobId=... AdminComment=... StartTime=now."""
        self._fault()
        job = self.jobs[int(words.job)]
        job.words.append(words.words)
        if "all" in words.elsewhere:
            job.begin = self.now

    # What users, nodes and time do

    def submit(self, nodes: int, seconds: float) -> Job:
        """Submit a batch job."""
        job = Job(len(self.jobs) + 1, nodes, seconds, begin=self.now)
        self.jobs[job.id] = job
        return job

    def cancel(self, job: Job) -> None:
        """Cancel a job."""
        if job.state != "DONE":
            job.state = "DONE"
            self._free(job)

    def drain(self, name: str, reason: str) -> None:
        """Somebody drains a node."""
        self.nodes[name].drained, self.nodes[name].reason = True, reason

    def undrain(self, name: str) -> None:
        """Somebody resumes a drained node."""
        node = self.nodes[name]
        if node.drained:
            node.drained, node.reason = False, ""

    def register(self, name: str) -> None:
        """slurmd of the node's machine registers."""
        node = self.nodes[name]
        node.silent, node.stuck = None, False
        if node.power == "POWERING_UP":
            self._set(node, "")
        if node.down and node.power != "POWERED_DOWN":
            node.down, node.reason = False, "" if not node.drained else node.reason

    def is_alive(self, name: str, alive: bool) -> None:
        """slurmctld pings a node that should run."""
        node = self.nodes[name]
        if alive or node.power in ("POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"):
            node.silent = None
        elif node.silent is None:
            node.silent = self.now
        elif self.now - node.silent > SILENT_S and not node.down:
            node.down, node.reason = True, node.reason or "Not responding"
            self._requeue(name)

    def declare(self, name: str, declared: bool) -> None:
        """slurm.conf gets a node, or no longer has it; a node with a job stays."""
        if declared:
            self.nodes.setdefault(name, Node(name))
        elif not any(name in job.nodes for job in self.jobs.values()):
            self.nodes.pop(name, None)

    def dump(self) -> Slurm:
        """A copy of the saved state."""
        return copy.deepcopy(self)

    def restore(self, older: Slurm) -> None:
        """slurmctld starts with an older state: jobs since then are unknown."""
        # Job ids are not given again in the model: jobs that slurmctld forgot are over.
        lost = {number: job for number, job in self.jobs.items() if number not in older.jobs}
        for job in lost.values():
            job.state, job.nodes = "DONE", []
        self.nodes = {name: older.nodes.get(name, Node(name)) for name in self.nodes}
        self.jobs = {**older.jobs, **lost}
        for job in self.jobs.values():
            if set(job.nodes) - set(self.nodes):
                # slurm.conf has one of its nodes no more.
                job.state, job.nodes = "PENDING", []

    def tick(self, now: float) -> None:
        """Time passes."""
        self.now = now
        for node in self.nodes.values():
            if node.power == "POWERING_DOWN" and now - node.since >= SUSPEND_S:
                self._set(node, "POWERED_DOWN")
            elif node.power == "POWERING_UP" and now - node.since >= RESUME_S:
                node.down, node.reason = True, "ResumeTimeout reached"
                self._set(node, "POWERED_DOWN")
                self._requeue(node.name)
        for job in self.jobs.values():
            if job.state == "RUNNING" and now >= job.ends:
                job.state = "DONE"
                self._free(job)
            elif job.state == "CONFIGURING" and all(self._is_up(self.nodes[name]) for name in job.nodes):
                job.state, job.started, job.ends = "RUNNING", now, now + job.seconds
        busy = {name for job in self.jobs.values() for name in job.nodes}
        for node in self.nodes.values():
            if node.power == "POWER_DOWN" and node.name not in busy:
                self._set(node, "POWERING_DOWN")
        self._schedule(busy)

    def _schedule(self, busy: set[str]) -> None:
        for job in sorted(self.jobs.values(), key=lambda one: one.id):
            if job.state != "PENDING" or job.begin > self.now:
                continue
            for name in self.sets:
                able = [
                    node
                    for node in self.nodes.values()
                    if node.name.rpartition("-")[0] == name and node.name not in busy and self._may_run(node)
                ]
                able.sort(key=lambda node: node.power == "POWERED_DOWN")
                if len(able) < job.nodes_wanted:
                    continue
                job.state, job.nodes = "CONFIGURING", [node.name for node in able[: job.nodes_wanted]]
                job.allocated = self.now
                busy |= set(job.nodes)
                for node in able[: job.nodes_wanted]:
                    if node.power == "POWERED_DOWN":
                        self._set(node, "POWERING_UP")
                break

    def _may_run(self, node: Node) -> bool:
        return not node.down and not node.drained and node.power in ("", "POWERED_DOWN") and node.silent is None

    def _is_up(self, node: Node) -> bool:
        return not node.power and not node.down and node.silent is None

    def _requeue(self, name: str) -> None:
        for job in self.jobs.values():
            if name in job.nodes:
                self._free(job)
                job.state, job.begin, job.requeued = "PENDING", self.now + AGAIN_S, job.requeued + 1

    def _free(self, job: Job) -> None:
        for name in job.nodes:
            self.nodes[name].last_busy = self.now + self.wall
        job.nodes = []

    def _set(self, node: Node, power: str) -> None:
        node.power, node.since = power, self.now

    def _fault(self) -> None:
        if self.faults and self.faults.pop(0) == "failed":
            raise CommandFailed("slurmctld does not answer")


def cluster(**sizes: int) -> Slurm:
    """A cluster of these sets."""
    names = [f"{name}-{position}" for name, size in sizes.items() for position in range(size)]
    return Slurm({name: Node(name) for name in names}, tuple(sizes))
