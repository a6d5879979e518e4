# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The slots in slurmctld: reading them with their jobs, and changing them with Slurm's own commands."""

from __future__ import annotations

import calendar
import re
import time

from ..machine.run import CommandFailed, Run, must
from ..slurm import job_control
from ..slurm.hostlist import HostlistError, compress, expand
from ..slurm.nodes import PLACEHOLDER_ADDRESS, as_reason, parse_nodes, parse_records
from .turn import BLANK, DOWN, FORCE, POWER_DOWN, POWER_UP, RESET, Change, Publish, Tell
from .views import JobOn, SlotNode, SlurmView

LEASE = "hpcai-lease/1/"
"""Start of the text in a node's record that shows its lease; the machine's vmId follows. scontrol's own parser does not
accept an equals sign in a value."""
# No account: without accounting, a user can pass any text as one.
_SQUEUE = (
    *("squeue", "--noheader", "--noconvert", "--states=RUNNING,SUSPENDED,COMPLETING,CONFIGURING"),
    "--format=%i|%u|%T|%P|%N",
)
_STATES = {DOWN: "DOWN", FORCE: "POWER_DOWN_FORCE", POWER_DOWN: "POWER_DOWN", POWER_UP: "POWER_UP"}


def lease_text(vm_id: str) -> str:
    """Return the text that shows a lease."""
    return f"{LEASE}{vm_id}"


class Slurmctld:
    """slurmctld on this machine.

    :param field: the field of a node's record that shows the lease.
    """

    def __init__(self, run: Run, field: str) -> None:
        self._run, self._field = run, field
        self._lease = re.compile(rf" {field}={re.escape(LEASE)}([0-9a-f-]{{36}})(?: |$)")

    def view(self) -> SlurmView:
        """Return all nodes, and the jobs that have nodes. See ``reconcile.Slurm``."""
        shown = must(self._run(["scontrol", "--oneliner", "show", "nodes"])).stdout
        nodes = self._nodes(shown)
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
                _epoch(record.field("LastBusyTime")),
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
            # From DOWN, this makes it powered down and usable at once, without SuspendTimeout. A node that is powered
            # down already refuses the first command.
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

    def publish(self, lease: Publish) -> None:
        """Show a lease. See ``reconcile.Slurm``."""
        words = [f"NodeAddr={lease.address}", f"NodeHostName={lease.host_name}"]
        words += [f"{self._field}={lease_text(lease.vm_id)}"]
        must(self._run(["scontrol", "update", f"NodeName={lease.slot}", *words]))

    def tell(self, words: Tell) -> None:
        """Tell a job why its nodes do not come. See ``reconcile.Slurm``."""
        text = as_reason(words.words)
        must(self._run(["scontrol", "update", f"JobId={words.job}", f"AdminComment={text}"]))
        # Only srun and salloc show it, and only while the job runs.
        self._run(["scontrol", "notify", words.job, text])
        if words.elsewhere:
            # Only now that the job waits, Slurm shows all partitions that its user named.
            shown = self._run(["squeue", "--noheader", f"--jobs={words.job}", "--states=PENDING", "--format=%P"])
            if set(shown.stdout.strip().split(",")) & words.elsewhere:
                must(self._run(["scontrol", "update", f"JobId={words.job}", "StartTime=now"]))


def _jobs(shown: str) -> list[JobOn]:
    found = []
    for line in shown.splitlines():
        words = line.strip().split("|")
        if len(words) != 5:
            if line.strip():
                raise CommandFailed(f"squeue printed {line.strip()!r}, which is not a job")
            continue
        number, user, state, partitions, nodes = words
        try:
            names = tuple(expand(nodes)) if nodes else ()
        except HostlistError as error:
            raise CommandFailed(str(error)) from None
        found.append(JobOn(number, user, state, tuple(partitions.split(",")), names))
    return found


def _epoch(utc: str) -> float | None:
    """Return a time that scontrol printed; commands run in UTC (``machine.run``)."""
    try:
        return float(calendar.timegm(time.strptime(utc, "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return None
