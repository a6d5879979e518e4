# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Records the last failure of each kind in this boot in /run/hpcai/job, and reports its cause to Slurm.

The cause replaces the two words that slurmctld itself writes as the drain reason. The prolog cannot do this: slurmctld
drains the node, with its own reason, only after the prolog has ended, and Slurm's commands hang if slurmctld hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Callable

from ...machine.atomic import remove_file, write_file
from ...machine.config import ConfigError
from ...machine.kernel import read_boot_id
from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ...slurm import node_queries, slurmd_env
from ...slurm.arbiter.report import SUMMARY
from ...slurm.node_queries import FindOwnAddress, NoController
from ...slurm.nodes import LONGEST_REASON, NodeState, as_reason
from ...slurm.slurmd_env import SlurmdEnv
from .options import KINDS, NO_JOB, SLURMS_REASONS

FOLDER = "/run/hpcai/job"
TO_REPORT = f"{FOLDER}/report"
"""Failures not yet reported to Slurm, one file per kind. hpcai-hook-report.path watches this folder."""
SCHEMA = 1


@dataclass(frozen=True)
class Failure:
    """A run of scripts that failed.

    :ivar boot_id: the kernel's id of the boot in which it happened.
    :ivar script: the script that failed first.
    :ivar cause: its exit status, signal or timeout, or why it was refused.
    :ivar last_line: the last line that it wrote.
    :ivar others: scripts that failed after it.
    :ivar time: UTC, ISO 8601.
    :ivar log: path of the log with all output.
    :ivar passed: when a later run of the kind succeeded; empty if none did.
    """

    kind: str
    job: str
    boot_id: str
    script: str
    cause: str
    last_line: str
    others: tuple[str, ...] = ()
    time: str = ""
    log: str = ""
    passed: str = ""

    @property
    def reason(self) -> str:
        """The node's drain reason in Slurm."""
        return self._with_job(f"hpcai: {self.kind}: {self.script}: {self.words}", LONGEST_REASON)

    @property
    def summary(self) -> str:
        """The text for the arbiter, no longer than the arbiter accepts."""
        return self._with_job(f"{self.script}: {self.words}", SUMMARY)

    def _with_job(self, words: str, longest: int) -> str:
        job = "" if self.job == NO_JOB else f" (job {self.job})"
        return as_reason(words, longest - len(job)) + job

    @property
    def words(self) -> str:
        """What is wrong: the script's last line if it ended with an exit status of its own, else the cause."""
        return self.last_line if self.last_line and self.cause.startswith("exit status") else self.cause


def timestamp() -> str:
    """Return the current time in the format of the records."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def record_failure(root: Root, failure: Failure, to_report: bool) -> None:
    """Record a failure; with ``to_report``, also queue it for the report to Slurm.

    :raises OSError: a file cannot be written.
    """
    text = json.dumps({"schema": SCHEMA, **asdict(failure)}, indent=2, sort_keys=True) + "\n"
    write_file(root.at(_path(failure.kind)), text)
    if to_report:
        write_file(root.at(f"{TO_REPORT}/{failure.kind}.json"), text)


def record_success(root: Root, kind: str) -> None:
    """Note that a run succeeded, if an earlier one failed. Best effort: nothing depends on it."""
    failure = last_failure(root, kind)
    if failure and not failure.passed:
        with contextlib.suppress(OSError):
            record_failure(root, replace(failure, passed=timestamp()), False)


def last_failure(root: Root, kind: str) -> Failure | None:
    """Return the last failure of a kind in this boot; None if there was none."""
    return _read(root, _path(kind))


def to_be_reported(root: Root) -> list[Failure]:
    """Return this boot's failures that are not yet reported to Slurm, and delete those of earlier boots."""
    found = []
    for kind in KINDS:
        failure = _read(root, f"{TO_REPORT}/{kind}.json")
        if failure:
            found.append(failure)
        else:
            remove_file(root.at(f"{TO_REPORT}/{kind}.json"))
    return found


def forget(root: Root, failure: Failure) -> None:
    """Remove a failure from the queue, unless a newer one has replaced it."""
    if _read(root, f"{TO_REPORT}/{failure.kind}.json") == failure:
        remove_file(root.at(f"{TO_REPORT}/{failure.kind}.json"))


def has_record(root: Root, kind: str) -> bool:
    """Whether there is a record, of any boot."""
    return os.path.lexists(root.at(_path(kind)))


def _read(root: Root, path: str) -> Failure | None:
    try:
        given = json.loads(root.text(path) or "")
        if given.pop("schema") != SCHEMA:
            return None
        failure = Failure(**{**given, "others": tuple(given["others"])})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if failure.boot_id != read_boot_id(root) or path.rpartition("/")[2] != f"{failure.kind}.json":
        return None
    return failure


def _path(kind: str) -> str:
    return f"{FOLDER}/{kind}.json"


REWRITE, WAIT, LEAVE, DONE = "rewrite", "wait", "leave", "done"
LIMIT_S = 240.0
"""How long slurmctld may take to drain the node. slurmd repeats its message while slurmctld does not answer."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0

Clock = Callable[[], float]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Reported:
    """The result of reporting a failure.

    :ivar known: whether Slurm has the cause, or does not need it.
    """

    failure: Failure
    known: bool
    summary: str


def plan(node: NodeState | None, failure: Failure) -> str:
    """Return what to do about a node's current drain reason: REWRITE, WAIT, LEAVE or DONE. Pure.

    Only the exact words that slurmctld writes for this kind are replaced, and only if the node is drained.
    """
    if node is None or not node.drained or not node.reason:
        return WAIT
    if node.reason == SLURMS_REASONS.get(failure.kind):
        return REWRITE
    return DONE if node.reason == failure.reason else LEAVE


def report_all(
    root: Root,
    run: Run,
    find_own_address: FindOwnAddress = node_queries.find_own_address,
    clock: Clock = time.monotonic,
    pause: Pause = time.sleep,
) -> list[Reported]:
    """Report each queued failure to Slurm, and remove it from the queue even if the report failed.

    :param find_own_address: returns this machine's address as the controllers see it.
    """
    made = []
    for failure in to_be_reported(root):
        made.append(_report(failure, root, run, find_own_address, clock, pause))
        forget(root, failure)
    return made


def _report(
    failure: Failure, root: Root, run: Run, find_own_address: FindOwnAddress, clock: Clock, pause: Pause
) -> Reported:
    try:
        env = slurmd_env.read(root)
    except ConfigError as error:
        return Reported(failure, False, f"cannot report the failure to Slurm: {error}")
    if env is None:
        return Reported(failure, True, f"this machine has no node name in Slurm: {slurmd_env.ENV_FILE} does not exist")
    problem = "slurmctld has not drained the node"
    for pause_s in _pauses(clock() + LIMIT_S, clock):
        try:
            find_own_address(env.controllers)
            outcome = _try(failure, env, run)
            if outcome:
                return outcome
            problem = "slurmctld has not drained the node"
        except (NoController, CommandFailed) as error:
            problem = str(error)
        pause(pause_s)
    return Reported(failure, False, f"cannot report '{failure.reason}' to Slurm within {LIMIT_S:g} s: {problem}")


def _try(failure: Failure, env: SlurmdEnv, run: Run) -> Reported | None:
    node = node_queries.query_node(env.node_name, env.controllers, run)
    chosen = plan(node, failure)
    if chosen == WAIT:
        return None
    if chosen == LEAVE:
        words = f"node {env.node_name} keeps its current reason: {node.reason if node else ''}"
        return Reported(failure, True, words)
    if chosen == REWRITE:
        # Without State: the node stays drained, and jobs that run on it continue.
        node_queries.update_node(env.node_name, [f"Reason={failure.reason}"], env.controllers, run)
    return Reported(failure, True, f"the reason of node {env.node_name} is now: {failure.reason}")


def _pauses(deadline: float, clock: Clock) -> Iterator[float]:
    """Yield growing pauses between the queries: many nodes may fail at the same time and query one slurmctld."""
    wait = _FIRST_PAUSE_S
    while clock() < deadline:
        yield wait
        wait = min(wait * 1.6, _LONGEST_PAUSE_S)
