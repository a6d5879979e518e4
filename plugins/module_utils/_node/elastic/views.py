# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a pass sees: slots in Slurm with their jobs, and a scale set in Azure. A view is complete, or it is None."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..slurm.nodes import NO_INSTANCE, OUR_PREFIX, PLACEHOLDER_ADDRESS

ELASTIC = f"{OUR_PREFIX} elastic: "
"""Start of the reasons that the daemon gives."""
EVICTED = f"{ELASTIC}evicted"
"""Start of the reason that a node gives itself when Azure announces that it evicts the machine."""
RETIRED = f"{ELASTIC}retire: "
"""Start of the reason of a node whose machine an administrator wants to go."""
_EVICTED_AT = re.compile(rf"{re.escape(EVICTED)} at (\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
_BOOT = f"{OUR_PREFIX} boot: "
_DUPLICATE = "Duplicate jobid"
"""slurmctld drains a node with it after a job was launched there twice, which a killed slurmctld does (job_mgr.c)."""
# power_save.c, ping_nodes.c, node_mgr.c.
_BY_SLURM = ("Not responding", "Node unexpectedly rebooted", "ResumeTimeout reached", "POWER_DOWN_ASAP", _DUPLICATE)
_AWAY = ("POWERED_DOWN", "POWERING_DOWN")
_COMING = ("POWERING_UP", "POWER_UP")
_SILENT = ("NOT_RESPONDING", "UNKNOWN", "FUTURE")
_RESERVED = ("RESERVED", "MAINT", "MAINTENANCE", "PLANNED")


@dataclass(frozen=True)
class SlotNode:
    """A slot in Slurm.

    :ivar states: base state and flags.
    :ivar lease: vmId in the lease that Slurm shows for it; empty without one.
    :ivar last_busy: when a job last used it, in seconds since the epoch; None if Slurm does not say.
    :ivar partitions: names of its partitions.
    """

    name: str
    states: frozenset[str]
    reason: str = ""
    address: str = PLACEHOLDER_ADDRESS
    host_name: str = ""
    lease: str = ""
    last_busy: float | None = None
    partitions: tuple[str, ...] = ()

    def _any(self, *states: str) -> bool:
        return any(state in self.states for state in states)

    @property
    def coming(self) -> bool:
        """Whether Slurm waits for its machine. A node that was set down keeps POWERING_UP, but no job waits for it."""
        return self._any(*_COMING) and not self.restarts and not self.down

    @property
    def away(self) -> bool:
        """Whether Slurm has given its machine up."""
        return self._any(*_AWAY) and not self.coming

    @property
    def leaving(self) -> bool:
        """Whether Slurm gives its machine up as soon as its jobs have ended."""
        return self._any("POWER_DOWN")

    @property
    def restarts(self) -> bool:
        """Whether a restart of its machine was requested, or is in progress."""
        return any(state.startswith("REBOOT") for state in self.states)

    @property
    def down(self) -> bool:
        """Whether it is down."""
        return self._any("DOWN")

    @property
    def drained(self) -> bool:
        """Whether it is drained."""
        return any("DRAIN" in state for state in self.states)

    @property
    def joined(self) -> bool:
        """Whether its machine's slurmd has registered and answers."""
        up = self._any("IDLE", "ALLOCATED", "MIXED", "COMPLETING")
        return up and not self.coming and not self.away and not self.down and not self._any(*_SILENT)

    @property
    def silent(self) -> bool:
        """Whether its slurmd does not answer: its machine may be gone."""
        return self._any("NOT_RESPONDING")

    @property
    def idle(self) -> bool:
        """Whether it runs no job, and may be given up."""
        busy = self._any("ALLOCATED", "MIXED", "COMPLETING", *_RESERVED)
        return self.joined and not busy and not self.drained and not self.leaving and not self.restarts

    @property
    def free(self) -> bool:
        """Whether it has no machine, and Slurm could give it to a job."""
        return self.away and "POWERED_DOWN" in self.states and not self.down and not self.drained

    @property
    def is_stuck(self) -> bool:
        """Whether it is powered down, and slurmctld will not use it after its next restart.

        'scontrol update State=RESUME' of a node that is down and powered down leaves NOT_RESPONDING. slurmctld uses
        such a node until it restarts, and then never again (24.11.5).
        """
        return self.free and "NOT_RESPONDING" in self.states and not self.leaving

    @property
    def is_kept_by_people(self) -> bool:
        """Whether it was drained or set down by a person, or for its health. Nobody else deletes its machine."""
        if not self.reason:
            return self.drained
        return (self.drained or self.down) and not self.reason.startswith((ELASTIC, _BOOT, NO_INSTANCE, *_BY_SLURM))

    @property
    def has_duplicate(self) -> bool:
        """Whether slurmctld has drained it, and never resumes it, although it has no fault."""
        return self.drained and self.reason.startswith(_DUPLICATE)

    @property
    def is_evicted(self) -> bool:
        """Whether the node has reported that Azure evicts its machine."""
        return self.drained and self.reason.startswith(EVICTED)

    @property
    def evicted_at(self) -> float:
        """When Azure evicts its machine; 0 if its reason has no valid time, so that its jobs are requeued at once."""
        found = _EVICTED_AT.match(self.reason)
        try:
            return float(calendar.timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M:%SZ"))) if found else 0.0
        except ValueError:
            return 0.0

    @property
    def is_retired(self) -> bool:
        """Whether the daemon has drained it because its machine shall go."""
        return self.drained and self.reason.startswith(RETIRED)

    @property
    def in_use(self) -> bool:
        """Whether its state shows a job."""
        return self._any("ALLOCATED", "MIXED", "COMPLETING")


@dataclass(frozen=True)
class JobOn:
    """A job that has nodes, or waits.

    :ivar state: as Slurm shows it, such as CONFIGURING.
    :ivar partitions: those that it may run in.
    :ivar nodes: names of its nodes.
    """

    id: str
    user: str = ""
    state: str = "RUNNING"
    partitions: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[int, str]:
        """A sort key: the oldest job first."""
        number = self.id.split("_", maxsplit=1)[0]
        return (int(number) if number.isdecimal() else 0, self.id)


@dataclass(frozen=True)
class SlurmView:
    """Slurm's answer.

    :ivar nodes: the slots, by name.
    :ivar jobs: the jobs that have nodes.
    """

    nodes: Mapping[str, SlotNode]
    jobs: tuple[JobOn, ...] = ()

    def jobs_by_slot(self) -> dict[str, list[JobOn]]:
        """Return the jobs on each node, the oldest first."""
        found: dict[str, list[JobOn]] = {}
        for job in sorted(self.jobs, key=lambda one: one.order):
            for name in job.nodes:
                found.setdefault(name, []).append(job)
        return found


FAILED, DELETING, SUCCEEDED = "Failed", "Deleting", "Succeeded"
"""Provisioning states of instances, and results of operations."""
IN_PROGRESS = "InProgress"


@dataclass(frozen=True)
class Instance:
    """An instance of a scale set.

    :ivar id: its instance id, which Azure may give again.
    :ivar vm_id: its identity.
    :ivar state: provisioning state.
    :ivar power: power state, such as ``running``; empty if it is not known.
    :ivar address: private address; empty if it is not known yet.
    :ivar host_name: its computer name.
    """

    id: str
    vm_id: str
    state: str = SUCCEEDED
    power: str = ""
    address: str = ""
    host_name: str = ""

    @property
    def is_wreck(self) -> bool:
        """Whether its creation failed. A failed instance that runs may still join."""
        return self.state == FAILED and self.power != "running"


@dataclass(frozen=True)
class Operation:
    """An operation in Azure.

    :ivar status: IN_PROGRESS, SUCCEEDED, or anything else for a failure; empty if Azure no longer knows it.
    :ivar code: Azure's innermost error code.
    """

    status: str
    code: str = ""
    message: str = ""


@dataclass(frozen=True)
class SetView:
    """A scale set.

    :ivar etag: identifies this state of the set in a change.
    :ivar capacity: how many instances Azure wants it to have.
    :ivar updating: whether Azure is still changing the set.
    :ivar operations: the operations of open orders, by the orders' ids.
    :ivar refused: why this identity may not read the operations; empty if it may, or if there is none.
    """

    etag: str
    capacity: int
    instances: tuple[Instance, ...] = ()
    operations: Mapping[str, Operation] = field(default_factory=dict)
    updating: bool = False
    refused: str = ""
