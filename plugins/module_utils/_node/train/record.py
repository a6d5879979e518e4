# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The record of a training: one file in its job folder with all its runs, which the decision about a restart reads.

The job folder is on the shared file system and belongs to the job's user. Whatever it contains affects only that job.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..forms import (
    Malformed,
    anything,
    checked,
    choice,
    instance_of,
    integer,
    list_of,
    number,
    optional,
    record,
    string,
    text,
)
from ..job.recovery import CAUSES, EXIT, HANG, NODE, PREEMPTED, PREFLIGHT, TIME_LIMIT, JobRun
from ..machine.own_files import write_own
from ..slurm.hostlist import HostlistError, expand

SCHEMA = 1
FILE = "runs.json"
CONTINUE = 75
"""Exit status of a trainer that saved and stopped because it was asked to: sysexits' "try again later"."""
# srun: error: compute-[1-2]: tasks 1-2: Exited with exit code 1
_FAILURE = re.compile(r"^srun: error: (\S+): tasks? [0-9,-]+: (.+)$", re.M)


@dataclass(frozen=True)
class Run:
    """One run, as the record has it.

    :ivar nodes: the nodes that it had.
    :ivar started: when it started, in seconds since 1970.
    :ivar started_at: the step from which it continued.
    :ivar ended: when it ended; None while it runs. Earlier versions left it None if the run was killed.
    :ivar cause: one of ``CAUSES``; None while it runs.
    :ivar status: exit status of the trainer.
    :ivar failed: the nodes where it failed first.
    :ivar kept: the step from which the next run can continue.
    :ivar decision: what was decided, in one sentence; empty while it runs.
    :ivar invalid: why the preflight would refuse any node; empty if another node may help.
    """

    nodes: tuple[str, ...]
    started: float
    started_at: int | None
    ended: float | None = None
    cause: str | None = None
    status: int | None = None
    failed: tuple[str, ...] = ()
    kept: int | None = None
    decision: str = ""
    invalid: str = ""


@dataclass(frozen=True)
class Record:
    """All runs of a training job, oldest first.

    :ivar recipe: name of the recipe and its size, ``fsdp tiny``.
    """

    recipe: str
    runs: tuple[Run, ...] = ()

    def begun(self, nodes: Sequence[str], now: float, step: int | None, seen: float = 0.0, invalid: str = "") -> Record:
        """Return the record with a new run. One that never ended was killed with its node.

        :param seen: the last sign of a run that was killed, in seconds since 1970; 0 for none.
        :param invalid: why the preflight would refuse any node; empty if another node may help.
        """
        runs = tuple(
            replace(
                run,
                ended=seen if run.started < seen < now else now,
                cause=NODE,
                kept=step,
                decision="The run was killed.",
            )
            if run.cause is None
            else run
            for run in self.runs
        )
        return replace(self, runs=(*runs, Run(tuple(nodes), now, step, invalid=invalid)))

    def ended(self, now: float, outcome: Outcome, kept: int | None) -> Record:
        """Return the record with the last run ended.

        :raises ValueError: no run was begun.
        """
        if not self.runs:
            raise ValueError("no run was begun")
        last = replace(
            self.runs[-1], ended=now, cause=outcome.cause, status=outcome.status, failed=outcome.failed, kept=kept
        )
        return replace(self, runs=(*self.runs[:-1], last))

    def decided(self, reason: str) -> Record:
        """Return the record with the decision about the last run."""
        return replace(self, runs=(*self.runs[:-1], replace(self.runs[-1], decision=reason)))

    def history(self) -> tuple[JobRun, ...]:
        """Return the runs that ended, for the decision about a restart."""
        return tuple(
            JobRun(run.nodes, run.cause, run.status, run.failed, run.started_at, run.kept, run.invalid)
            for run in self.runs
            if run.cause is not None
        )


@dataclass(frozen=True)
class Outcome:
    """How a run ended: a cause of ``recovery``, the exit status, and the nodes where it failed first."""

    cause: str
    status: int | None
    failed: tuple[str, ...] = ()


def outcome(
    status: int, errors: str, refused: bool, noticed: Sequence[str], before_limit: bool, hung: bool = False
) -> Outcome:
    """Return how a run ended.

    :param status: exit status of the trainer, or of the preflight.
    :param errors: the standard error of its srun.
    :param refused: whether the preflight refused a node.
    :param noticed: nodes about which the platform gave notice.
    :param before_limit: whether the job got the signal that its time limit is near.
    :param hung: whether its watchdog ended it for a hang. Then srun's messages are about the watchdog's signal.
    """
    failed = first_failed(errors)
    if status not in (0, CONTINUE):
        # srun returns the highest status of all tasks, which may be that of tasks that it terminated itself.
        status = _first_status(errors) or status
    if refused:
        return Outcome(PREFLIGHT, status, _all_failed(errors))
    if status == 0:
        return Outcome(EXIT, 0)
    if hung:
        return Outcome(HANG, status)
    if noticed:
        return Outcome(PREEMPTED, status, tuple(noticed))
    if before_limit or status == CONTINUE:
        return Outcome(TIME_LIMIT, status)
    if "Node failure" in errors or "NODE FAIL" in errors:
        return Outcome(NODE, status, failed)
    return Outcome(EXIT, status, failed)


def first_failed(errors: str) -> tuple[str, ...]:
    """Return the nodes of the first failure in srun's messages; later ones are consequences."""
    match = _first_failure(errors)
    return _nodes_of(match) if match else ()


def _all_failed(errors: str) -> tuple[str, ...]:
    """Return the nodes of all failures, in the order of srun's messages."""
    return tuple(dict.fromkeys(node for match in _FAILURE.finditer(errors) for node in _nodes_of(match)))


def _nodes_of(failure: re.Match[str]) -> tuple[str, ...]:
    try:
        return tuple(expand(failure[1]))
    except HostlistError:
        return ()


def _first_failure(errors: str) -> re.Match[str] | None:
    # "Terminated" is what srun does to the others.
    return next((match for match in _FAILURE.finditer(errors) if not match[2].startswith("Terminated")), None)


def _first_status(errors: str) -> int | None:
    match = _first_failure(errors)
    code = re.search(r"Exited with exit code (\d+)", match[2]) if match else None
    if code:
        return int(code[1])
    return 137 if match and match[2].startswith("Killed") else None


_RUN: Mapping[str, Any] = {
    "nodes": list_of(text),
    "started": number(),
    "started_at": optional(integer()),
    "ended": optional(number()),
    "cause": optional(choice(*CAUSES)),
    "status": optional(integer()),
    "failed": list_of(text),
    "kept": optional(integer()),
    "decision": string,
    "invalid": string,
}
_FORM = record(
    {"schema": anything, "recipe": text, "runs": list_of(instance_of(Run, _RUN))}, ("schema", "recipe", "runs")
)


def read_record(folder: str) -> Record | None:
    """Return the record of a job folder; None if there is none.

    :raises Malformed: it is no record.
    """
    path = f"{folder}/{FILE}"
    try:
        # In a folder of another user it may be a pipe, which must not block this.
        with open(path, encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Malformed(f"{path}: it is not a file.")
            content = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Malformed(f"{path}: it is not JSON: {error}") from None
    given = checked(_FORM, content, path)
    if given["schema"] != SCHEMA:
        raise Malformed(f"{path}: its schema is {given['schema']!r}, and this hpcnode reads {SCHEMA}.")
    return Record(given["recipe"], given["runs"])


def write_record(folder: str, written: Record) -> None:
    """Write the record of a job folder.

    :raises OSError: it cannot be written, or the folder belongs to another user.
    """
    data = {"schema": SCHEMA, "recipe": written.recipe, "runs": [asdict(run) for run in written.runs]}
    write_own(f"{folder}/{FILE}", json.dumps(data, indent=2) + "\n", in_own_folder=True)
