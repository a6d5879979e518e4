# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A prolog whose script exits with 75: the job is requeued with the reason, and the node is not drained."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner import Outcome, run_kind
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE, slurmd_env

from ..beeond.conftest import SHOWN
from .conftest import JOB, Node

IDS = {"SLURM_JOB_UID": "4001", "SLURM_JOB_GID": "4001", "SLURM_JOB_RESTART_COUNT": "0"}


class Slurmctld:
    """slurmctld with job 17."""

    def __init__(self) -> None:
        self.restarts, self.silent = 0, False
        self.asked: list[tuple[str, ...]] = []

    def run(self, words: Sequence[str], timeout_s: float = 0) -> Result:
        """Answer."""
        self.asked.append(tuple(words))
        if self.silent:
            return Result(tuple(words), 124, "", "")
        if "requeue" in words:
            self.restarts += 1
        state = "PENDING" if self.restarts else "CONFIGURING"
        shown = SHOWN.format(state=state, restarts=self.restarts, batch=1, requeue=1, array=17, task="N/A")
        return Result(tuple(words), 0, shown if "squeue" in words else "", "")


@pytest.fixture
def slurmctld() -> Slurmctld:
    """slurmctld, which answers."""
    return Slurmctld()


def prolog(node: Node, slurmctld: Slurmctld, kind: str = "prolog") -> Outcome:
    """Run the scripts of a kind for job 17."""
    node.file(ENV_FILE, slurmd_env("compute-0", ["10.0.0.4"]))
    return run_kind(kind, node.root, {**JOB, **IDS}, slurmctld.run)


def test_the_job_is_requeued_with_the_reason_and_nothing_fails(node: Node, slurmctld: Slurmctld) -> None:
    node.script("50-data", "echo /data is full; exit 75")
    node.script("60-never", "exit 1")
    done = prolog(node, slurmctld)
    assert (done.failure, done.given_back) == (None, "job 17 was put back into the queue")
    assert slurmctld.restarts == 1
    told = [words for words in slurmctld.asked if any(word.startswith("AdminComment=") for word in words)]
    assert [words[-1] for words in told] == ["AdminComment=hpcai: compute-0: 50-data: /data is full"]
    assert (node.failure(), node.waiting()) == (None, [])
    assert "was put back into the queue" in node.log()


def test_where_slurmctld_is_silent_the_prolog_fails(node: Node, slurmctld: Slurmctld) -> None:
    slurmctld.silent = True
    node.script("50-data", "echo /data is full; exit 75")
    done = prolog(node, slurmctld)
    assert done.failure is not None
    assert done.failure.cause == "exit status 75"
    assert "cannot be requeued, and the prolog fails: slurmctld gave no answer" in node.log()


@pytest.mark.parametrize(("kind", "status"), [("epilog", 75), ("health", 75), ("prolog", 1)])
def test_other_kinds_and_other_statuses_fail_as_ever(node: Node, slurmctld: Slurmctld, kind: str, status: int) -> None:
    node.script("50-data", f"exit {status}", kind)
    done = prolog(node, slurmctld, kind)
    assert done.failure is not None
    assert slurmctld.asked == []
