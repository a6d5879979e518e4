# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs with a BeeGFS across their nodes. Its daemons are stand-ins, which fail on request. Afterwards, both nodes are
idle and clean.

The nodes have the settings of the simulated inventory: a start waits 29 s for the other nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testinfra.host import Host

from simulated.data import left
from simulated.node import Node

Eventually = Callable[..., float]
WITH_BEEOND = "--constraint=beeond --time=5"
FAULTS = "/etc/beegfs/stand-in-faults"
START_S, STOP_S = 90, 120
"""Seconds for prologs on a busy machine, which is longer than the timeout of a start, and for epilogs."""


@pytest.fixture(autouse=True)
def both(alice: Any, node: Callable[[str], Node], eventually: Eventually) -> Iterator[list[Node]]:
    """Both nodes; after each test they must be idle and clean again."""
    nodes = [node("0"), node("3")]
    yield nodes
    alice.run("scancel --user=alice")
    for one in nodes:
        one.sh(f"rm -f {FAULTS}; systemctl kill --kill-who=all --signal=SIGCONT slurmd", check=False)
    for one in nodes:
        eventually(lambda one=one: resumed(one), STOP_S, one.state)
        eventually(lambda one=one: left(one) == [], STOP_S, lambda one=one: left(one))


def resumed(one: Node) -> bool:
    """Resume the node if it is drained or down, as an operator does, and return whether it is idle."""
    if "drain" in one.state() or "down" in one.state():
        one.cluster.ssh(one.controller, f"sudo scontrol update nodename={one.name} state=resume")
    return one.state() == "idle"


def set_faults(one: Node, *lines: str) -> None:
    """Make parts of BeeGFS fail on a node."""
    one.write(FAULTS, ("\n".join(lines) + "\n").encode(), "0644")


def job_script_runs(first: Node) -> bool:
    """Whether the job's script, a sleep, runs on its first node."""
    return bool(first.sh("pgrep --full '^sleep 120'", check=False))


def reason(controller: Host, one: Node) -> str:
    """The node's drain reason."""
    return str(controller.check_output(f"sinfo --noheader --nodes={one.name} --format=%%E"))


def test_one_node_reads_what_the_other_writes(alice: Any, both: list[Node], eventually: Eventually) -> None:
    script = (
        "[ $SLURM_PROCID != 0 ] || { echo from $SLURMD_NODENAME >/beeond/tmp; mv /beeond/tmp /beeond/one; }; "
        "n=0; until [ -e /beeond/one ] || [ $n = 50 ]; do sleep 0.2; n=$((n+1)); done; "
        "echo $SLURMD_NODENAME $(cat /beeond/one) $(stat --format=%a:%U /beeond)"
    )
    output = alice.srun(f"{WITH_BEEOND} --nodes=2 --ntasks=2 --mpi=none", f"sh -c '{script}'")
    assert sorted(output.splitlines()) == [
        "compute-0 from compute-0 700:alice",
        "compute-3 from compute-0 700:alice",
    ]
    for one in both:
        eventually(lambda one=one: left(one) == [], STOP_S, lambda one=one: left(one))
        eventually(lambda one=one: one.state() == "idle", STOP_S, one.state)


def test_the_mount_is_nosuid_and_nodev_and_each_node_runs_its_daemons(
    alice: Any, both: list[Node], eventually: Eventually
) -> None:
    number = alice.sbatch(f"{WITH_BEEOND} --nodes=2", "sleep 120")
    # Slurm reports the job as running when its first prolog starts; the script starts after the last prolog.
    eventually(lambda: job_script_runs(both[0]), START_S, lambda: alice.job(number))
    first, second = both
    for one, daemons in ((first, {"mgmtd", "meta", "storage", "helperd"}), (second, {"storage", "helperd"})):
        status = json.loads(one.sh("hpcnode beeond status --json"))
        assert [set(job["daemons"]) for job in status["jobs"]] == [daemons]
        mounted = one.sh("grep ' /beeond ' /proc/mounts").split()
        assert mounted[0] == "beegfs_nodev"
        assert {"nosuid", "nodev"} <= set(mounted[3].split(","))
        assert one.sh(f"stat --format=%a /run/hpcai/beeond/{number} /run/hpcai/beeond/{number}/auth").split() == [
            "700",
            "400",
        ]
    secrets = {one.sh(f"sha256sum </run/hpcai/beeond/{number}/auth") for one in both}
    assert len(secrets) == 1
    # The sweep ignores running jobs.
    assert json.loads(first.sh("hpcnode beeond sweep --json"))["found"] == []
    assert left(first)
    alice.run(f"scancel {number}")


def test_a_job_on_one_node_gets_its_scratch_at_the_same_path(alice: Any, node: Callable[[str], Node]) -> None:
    output = alice.srun(
        f"{WITH_BEEOND} --nodes=1 --ntasks=1 --nodelist=compute-3 --mpi=none",
        "sh -c 'echo x >/beeond/x && stat --format=%a:%U /beeond && ! grep beegfs_nodev /proc/mounts'",
    )
    assert output.split() == ["700:alice"]


def test_a_comment_becomes_the_constraint_and_the_job_is_exclusive(alice: Any) -> None:
    for options in ("--comment=beeond", "--constraint=beeond"):
        number = alice.sbatch(f"{options} --hold --ntasks=1 --time=5", "true")
        shown = alice.job(number)
        alice.run(f"scancel {number}")
        assert (shown["Features"], shown["OverSubscribe"]) == ("beeond", "NO")
    number = alice.sbatch("--comment=nobeeond --hold --ntasks=1 --time=5", "true")
    shown = alice.job(number)
    alice.run(f"scancel {number}")
    assert (shown["Features"], shown["OverSubscribe"]) == ("(null)", "OK")


def test_a_job_without_the_constraint_gets_no_beegfs(alice: Any, node: Callable[[str], Node]) -> None:
    script = "sh -c 'echo $SLURM_JOB_ID; ! grep /beeond /proc/mounts'"
    [number] = alice.srun("--nodelist=compute-0 --ntasks=1 --mpi=none", script).split()
    log = node("0").sh(f"cat /var/log/hpcai/jobs/{number}.prolog.log")
    assert "20-beeond: done" in log
    assert "hpcnode beeond" not in log


def test_only_the_failed_node_is_drained_and_the_job_is_requeued(
    controller: Host, alice: Any, both: list[Node], eventually: Eventually
) -> None:
    good, bad = both
    set_faults(bad, "storage dies-after 0.2")
    number = alice.sbatch(f"{WITH_BEEOND} --nodes=2", "touch /tmp/never-without-it")
    eventually(lambda: "hpcai: prolog: 20-beeond" in reason(controller, bad), START_S, lambda: reason(controller, bad))
    assert "has ended: storage" in reason(controller, bad)
    eventually(lambda: alice.is_put_back(number), START_S, lambda: alice.job(number))
    eventually(lambda: good.state() == "idle", STOP_S, good.state)
    assert [left(one) for one in both] == [[], []]
    assert good.sh("ls /tmp/never-without-it", check=False) == ""
    alice.run(f"scancel {number}")


@pytest.mark.thorough
def test_an_interactive_job_is_cancelled_if_a_peer_fails(alice: Any, both: list[Node], eventually: Eventually) -> None:
    good, bad = both
    set_faults(bad, "storage half-start")
    done = alice.run(f"srun {WITH_BEEOND} --nodes=2 --ntasks=2 --mpi=none touch /tmp/never-without-it", 3 * START_S)
    assert done.rc != 0
    eventually(lambda: good.state() == "idle", STOP_S, good.state)
    assert good.sh("ls /tmp/never-without-it", check=False) == ""


@pytest.mark.thorough
def test_daemons_that_ignore_sigterm_are_killed(alice: Any, both: list[Node], eventually: Eventually) -> None:
    for one in both:
        set_faults(one, *(f"{part} ignore-sigterm" for part in ("mgmtd", "meta", "storage", "helperd")))
    alice.srun(f"{WITH_BEEOND} --nodes=2 --ntasks=2 --mpi=none", "sh -c 'cd /beeond && echo x >$SLURM_PROCID'")
    for one in both:
        eventually(lambda one=one: left(one) == [], STOP_S, lambda one=one: left(one))
        eventually(lambda one=one: one.state() == "idle", STOP_S, one.state)


@pytest.mark.thorough
def test_a_hanging_mount_drains_its_node(
    controller: Host, alice: Any, both: list[Node], eventually: Eventually
) -> None:
    _good, bad = both
    set_faults(bad, "client mount-hang")
    number = alice.sbatch(f"{WITH_BEEOND} --nodes=2", "true")
    wanted = "cannot mount /beeond"
    eventually(lambda: wanted in reason(controller, bad), 2 * START_S, lambda: reason(controller, bad))
    alice.run(f"scancel {number}")


@pytest.mark.parametrize(
    "way", ["hpcnode beeond sweep", "systemctl restart hpcai-beeond-sweep", "/etc/hpcai/health.d/30-beeond"]
)
def test_the_sweep_removes_only_data_of_dead_jobs(both: list[Node], way: str) -> None:
    """The sweep runs by hand, at each boot, and every five minutes with the health checks."""
    one = both[0]
    one.sh(
        "mkdir -p /scratch/beeond/4711/storage /scratch/beeond/precious && "
        """printf '{"schema": 1, "job": "4711", "boot_id": "an earlier one"}' >/scratch/beeond/4711/.hpcai-beeond"""
    )
    one.sh(way)
    assert one.sh("ls /scratch/beeond").split() == ["precious"]
    one.sh("rmdir /scratch/beeond/precious")
