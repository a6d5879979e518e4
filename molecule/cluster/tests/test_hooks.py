# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prologs and epilogs, and what happens to jobs and nodes if they fail. Afterwards, both nodes are idle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testinfra.host import Host

from simulated.node import Node

Eventually = Callable[..., float]
REQUEUE_S = 240
"""A job that is requeued waits 61 s (cred_expire) and for the next scheduling cycle."""


@pytest.fixture
def failing_script(node: Callable[[str], Node]) -> Iterator[Callable[[str, str, str], Node]]:
    """Install a failing script on a node. Afterwards, the scripts are removed and the nodes resumed."""
    put: list[tuple[Node, str]] = []

    def put_script(instance_id: str, path: str, body: str) -> Node:
        one = node(instance_id)
        put.append((one, path))
        text = f"#!/bin/sh\\n{body}\\n"
        one.sh(f"printf '{text}' > /etc/hpcai/{path} && chmod 0755 /etc/hpcai/{path}")
        return one

    yield put_script
    for one, path in put:
        one.sh(f"rm -f /etc/hpcai/{path}")
        resume(one)


def resume(one: Node) -> None:
    """Resume the node if it is drained, as an operator does."""
    if "drain" in one.state():
        one.cluster.ssh(one.controller, f"sudo scontrol update nodename={one.name} state=resume")


def reason(controller: Host, name: str) -> str:
    """The node's drain reason."""
    return str(controller.check_output(f"sinfo --noheader --nodes={name} --format=%%E"))


def has_reason(controller: Host, name: str, wanted: str) -> Callable[[], bool]:
    """A condition: the node has this drain reason."""
    return lambda: reason(controller, name) == wanted


def status(one: Node) -> dict[str, Any]:
    """The node's status of its prologs and epilogs."""
    return dict(json.loads(one.sh("hpcnode job status --json", check=False)))


def test_shipped_scripts_run_around_a_job_and_write_logs(alice: Any, node: Callable[[str], Node]) -> None:
    number = alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "sh -c 'echo $SLURM_JOB_ID'")
    log = node("0").sh(f"cat /var/log/hpcai/jobs/{number}.prolog.log")
    assert "10-scratch: done" in log
    report = status(node("0"))
    assert report["status"] == 0
    assert [(one["name"], one["owner"]) for one in report["kinds"]["prolog"]["scripts"]] == [
        ("10-scratch", "slurm"),
        ("15-containers", "enroot_pyxis"),
        ("15-hosts", "slurm"),
        ("20-beeond", "beeond"),
        ("30-health", "health_checks"),
        ("60-blob", "blob_staging"),
    ]


# `make test` covers a drain by a prolog with the one that exceeds its time limit.
@pytest.mark.thorough
def test_a_failing_prolog_drains_its_node_and_the_job_runs_elsewhere(
    controller: Host, alice: Any, failing_script: Callable[..., Node], eventually: Eventually
) -> None:
    """Two jobs request one node each, so one of them starts on the faulty node."""
    bad = failing_script("0", "prolog.d/50-gpu", "echo GPU 3 is missing; exit 1")
    jobs = [alice.sbatch("--nodes=1 --exclusive --time=5", "sleep 1") for _job in range(2)]

    def found() -> list[dict[str, str]]:
        return [alice.job(number) for number in jobs]

    eventually(lambda: all(job["JobState"] == "COMPLETED" for job in found()), REQUEUE_S, found)
    assert {job["NodeList"] for job in found()} == {"compute-3"}
    [met] = [job["JobId"] for job in found() if job["Restarts"] == "1"]
    wanted = f"hpcai: prolog: 50-gpu: GPU 3 is missing (job {met})"
    eventually(has_reason(controller, bad.name, wanted), 30, lambda: reason(controller, bad.name))
    assert bad.state() == "drained"
    report = status(bad)
    assert (report["status"], report["kinds"]["prolog"]["failure"]["reason"]) == (1, wanted)
    # After the repair and a resume, the node runs jobs, and its status is good again.
    bad.sh("rm /etc/hpcai/prolog.d/50-gpu")
    resume(bad)
    alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "true")
    assert status(bad)["status"] == 0


@pytest.mark.thorough
def test_at_the_drain_limit_failing_prologs_and_epilogs_drain_no_node(
    controller: Host,
    alice: Any,
    node: Callable[[str], Node],
    failing_script: Callable[..., Node],
    eventually: Eventually,
) -> None:
    """At most one of two nodes may be drained. Slurm itself would drain any number of nodes."""
    other = node("3")
    controller.check_output(f"scontrol update nodename={other.name} state=drain reason='hpcai: prolog: 50-mine: x'")
    try:
        one = failing_script("0", "prolog.d/50-gpu", "echo GPU 3 is missing; exit 1")
        number = alice.sbatch("--nodelist=compute-0 --time=5", "true")
        eventually(lambda: alice.is_put_back(number), 90, lambda: alice.job(number))
        shown = alice.check_output(f"scontrol show job {number}")
        assert f"AdminComment=hpcai: compute-0: 50-gpu: GPU 3 is missing (job {number})" in shown
        eventually(lambda: one.state() == "idle", 60, one.state)
        assert status(one)["status"] == 1
        alice.run(f"scancel {number}")
        one.sh("rm /etc/hpcai/prolog.d/50-gpu")
        failing_script("0", "epilog.d/50-unmount", "echo cannot unmount /beeond; exit 1")
        number = alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "sh -c 'echo $SLURM_JOB_ID'")
        eventually(lambda: one.state() == "idle", 90, one.state)
        log = one.sh(f"cat /var/log/hpcai/jobs/{number.strip()}.epilog.log")
        assert "50-unmount: exit status 1" in log
        assert "the node stays in scheduling: " in log
    finally:
        resume(other)


def test_a_prolog_that_exits_with_75_requeues_the_job_and_drains_no_node(
    alice: Any, failing_script: Callable[..., Node], eventually: Eventually
) -> None:
    one = failing_script("0", "prolog.d/50-data", "echo /data is full; exit 75")
    number = alice.sbatch("--nodelist=compute-0 --time=5", "true")
    eventually(lambda: alice.is_put_back(number), 60, lambda: alice.job(number))
    assert "AdminComment=hpcai: compute-0: 50-data: /data is full" in alice.check_output(f"scontrol show job {number}")
    eventually(lambda: one.state() == "idle", 60, one.state)
    alice.run(f"scancel {number}")


def test_a_prolog_over_its_time_limit_is_killed_and_reported(
    controller: Host, alice: Any, failing_script: Callable[..., Node], eventually: Eventually
) -> None:
    bad = failing_script("0", "prolog.d/50-slow", "sleep 4711")
    number = alice.sbatch("--nodelist=compute-0 --time=5", "true")
    wanted = f"hpcai: prolog: 50-slow: not done within 3 s (job {number})"
    eventually(has_reason(controller, bad.name, wanted), 60, lambda: reason(controller, bad.name))
    assert bad.sh("pgrep --full 'sleep 471[1]'", check=False) == ""
    alice.run(f"scancel {number}")


def test_a_failing_epilog_drains_its_node_after_the_job(
    controller: Host, alice: Any, failing_script: Callable[..., Node], eventually: Eventually
) -> None:
    bad = failing_script("3", "epilog.d/50-unmount", "echo cannot unmount /beeond; exit 1")
    number = alice.srun("--nodelist=compute-3 --ntasks=1 --mpi=none", "sh -c 'echo $SLURM_JOB_ID'")
    wanted = f"hpcai: epilog: 50-unmount: cannot unmount /beeond (job {number})"
    eventually(has_reason(controller, bad.name, wanted), 60, lambda: reason(controller, bad.name))
    # The epilog waits for this state. If the node were resumed earlier, the epilog would keep waiting.
    eventually(lambda: bad.state() == "drained", 60, bad.state)


@pytest.mark.thorough
def test_an_operators_drain_reason_is_kept(
    controller: Host, alice: Any, failing_script: Callable[..., Node], eventually: Eventually
) -> None:
    bad = failing_script("3", "epilog.d/50-unmount", "echo cannot unmount /beeond; exit 1")
    number = alice.sbatch("--nodelist=compute-3 --time=5", "sleep 6")
    eventually(lambda: alice.job(number)["JobState"] == "RUNNING", 30, lambda: alice.job(number))
    controller.check_output("scontrol update nodename=compute-3 state=drain reason='bad fan, ticket 4711'")
    eventually(lambda: bad.state() == "drained", 60, bad.state)
    assert "the node is drained: bad fan, ticket 4711" in bad.sh(f"cat /var/log/hpcai/jobs/{number}.epilog.log")
    assert reason(controller, bad.name) == "bad fan, ticket 4711"
