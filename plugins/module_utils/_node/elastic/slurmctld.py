# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The slots in slurmctld: reading them with their jobs, and changing them with Slurm's own commands.

Also what a machine itself asks: which node it has a lease for, and which machine answers for a node.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from typing import Callable

from ..machine.run import CommandFailed, Run, must
from ..slurm import job_control
from ..slurm.arbiter import observed
from ..slurm.hostlist import HostlistError, compress
from ..slurm.node_queries import run_command
from ..slurm.nodes import (
    PLACEHOLDER_ADDRESS,
    SHOW_NODES,
    NodeState,
    as_reason,
    epoch,
    parse_nodes,
    parse_records,
    show_nodes,
)
from .boot_wait import LOOK_S
from .settings import FIELDS
from .turn import BLANK, DOWN, DRAIN, FORCE, POWER_DOWN, POWER_UP, RESET, Change, NotifyJob, Publish
from .views import JobOn, SlotNode, SlurmView

LEASE = "hpcai-lease/1/"
"""Start of the text in a node's record that shows its lease; the machine's vmId follows. scontrol's own parser does not
accept an equals sign in a value."""
# No account: without accounting, a user can pass any text as one.
_SQUEUE = (
    *("squeue", "--noheader", "--noconvert", "--states=RUNNING,SUSPENDED,COMPLETING,CONFIGURING"),
    "--format=%i|%u|%T|%P|%N",
)
_NOTICED_S = 1.0
"""How long a program that waits for the boot needs to notice a change, beside the time between its looks."""
_STATES = {
    DOWN: "DOWN",
    DRAIN: "DRAIN",
    FORCE: "POWER_DOWN_FORCE",
    POWER_DOWN: "POWER_DOWN",
    POWER_UP: "POWER_UP",
}


def lease_text(vm_id: str) -> str:
    """Return the text that shows a lease."""
    return f"{LEASE}{vm_id}"


class Slurmctld:
    """slurmctld on this machine.

    :param field: the field of a node's record that shows the lease.
    """

    def __init__(
        self,
        run: Run,
        field: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run, self._field, self._clock, self._sleep = run, field, clock, sleep
        self._down = -math.inf
        self._lease = re.compile(rf" {field}={re.escape(LEASE)}([0-9a-f-]{{36}})(?: |$)")

    def view(self) -> SlurmView:
        """Return all nodes, and the jobs that have nodes. See ``reconcile.Slurm``."""
        nodes = self._nodes(show_nodes(self._run))
        if not nodes:
            raise CommandFailed("scontrol shows no node, so its answer is not complete")
        return SlurmView(nodes, tuple(_jobs(must(self._run(list(_SQUEUE))).stdout)))

    def _nodes(self, shown: str) -> dict[str, SlotNode]:
        records = parse_records(shown)
        found = {}
        for name, node in parse_nodes(shown).items():
            record = records[name]
            if record is None:
                # Its record may be forged by a free text: it counts as drained by a person.
                found[name] = SlotNode(name, frozenset(node.states), node.reason)
                continue
            lease = self._lease.findall(record.after_reason)
            found[name] = SlotNode(
                name,
                frozenset(node.states),
                node.reason,
                node.address,
                node.host_name,
                lease[-1] if lease else "",
                epoch(record.field("LastBusyTime")),
                tuple(filter(None, record.field("Partitions").split(","))),
            )
        return found

    def busy(self, slots: list[str]) -> set[str]:
        """Return the slots on which jobs run. See ``reconcile.Slurm``."""
        jobs = [job for job in job_control.jobs_on(slots, self._run) if job.state != "CONFIGURING"]
        return {name for job in jobs for name in job.nodes} & set(slots)

    def change(self, change: Change) -> None:
        """Change slots. See ``reconcile.Slurm``."""
        nodes = f"NodeName={compress(change.slots)}"
        if change.kind == RESET:
            # RESUME alone would leave it powering up, and nothing would boot it; or if it is powered down, leave it not
            # responding, which a restart of slurmctld makes permanent. It is usable after SuspendTimeout.
            self._run(["scontrol", "update", nodes, "State=POWER_DOWN"])
            must(self._run(["scontrol", "update", nodes, "State=RESUME"]))
        elif change.kind == BLANK:
            words = [f"NodeAddr={PLACEHOLDER_ADDRESS}", f"NodeHostName={compress(change.slots)}", f"{self._field}="]
            if len(change.slots) > 1:
                words[0] = f"NodeAddr={','.join([PLACEHOLDER_ADDRESS] * len(change.slots))}"
            must(self._run(["scontrol", "update", nodes, *words]))
        else:
            reason = [f"Reason={change.reason}"] if change.reason else []
            must(self._run(["scontrol", "update", nodes, f"State={_STATES[change.kind]}", *reason]))
            if change.kind == DOWN:
                self._down = self._clock()

    def publish(self, lease: Publish) -> None:
        """Show a lease. See ``reconcile.Slurm``."""
        words = [f"NodeAddr={lease.address}", f"NodeHostName={lease.host_name}"]
        words += [f"{self._field}={lease_text(lease.vm_id)}"]
        must(self._run(["scontrol", "update", f"NodeName={lease.slot}", *words]))

    def notify_job(self, words: NotifyJob) -> None:
        """Tell a job why its nodes do not come. See ``reconcile.Slurm``."""
        text = as_reason(words.words)
        must(self._run(["scontrol", "update", f"JobId={words.job}", f"AdminComment={text}"]))
        # Only srun and salloc show it, and only while the job runs.
        self._run(["scontrol", "notify", words.job, text])
        if words.elsewhere:
            # Only now that the job waits, Slurm shows all partitions that its user named.
            shown = self._run(["squeue", "--noheader", f"--jobs={words.job}", "--states=PENDING", "--format=%P"])
            if set(shown.stdout.strip().split(",")) & words.elsewhere:
                # Until its PrologSlurmctld has noticed that a node is down, slurmctld would not look at the job.
                self._sleep(max(0.0, self._down + LOOK_S + _NOTICED_S - self._clock()))
                must(self._run(["scontrol", "update", f"JobId={words.job}", "StartTime=now"]))


def _jobs(shown: str) -> list[JobOn]:
    try:
        return [
            JobOn(number, user, state, tuple(partitions.split(",")), nodes)
            for (number, user, state, partitions), nodes in job_control.split_lines(shown, 5)
        ]
    except HostlistError as error:
        raise CommandFailed(str(error)) from None


def find_lease(vm_id: str, controllers: Sequence[str], run: Run) -> NodeState | None:
    """Return the node that slurmctld shows with a lease for this machine; None if there is none.

    :raises CommandFailed: slurmctld does not answer, or does not accept this machine's credentials.
    """
    shown = must(run_command(controllers, SHOW_NODES, run)).stdout
    nodes = parse_nodes(shown)
    wanted = [f" {field}={lease_text(vm_id)}" for field in FIELDS]
    for name, record in parse_records(shown).items():
        text = f"{record.after_reason.rstrip()} " if record else ""
        if any(f"{one} " in text for one in wanted):
            return nodes[name]
    return None


def machine_behind(node: NodeState, controllers: Sequence[str], run: Run) -> str | None:
    """Return the vmId of the machine that answers slurmctld for a node; empty if that machine has sent no report.

    :return: None if the machine at the node's address runs as another node. slurmctld's pings do not name the node, so
        the former node of an address seems to answer as long as any machine has this address.
    :raises CommandFailed: slurmctld does not answer.
    """
    shown = must(run_command(controllers, SHOW_NODES, run)).stdout
    others = [one for one in parse_nodes(shown).values() if one.address == node.address and one.answers]
    started = epoch(node.slurmd_started) or 0.0
    if any((epoch(one.slurmd_started) or 0.0) > started for one in others):
        return None
    found = observed.parse_nodes(shown).get(node.name)
    return found.report.vm_id.lower() if found and found.report else ""
