# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes are added and removed while jobs run.

Two instances are added. While there are four, a job requests a BeeGFS across all of them and one does not answer. Then
one added node is retired while it runs a job, and the other is deleted in Azure without a playbook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from simulated.cluster import Cluster, Recap
from simulated.data import left
from simulated.node import Node

JOIN_S = 120
REQUEUE_S, DOWN_S = 270, 120
"""Seconds until a job with a missing node is requeued, and until a node that does not answer is down, or idle again."""
RETIRED = "17"
"""The first id that the simulator gives to a new instance; test_joining.py adds this one."""


@pytest.fixture(scope="module")
def added(azure: Cluster, node: Callable[[str], Node], eventually: Callable[..., float]) -> dict[str, Node]:
    """The two added instances by id, after a job has run on each."""
    azure.set_capacity(4)
    members = {number: node(number) for number in azure.instance_ids() if number not in ("0", "3")}
    for each in members.values():
        eventually(each.runs_a_job, JOIN_S, lambda each=each: (each.state(), each.boot()))
    return members


@pytest.fixture(scope="module")
def deleted(added: dict[str, Node]) -> Node:
    """The added node that is deleted in Azure."""
    (other,) = [each for number, each in added.items() if number != RETIRED]
    return other


@pytest.fixture(scope="module")
def job(alice: Any, added: dict[str, Node], eventually: Callable[..., float]) -> str:
    """The number of a job that runs on the node to be retired."""
    number = str(alice.sbatch(f"--nodelist={added[RETIRED].name} --time=5", "sleep 30"))
    eventually(lambda: alice.job(number)["JobState"] == "RUNNING", 30, lambda: alice.job(number))
    return number


@pytest.fixture(scope="module")
def timed_out(azure: Cluster, inventory_source: Path, job: str) -> Recap:
    """A run of retire.yml with a timeout of 0 s, while the job runs."""
    return azure.playbook("playbooks/retire.yml", inventory_source, "-e", f"retire=compute-{RETIRED} retire_timeout=0")


@pytest.fixture(scope="module")
def retired(azure: Cluster, inventory_source: Path, timed_out: Recap) -> Recap:
    """A run of retire.yml that waits for the job."""
    return azure.playbook("playbooks/retire.yml", inventory_source, "-e", f"retire=compute-{RETIRED}")


@pytest.fixture(scope="module")
def site_run(azure: Cluster, inventory_source: Path, retired: Recap, deleted: Node) -> Recap:
    """A run of site.yml after the other instance was deleted in Azure."""
    azure.delete_instances(deleted.instance_id)
    return azure.site(inventory_source)


def node_lines(controller: Host) -> str:
    """slurm.conf's node lines."""
    return str(controller.check_output("grep ^NodeName= /etc/slurm/slurm.conf"))


def test_new_nodes_join_and_run_jobs(added: dict[str, Node], deleted: Node) -> None:
    assert sorted(added) == [RETIRED, deleted.instance_id]


@pytest.fixture
def short_timeout(controller: Host) -> Iterator[None]:
    """slurmctld sets a node that does not answer to down after 45 s; in production it is 300 s."""
    controller.check_output("cp /etc/slurm/slurm.conf /root/slurm.conf.patient")
    controller.check_output("sed -i -e '/^SlurmdTimeout=/d' -e '$aSlurmdTimeout=45' /etc/slurm/slurm.conf")
    controller.check_output("scontrol reconfigure")
    yield
    controller.check_output("cp /root/slurm.conf.patient /etc/slurm/slurm.conf")
    controller.check_output("scontrol reconfigure")


@pytest.mark.thorough
def test_a_dead_node_fails_a_beegfs_job_but_no_other_node(
    alice: Any,
    node: Callable[[str], Node],
    added: dict[str, Node],
    deleted: Node,
    short_timeout: None,
    eventually: Callable[..., float],
) -> None:
    """The dead node's slurmd does not answer, so its prolog never starts, and slurmctld has not noticed this yet."""
    dead, good = added[RETIRED], [node("0"), node("3"), deleted]
    dead.sh("systemctl kill --kill-who=main --signal=SIGSTOP slurmd")
    try:
        number = alice.sbatch("--constraint=beeond --time=5 --nodes=4", "touch /tmp/never-without-it")
        eventually(lambda: alice.is_put_back(number), REQUEUE_S, lambda: alice.job(number))
        eventually(lambda: "down" in dead.state(), DOWN_S, dead.state)
        output = []
        for one in good:
            eventually(lambda one=one: one.state() == "idle", DOWN_S, one.state)
            assert left(one) == []
            assert one.sh("ls /tmp/never-without-it", check=False) == ""
            output.append(one.sh(f"cat /var/log/hpcai/jobs/{number}.prolog.log"))
        assert all("20-beeond: done" in words for words in output), output
        # The first node that reaches its timeout reports what is missing. The others may find the job requeued already,
        # or the management daemon of the first node stopped.
        assert any("3 of 4 storage" in words for words in output), output
        assert alice.is_put_back(number)
    finally:
        alice.run("scancel --user=alice")
        # Without a restart it would register only when slurmctld asks, which is rare for a node that is down.
        dead.sh("systemctl kill --kill-who=main --signal=SIGCONT slurmd; systemctl restart slurmd")
    eventually(lambda: dead.state() == "idle", DOWN_S, dead.state)


def test_retiring_a_busy_node_times_out_and_names_the_job(
    azure: Cluster, alice: Any, added: dict[str, Node], job: str, timed_out: Recap
) -> None:
    output = " ".join(timed_out.output.split())
    assert timed_out.rc != 0
    assert f"Jobs still run on compute-{RETIRED} after 0 s: {job} (alice, running)" in output
    assert added[RETIRED].state() == "draining"
    assert alice.job(job)["JobState"] == "RUNNING"
    assert RETIRED in azure.instance_ids()


def test_a_node_is_removed_after_its_job_has_ended(
    azure: Cluster, controller: Host, alice: Any, job: str, retired: Recap, deleted: Node
) -> None:
    assert retired.rc == 0, retired.output
    assert alice.job(job)["JobState"] == "COMPLETED"
    assert azure.instance_ids() == ["0", "3", deleted.instance_id]
    # Azure may give its id again: the name stays, without what slurmctld knew of the machine.
    shown = controller.check_output(f"scontrol --oneliner show node compute-{RETIRED}")
    assert "NodeAddr=127.0.0.1 " in shown
    assert "DRAIN" not in shown
    assert "Reason=hpcai: no such instance" in shown
    assert f"NodeName=compute-[0,3,{deleted.instance_id}] " in node_lines(controller)


@pytest.mark.thorough
def test_retiring_the_same_node_again_changes_nothing(azure: Cluster, inventory_source: Path, retired: Recap) -> None:
    again = azure.playbook("playbooks/retire.yml", inventory_source, "-e", f"retire=compute-{RETIRED}")
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output
    assert f"Gone already: compute-{RETIRED}" in " ".join(again.output.split())


@pytest.mark.thorough
def test_site_yml_removes_a_node_that_was_deleted_in_azure(controller: Host, site_run: Recap) -> None:
    assert site_run.rc == 0, site_run.output
    assert "NodeName=compute-[0,3] " in node_lines(controller)
    # Spare nodes whose machines test_joining.py has deleted do not answer until slurmctld sets them down.
    shown = controller.check_output("sinfo --Node --noheader --responding --states=idle --format=%%N")
    assert shown.split() == ["compute-0", "compute-3"]
