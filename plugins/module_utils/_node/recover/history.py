# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Why the runs of a job ended, from slurmdbd's records. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..job.recovery import ACTIONS, CANCELLED, CAUSES, EXIT, HANG, NODE, PREEMPTED, PREFLIGHT, TIME_LIMIT, JobRun
from ..ledger import accounting
from ..ledger.accounting import Event
from ..ledger.buckets import BY_CHECK, DOWN, bucket_of_event
from ..ledger.checkpoints import Index
from ..slurm.hostlist import HostlistError, expand

ASKS = "recover"
_HUNG = "hang="
_CAUSES: Mapping[str, str] = {
    "NODE_FAIL": NODE,
    "BOOT_FAIL": NODE,
    "PREEMPTED": PREEMPTED,
    "TIMEOUT": TIME_LIMIT,
    "DEADLINE": TIME_LIMIT,
    "CANCELLED": CANCELLED,
    # Requeued by its prolog, or by somebody.
    "REQUEUED": PREFLIGHT,
}
_BEFORE_S, _AFTER_S = 900.0, 90.0
"""An outage in this time around the end of a run explains it: Slurm notices a dead node after SlurmdTimeout."""
_CLOCKS_S = 5


def asks(run: accounting.JobRun, partitions: Sequence[str]) -> bool:
    """Whether a job is to be recovered."""
    return ASKS in run.words or run.partition in partitions


def decided_runs(runs: Sequence[accounting.JobRun], log: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """Return the decisions about a job that were carried out, by the number of the run's end, from 1 on.

    :param log: entries of the log of decisions about a job with this id, which may also be an earlier job.
    """
    ends = sorted(run.end for run in runs if run.end is not None)
    return {
        number: one
        for one in log
        for number in [one.get("runs", 0)]
        if one.get("action") in ACTIONS and not one.get("problem")
        if 0 < number <= len(ends) and one["time"] >= int(ends[number - 1]) - _CLOCKS_S
    }


def history(
    runs: Sequence[accounting.JobRun],
    events: Mapping[str, Sequence[Event]],
    checkpoints: Index,
    decided: Mapping[int, Mapping[str, Any]] | None = None,
) -> tuple[JobRun, ...]:
    """Return the runs of a job that have ended, oldest first, for the decision.

    :param events: outages by node.
    :param decided: earlier decisions (``decided_runs``). When a failed job is requeued, its record becomes REQUEUED, so
        only they know why it had ended.
    :param checkpoints: show which step each run reached; without them a run's progress is unknown.
    """
    ordered = sorted((run for run in runs if run.end is not None), key=lambda run: run.start)
    # What the job's own watchdog wrote about itself; the comment is that of the last run.
    hung = {word[len(_HUNG) :] for run in ordered for word in run.words if word.startswith(_HUNG)}
    for run in ordered:
        for name, when in run.saved:
            checkpoints.add(name, when)
    made = []
    for number, run in enumerate(ordered):
        end = run.end if run.end is not None else run.start
        nodes = _expanded(run.nodes)
        failed = tuple(node for node in nodes if _failed(events.get(node, ()), end))
        cause = _CAUSES.get(run.state, EXIT)
        if str(number) in hung and cause == EXIT:
            cause = HANG
        elif cause == PREFLIGHT and failed:
            cause = NODE
        status = _status(run) if cause == EXIT else None
        before = (decided or {}).get(number + 1, {})
        if run.state == "REQUEUED" and before.get("cause") in CAUSES:
            cause, status = str(before["cause"]), before.get("status")
        made.append(
            JobRun(
                nodes,
                cause,
                status,
                failed if cause in (NODE, PREFLIGHT, PREEMPTED) else (),
                checkpoints.step_at(run.job, run.start, run.training, run.user),
                checkpoints.step_at(run.job, end, run.training, run.user),
            )
        )
    return tuple(made)


def _expanded(text: str) -> tuple[str, ...]:
    try:
        return tuple(expand(text))
    except HostlistError:
        return ()


def _failed(events: Sequence[Event], end: float) -> bool:
    return any(
        end - _BEFORE_S <= event.start <= end + _AFTER_S and bucket_of_event(event) in (BY_CHECK, DOWN)
        for event in events
    )


def _status(run: accounting.JobRun) -> int | None:
    """Return a shell's exit status from Slurm's ``STATUS:SIGNAL``."""
    status, _colon, signal = run.exit.partition(":")
    if signal.isdecimal() and int(signal):
        return 128 + int(signal)
    if run.state == "OUT_OF_MEMORY":
        return 137
    if run.state != "COMPLETED" and status == "0":
        # Its program did not say why it failed.
        return None
    return int(status) if status.isdecimal() else None
