# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What failed last of each kind in this boot, in /run/hpcai/job, and reporting its cause to Slurm.

It replaces the two words that slurmctld itself writes as the reason. Not from inside the prolog: slurmctld drains the
node only after that has ended, with its own reason, and Slurm's commands there would hang where slurmctld does.
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
"""Failures whose cause is not in Slurm yet, one file a kind. hpcai-hook-report.path watches it."""
SCHEMA = 1


@dataclass(frozen=True)
class Failure:
    """A run of scripts that failed.

    :ivar boot_id: the kernel's name of the boot that it belongs to.
    :ivar script: the script that failed first.
    :ivar cause: how: its exit status, a signal, its limit, or why it was refused.
    :ivar last_line: the last line that it wrote.
    :ivar others: scripts that failed after it.
    :ivar time: UTC, ISO 8601.
    :ivar log: where all output is.
    :ivar passed: when a later run of the kind had no failure; empty while there was none.
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
        """The node's reason in Slurm."""
        return self._with_job(f"hpcai: {self.kind}: {self.script}: {self.words}", LONGEST_REASON)

    @property
    def summary(self) -> str:
        """What the arbiter is told, of the length that it takes."""
        return self._with_job(f"{self.script}: {self.words}", SUMMARY)

    def _with_job(self, words: str, longest: int) -> str:
        job = "" if self.job == NO_JOB else f" (job {self.job})"
        return as_reason(words, longest - len(job)) + job

    @property
    def words(self) -> str:
        """What is wrong: what the script said; how it ended says more only where it was not in its hands."""
        return self.last_line if self.last_line and self.cause.startswith("exit status") else self.cause


def timestamp() -> str:
    """Return the time as records have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def record_failure(root: Root, failure: Failure, to_report: bool) -> None:
    """Keep a failure, and leave it for whoever tells Slurm.

    :raises OSError: it cannot be written.
    """
    text = json.dumps({"schema": SCHEMA, **asdict(failure)}, indent=2, sort_keys=True) + "\n"
    write_file(root.at(_path(failure.kind)), text)
    if to_report:
        write_file(root.at(f"{TO_REPORT}/{failure.kind}.json"), text)


def record_success(root: Root, kind: str) -> None:
    """Note that a run had no failure, if one before it had. Best effort: nothing depends on it."""
    failure = last_failure(root, kind)
    if failure and not failure.passed:
        with contextlib.suppress(OSError):
            record_failure(root, replace(failure, passed=timestamp()), False)


def last_failure(root: Root, kind: str) -> Failure | None:
    """Return the last failure of a kind in this boot; None if there was none."""
    return _read(root, _path(kind))


def to_be_reported(root: Root) -> list[Failure]:
    """Return the failures of this boot that are not in Slurm yet, and forget those of an earlier one."""
    found = []
    for kind in KINDS:
        failure = _read(root, f"{TO_REPORT}/{kind}.json")
        if failure:
            found.append(failure)
        else:
            remove_file(root.at(f"{TO_REPORT}/{kind}.json"))
    return found


def forget(root: Root, failure: Failure) -> None:
    """Forget that a failure has to be said, unless another one has taken its place."""
    if _read(root, f"{TO_REPORT}/{failure.kind}.json") == failure:
        remove_file(root.at(f"{TO_REPORT}/{failure.kind}.json"))


def has_record(root: Root, kind: str) -> bool:
    """Whether a record lies there, of whatever boot."""
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
"""How long slurmctld may take to drain the node. slurmd tells it again and again where it does not answer."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0

Clock = Callable[[], float]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Reported:
    """What became of a failure.

    :ivar known: whether Slurm knows, or need not know.
    """

    failure: Failure
    known: bool
    summary: str


def plan(node: NodeState | None, failure: Failure) -> str:
    """Return what to do about a node's reason, as slurmctld has it now: REWRITE, WAIT, LEAVE or DONE. Pure.

    Only the very words that slurmctld writes for this kind are replaced, and only on a node that is drained.
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
    """Tell Slurm about each failure that it does not know, and forget it then, told or not.

    :param find_own_address: what tells this machine's address as the controllers see it.
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
        return Reported(failure, False, f"Slurm could not be told: {error}")
    if env is None:
        return Reported(failure, True, f"this machine has no name in Slurm: {slurmd_env.ENV_FILE} is not there")
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
    return Reported(failure, False, f"Slurm could not be told '{failure.reason}' within {LIMIT_S:g} s: {problem}")


def _try(failure: Failure, env: SlurmdEnv, run: Run) -> Reported | None:
    node = node_queries.query_node(env.node_name, env.controllers, run)
    chosen = plan(node, failure)
    if chosen == WAIT:
        return None
    if chosen == LEAVE:
        words = f"node {env.node_name} keeps the reason that it has: {node.reason if node else ''}"
        return Reported(failure, True, words)
    if chosen == REWRITE:
        # Without State: it stays drained, and jobs that run there go on.
        node_queries.update_node(env.node_name, [f"Reason={failure.reason}"], env.controllers, run)
    return Reported(failure, True, f"the reason of node {env.node_name} is now: {failure.reason}")


def _pauses(deadline: float, clock: Clock) -> Iterator[float]:
    """Yield the pauses between questions: many nodes may fail at the same time, and slurmctld is one."""
    wait = _FIRST_PAUSE_S
    while clock() < deadline:
        yield wait
        wait = min(wait * 1.6, _LONGEST_PAUSE_S)
