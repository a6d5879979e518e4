# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs around each job, and what becomes of jobs and nodes when it fails. Both nodes are idle again afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testinfra.host import Host

from simulated.node import Node

Eventually = Callable[..., float]
REQUEUE_S = 240
"""A job that met a bad node waits for 61 s (cred_expire) and for the next scheduling."""


@pytest.fixture
def broken(node: Callable[[str], Node]) -> Iterator[Callable[[str, str, str], Node]]:
    """Put a script that fails onto one node. Afterwards it goes, and all nodes take jobs again."""
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
    """What an operator does when the node is mended."""
    if "drain" in one.state():
        one.cluster.ssh(one.controller, f"sudo scontrol update nodename={one.name} state=resume")


def reason(controller: Host, name: str) -> str:
    """Why a node is out."""
    return str(controller.check_output(f"sinfo --noheader --nodes={name} --format=%%E"))


def has_reason(controller: Host, name: str, wanted: str) -> Callable[[], bool]:
    """Whether it is out for this reason."""
    return lambda: reason(controller, name) == wanted


def status(one: Node) -> dict[str, Any]:
    """What the node says of its scripts."""
    return dict(json.loads(one.sh("hpcnode job status --json", check=False)))


def test_shipped_scripts_ran_around_a_job_and_left_their_logs(alice: Any, node: Callable[[str], Node]) -> None:
    number = alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "sh -c 'echo $SLURM_JOB_ID'")
    said = node("0").sh(f"cat /var/log/hpcai/jobs/{number}.prolog.log")
    assert "10-scratch: done" in said
    told = status(node("0"))
    assert told["status"] == 0
    assert [(one["name"], one["owner"]) for one in told["kinds"]["prolog"]["scripts"]] == [
        ("10-scratch", "slurm"),
        ("15-containers", "enroot_pyxis"),
        ("15-hosts", "slurm"),
        ("20-beeond", "beeond"),
        ("30-health", "health_checks"),
        ("60-blob", "blob_staging"),
    ]


# Daily, the prolog over its limit drains its node too.
@pytest.mark.thorough
def test_prolog_that_fails_drains_its_node_and_the_job_runs_elsewhere(
    controller: Host, alice: Any, broken: Callable[..., Node], eventually: Eventually
) -> None:
    """Two jobs that want a node each: one of them meets the bad one."""
    bad = broken("0", "prolog.d/50-gpu", "echo GPU 3 is missing; exit 1")
    jobs = [alice.sbatch("--nodes=1 --exclusive --time=5", "sleep 1") for _job in range(2)]

    def found() -> list[dict[str, str]]:
        return [alice.job(number) for number in jobs]

    eventually(lambda: all(job["JobState"] == "COMPLETED" for job in found()), REQUEUE_S, found)
    assert {job["NodeList"] for job in found()} == {"compute-3"}
    [met] = [job["JobId"] for job in found() if job["Restarts"] == "1"]
    wanted = f"hpcai: prolog: 50-gpu: GPU 3 is missing (job {met})"
    eventually(has_reason(controller, bad.name, wanted), 30, lambda: reason(controller, bad.name))
    assert bad.state() == "drained"
    told = status(bad)
    assert (told["status"], told["kinds"]["prolog"]["failure"]["reason"]) == (1, wanted)
    # Mended and resumed, it takes jobs, and its own status is good again.
    bad.sh("rm /etc/hpcai/prolog.d/50-gpu")
    resume(bad)
    alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "true")
    assert status(bad)["status"] == 0


@pytest.mark.thorough
def test_where_no_more_nodes_may_be_out_a_prolog_and_an_epilog_that_fail_drain_none(
    controller: Host, alice: Any, node: Callable[[str], Node], broken: Callable[..., Node], eventually: Eventually
) -> None:
    """One of two nodes may be. Slurm itself would drain each one, as many as there are."""
    other = node("3")
    controller.check_output(f"scontrol update nodename={other.name} state=drain reason='hpcai: prolog: 50-mine: x'")
    try:
        one = broken("0", "prolog.d/50-gpu", "echo GPU 3 is missing; exit 1")
        number = alice.sbatch("--nodelist=compute-0 --time=5", "true")
        eventually(lambda: alice.is_put_back(number), 90, lambda: alice.job(number))
        shown = alice.check_output(f"scontrol show job {number}")
        assert f"AdminComment=hpcai: compute-0: 50-gpu: GPU 3 is missing (job {number})" in shown
        eventually(lambda: one.state() == "idle", 60, one.state)
        assert status(one)["status"] == 1
        alice.run(f"scancel {number}")
        one.sh("rm /etc/hpcai/prolog.d/50-gpu")
        broken("0", "epilog.d/50-unmount", "echo cannot unmount /beeond; exit 1")
        number = alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", "sh -c 'echo $SLURM_JOB_ID'")
        eventually(lambda: one.state() == "idle", 90, one.state)
        said = one.sh(f"cat /var/log/hpcai/jobs/{number.strip()}.epilog.log")
        assert "50-unmount: exit status 1" in said
        assert "the node stays in scheduling: " in said
    finally:
        resume(other)


def test_prolog_that_names_the_jobs_own_reason_requeues_the_job_and_keeps_the_node(
    alice: Any, broken: Callable[..., Node], eventually: Eventually
) -> None:
    one = broken("0", "prolog.d/50-data", "echo /data is full; exit 75")
    number = alice.sbatch("--nodelist=compute-0 --time=5", "true")
    eventually(lambda: alice.is_put_back(number), 60, lambda: alice.job(number))
    assert "AdminComment=hpcai: compute-0: 50-data: /data is full" in alice.check_output(f"scontrol show job {number}")
    eventually(lambda: one.state() == "idle", 60, one.state)
    alice.run(f"scancel {number}")


def test_prolog_over_its_limit_is_ended_and_named(
    controller: Host, alice: Any, broken: Callable[..., Node], eventually: Eventually
) -> None:
    bad = broken("0", "prolog.d/50-slow", "sleep 4711")
    number = alice.sbatch("--nodelist=compute-0 --time=5", "true")
    wanted = f"hpcai: prolog: 50-slow: not done within 3 s (job {number})"
    eventually(has_reason(controller, bad.name, wanted), 60, lambda: reason(controller, bad.name))
    assert bad.sh("pgrep --full 'sleep 471[1]'", check=False) == ""
    alice.run(f"scancel {number}")


def test_epilog_that_fails_drains_its_node_after_the_job(
    controller: Host, alice: Any, broken: Callable[..., Node], eventually: Eventually
) -> None:
    bad = broken("3", "epilog.d/50-unmount", "echo cannot unmount /beeond; exit 1")
    number = alice.srun("--nodelist=compute-3 --ntasks=1 --mpi=none", "sh -c 'echo $SLURM_JOB_ID'")
    wanted = f"hpcai: epilog: 50-unmount: cannot unmount /beeond (job {number})"
    eventually(has_reason(controller, bad.name, wanted), 60, lambda: reason(controller, bad.name))
    # The epilog waits until it sees that; a node that is resumed before has it wait on.
    eventually(lambda: bad.state() == "drained", 60, bad.state)


@pytest.mark.thorough
def test_reason_of_an_operator_stays(
    controller: Host, alice: Any, broken: Callable[..., Node], eventually: Eventually
) -> None:
    bad = broken("3", "epilog.d/50-unmount", "echo cannot unmount /beeond; exit 1")
    number = alice.sbatch("--nodelist=compute-3 --time=5", "sleep 6")
    eventually(lambda: alice.job(number)["JobState"] == "RUNNING", 30, lambda: alice.job(number))
    controller.check_output("scontrol update nodename=compute-3 state=drain reason='bad fan, ticket 4711'")
    eventually(lambda: bad.state() == "drained", 60, bad.state)
    assert "the node is drained: bad fan, ticket 4711" in bad.sh(f"cat /var/log/hpcai/jobs/{number}.epilog.log")
    assert reason(controller, bad.name) == "bad fan, ticket 4711"
