# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A prolog script that exits with 75: the job is requeued with the reason, and the node is not drained."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.failures import Failure
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner import (
    Ask,
    DrainDecision,
    Outcome,
    run_kind,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE, slurmd_env

from ..beeond.conftest import SQUEUE_LINE
from .conftest import JOB, Node

IDS = {"SLURM_JOB_UID": "4001", "SLURM_JOB_GID": "4001", "SLURM_JOB_RESTART_COUNT": "0"}


class Slurmctld:
    """A fake slurmctld with job 17."""

    def __init__(self) -> None:
        self.restarts = self.before = 0
        self.silent = False
        self.asked: list[tuple[str, ...]] = []

    def run(self, words: Sequence[str], timeout_s: float = 0) -> Result:
        """Answer a command."""
        self.asked.append(tuple(words))
        if self.silent:
            return Result(tuple(words), 124, "", "")
        if "requeue" in words:
            self.restarts += 1
        state = "PENDING" if self.restarts > self.before else "CONFIGURING"
        shown = SQUEUE_LINE.format(state=state, restarts=self.restarts, batch=1, requeue=1, array=17, task="N/A")
        return Result(tuple(words), 0, shown if "squeue" in words else "", "")


@pytest.fixture
def slurmctld() -> Slurmctld:
    """A slurmctld that answers."""
    return Slurmctld()


def prolog(node: Node, slurmctld: Slurmctld, kind: str = "prolog", ask: Ask = lambda _failure, _s: None) -> Outcome:
    """Run the scripts of a kind for job 17."""
    node.file(ENV_FILE, slurmd_env("compute-0", ["10.0.0.4"]))
    return run_kind(kind, node.root, {**JOB, **IDS}, slurmctld.run, ask)


def test_exit_status_75_requeues_the_job_and_the_prolog_succeeds(node: Node, slurmctld: Slurmctld) -> None:
    node.script("50-data", "echo /data is full; exit 75")
    node.script("60-never", "exit 1")
    done = prolog(node, slurmctld)
    assert (done.failure, done.done_instead) == (None, "job 17 was requeued")
    assert slurmctld.restarts == 1
    comments = [words for words in slurmctld.asked if any(word.startswith("AdminComment=") for word in words)]
    assert [words[-1] for words in comments] == ["AdminComment=hpcai: compute-0: 50-data: /data is full"]
    assert (node.failure(), node.waiting()) == (None, [])
    assert "was requeued" in node.log()


def test_exit_status_75_fails_the_prolog_if_slurmctld_is_silent(node: Node, slurmctld: Slurmctld) -> None:
    slurmctld.silent = True
    node.script("50-data", "echo /data is full; exit 75")
    done = prolog(node, slurmctld)
    assert done.failure is not None
    assert done.failure.cause == "exit status 75"
    assert "cannot be requeued, so the prolog fails: slurmctld did not answer" in node.log()


@pytest.mark.parametrize(("kind", "status"), [("epilog", 75), ("health", 75), ("prolog", 1)])
def test_other_kinds_and_other_exit_statuses_fail(node: Node, slurmctld: Slurmctld, kind: str, status: int) -> None:
    node.script("50-data", f"exit {status}", kind)
    done = prolog(node, slurmctld, kind)
    assert done.failure is not None
    assert slurmctld.asked == []


def test_a_failed_prolog_script_requeues_the_job_if_no_drain_is_allowed(node: Node, slurmctld: Slurmctld) -> None:
    asked: list[tuple[str, float]] = []

    def ask(failure: Failure, seconds: float) -> DrainDecision:
        asked.append((failure.summary, seconds))
        return DrainDecision(False, "the limit is reached")

    node.script("50-mine", "echo no licence; exit 1")
    done = prolog(node, slurmctld, ask=ask)
    assert (done.failure, done.done_instead, slurmctld.restarts) == (None, "job 17 was requeued", 1)
    [(summary, seconds)] = asked
    assert summary == "50-mine: no licence (job 17)"
    assert 60 < seconds < 100
    # The node's own status shows the failure, and nothing waits for slurmctld to drain the node.
    assert node.failure()
    assert node.waiting() == []
    assert "the node stays in scheduling: the limit is reached" in node.log()


def test_a_failed_epilog_script_keeps_the_node_if_no_drain_is_allowed(node: Node, slurmctld: Slurmctld) -> None:
    node.script("50-mine", "echo cannot unmount; exit 1", "epilog")
    done = prolog(node, slurmctld, "epilog", lambda _failure, _seconds: DrainDecision(False, "the limit is reached"))
    assert (done.failure, slurmctld.asked) == (None, [])
    assert done.done_instead.endswith(
        "50-mine: cannot unmount (job 17): the node stays in scheduling: the limit is reached"
    )


def test_a_failed_script_fails_the_prolog_if_slurmctld_is_silent(node: Node, slurmctld: Slurmctld) -> None:
    slurmctld.silent = True
    node.script("50-mine", "exit 1")
    assert prolog(node, slurmctld, ask=lambda _failure, _seconds: DrainDecision(False, "nobody answered")).failure


@pytest.mark.parametrize(("body", "asks"), [("exit 1", False), ("kill -9 $$", True), ("exit 127", True)])
def test_the_arbiter_is_asked_for_the_health_script_only_if_it_crashed(
    node: Node, slurmctld: Slurmctld, body: str, asks: bool
) -> None:
    asked: list[str] = []
    node.script("30-health", body)

    def ask(failure: Failure, _seconds: float) -> DrainDecision:
        asked.append(failure.script)
        return DrainDecision(True, "drained")

    done = prolog(node, slurmctld, ask=ask)
    assert (done.failure, slurmctld.restarts) == (None, 1)
    assert bool(asked) is asks


def test_a_failed_script_of_kind_health_asks_nobody(node: Node, slurmctld: Slurmctld) -> None:
    node.script("50-mine", "exit 1", "health")
    assert prolog(node, slurmctld, "health", lambda _failure, _seconds: DrainDecision(False, "no")).failure


@pytest.mark.parametrize("is_out", [True, False])
def test_a_job_that_was_requeued_often_is_held_unless_the_node_is_drained(
    node: Node, slurmctld: Slurmctld, is_out: bool
) -> None:
    """The prolog never fails: slurmctld could notice it after the job's script started on another node."""
    slurmctld.restarts = slurmctld.before = 9
    node.file(ENV_FILE, slurmd_env("compute-0", ["10.0.0.4"]))
    node.script("50-mine", "echo no licence; exit 1")
    given = {**JOB, **IDS, "SLURM_JOB_RESTART_COUNT": "9"}
    done = run_kind("prolog", node.root, given, slurmctld.run, lambda _failure, _seconds: DrainDecision(is_out, "so"))
    assert done.failure is None
    assert slurmctld.restarts == 10
    assert bool([words for words in slurmctld.asked if "uhold" in words]) is not is_out
    assert f"the node {'is drained' if is_out else 'stays in scheduling'}: so" in node.log()
