# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs survive a restart of slurmctld and the loss of a node. Afterwards, both nodes are idle."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

from simulated.cluster import RESOURCE_GROUP, SCALE_SET, Cluster
from simulated.node import Node

CPUS, JOBS, SECONDS = 4, 6, 45
"""More jobs than the two nodes have CPUs. No job may end between the last save of the queue and the kill: the new
slurmctld would assume that it still runs until the node registers minutes later, and would then run it a second
time."""
SAVED_S = 12
"""slurmctld saves its queue 5 to 10 s after a change, and cannot save it when it is killed."""
BACK_S = 120
START_S = 90
"""With its prolog, on a busy machine."""
REQUEUE_S = 110
"""From the requeue to the next start: 61 s and a scheduling cycle. With Slurm's defaults it is at least 121 s."""


def states(controller: Host, job: str) -> list[str]:
    """The states of an array's jobs."""
    shown = controller.check_output(f"scontrol --oneliner show job {job}")
    return [state for line in shown.splitlines() for state in re.findall(r" JobState=(\S+)", line)]


def running(computes: list[Host]) -> int:
    """How many of the jobs run on the nodes: slurmctld reports RUNNING before the nodes start them."""
    return sum(int(host.run(f"pgrep --count --full '^[^ ]*sleep {SECONDS}$'").stdout) for host in computes)


@pytest.mark.thorough
def test_jobs_survive_a_restart_and_a_kill_of_slurmctld(
    controller: Host, computes: list[Host], alice: Any, eventually: Callable[..., float]
) -> None:
    job = alice.sbatch(f"--array=1-{JOBS} --ntasks=1 --mem=100 --time=5", f"sleep {SECONDS}")
    eventually(lambda: running(computes) == CPUS, START_S, lambda: states(controller, job))
    controller.check_output("systemctl restart slurmctld")
    eventually(lambda: controller.run("scontrol ping").rc == 0, 60, lambda: "no answer after the restart")
    controller.check_output(f"sleep {SAVED_S}")
    before = states(controller, job)
    assert before.count("RUNNING") == CPUS
    assert "PENDING" in before
    controller.check_output("systemctl kill --kill-who=main --signal=SIGKILL slurmctld")
    eventually(lambda: controller.run("scontrol ping").rc != 0, 20, lambda: "it still answers")
    controller.run("systemctl reset-failed slurmctld")
    controller.check_output("systemctl start slurmctld")
    eventually(lambda: controller.run("scontrol ping").rc == 0, 60, lambda: "no answer after the kill")
    assert states(controller, job).count("RUNNING") == running(computes) == CPUS
    eventually(lambda: states(controller, job) == ["COMPLETED"] * JOBS, 180, lambda: states(controller, job))
    # Each job ran only once.
    shown = controller.check_output(f"scontrol --oneliner show job {job}")
    assert re.findall(r" Restarts=(\S+)", shown) == ["0"] * JOBS


@pytest.mark.thorough
def test_a_dead_nodes_job_runs_elsewhere_and_the_node_returns(
    controller: Host,
    azure: Cluster,
    alice: Any,
    node: Callable[[str], Node],
    eventually: Callable[..., float],
) -> None:
    machines = azure.sdk().virtual_machine_scale_set_vms
    # In this test, a node that does not answer is down after 20 s; in production it is 300 s.
    controller.check_output("cp /etc/slurm/slurm.conf /root/slurm.conf.patient")
    controller.check_output("sed -i -e '/^SlurmdTimeout=/d' -e '$aSlurmdTimeout=20' /etc/slurm/slurm.conf")
    controller.check_output("scontrol reconfigure")
    try:
        job = alice.sbatch("--nodes=1 --exclusive --requeue --time=5", "sleep 15")
        eventually(lambda: alice.job(job)["JobState"] == "RUNNING", START_S, lambda: alice.job(job))
        dead, other = alice.job(job)["NodeList"], {"compute-0": "compute-3", "compute-3": "compute-0"}
        which = dead.rpartition("-")[2]
        lost = node(which)
        # Kill everything at once, as a power failure does, so that nothing can report the job's end to slurmctld.
        lost.sh(
            f"systemctl kill --kill-who=all --signal=SIGKILL slurmd; pkill -KILL --full '[s]lurmstepd: .{job}[.]'; "
            "systemctl stop slurmd"
        )
        machines.begin_power_off(RESOURCE_GROUP, SCALE_SET, which, skip_shutdown=True).result()
        eventually(lambda: lost.state() == "down*", BACK_S, lost.state)
        eventually(lambda: alice.job(job)["JobState"] == "PENDING", 30, lambda: alice.job(job))
        # A requeued job waits until the credential of its first start has expired: cred_expire and 1 s.
        took = eventually(lambda: alice.job(job)["JobState"] == "RUNNING", 120, lambda: alice.job(job))
        print(f"{took:.0f} s from the loss of the node to the start on the other")
        assert took < REQUEUE_S
        eventually(lambda: alice.job(job)["JobState"] == "COMPLETED", 60, lambda: alice.job(job))
        assert (alice.job(job)["NodeList"], alice.job(job)["Restarts"]) == (other[dead], "1")
        machines.begin_start(RESOURCE_GROUP, SCALE_SET, which).result()
        eventually(lambda: lost.state() == "idle", BACK_S, lambda: (lost.state(), lost.slurmd()))
        assert lost.runs_a_job()
    finally:
        controller.check_output("cp /root/slurm.conf.patient /etc/slurm/slurm.conf")
        controller.check_output("scontrol reconfigure")
