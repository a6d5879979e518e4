# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that come and go while the cluster works.

Two instances are added. While there are four, a job wants a BeeGFS across all and one of them is dead. Then one is
retired while it has a job, the other is deleted behind the cluster's back.
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
PUT_BACK_S, DOWN_S = 270, 120
"""Seconds until a job whose nodes are not all there is put back, and until a silent node is down or back."""
RETIRED = "17"
"""The first id that the simulator gives to a new instance; test_joining.py leaves it behind."""


@pytest.fixture(scope="module")
def added(azure: Cluster, node: Callable[[str], Node], eventually: Callable[..., float]) -> dict[str, Node]:
    """Two new instances, by their ids, as soon as a job has run on each."""
    azure.set_capacity(4)
    members = {number: node(number) for number in azure.instance_ids() if number not in ("0", "3")}
    for each in members.values():
        eventually(each.runs_a_job, JOIN_S, lambda each=each: (each.state(), each.boot()))
    return members


@pytest.fixture(scope="module")
def vanished(added: dict[str, Node]) -> Node:
    """The one that Azure loses."""
    (other,) = [each for number, each in added.items() if number != RETIRED]
    return other


@pytest.fixture(scope="module")
def job(alice: Any, added: dict[str, Node], eventually: Callable[..., float]) -> str:
    """A job that is in the way: the number of one that runs on the node to be retired."""
    number = str(alice.sbatch(f"--nodelist={added[RETIRED].name} --time=5", "sleep 30"))
    eventually(lambda: alice.job(number)["JobState"] == "RUNNING", 30, lambda: alice.job(number))
    return number


@pytest.fixture(scope="module")
def in_vain(azure: Cluster, inventory_source: Path, job: str) -> Recap:
    """A run that has no time to wait for that job."""
    return azure.playbook("playbooks/retire.yml", inventory_source, "-e", f"retire=compute-{RETIRED} retire_timeout=0")


@pytest.fixture(scope="module")
def retired(azure: Cluster, inventory_source: Path, in_vain: Recap) -> Recap:
    """A run that waits."""
    return azure.playbook("playbooks/retire.yml", inventory_source, "-e", f"retire=compute-{RETIRED}")


@pytest.fixture(scope="module")
def forgotten(azure: Cluster, inventory_source: Path, retired: Recap, vanished: Node) -> Recap:
    """A run of site.yml after the other instance has gone without a word."""
    azure.delete_instances(vanished.instance_id)
    return azure.site(inventory_source)


def conf(controller: Host) -> str:
    """slurm.conf's node lines."""
    return str(controller.check_output("grep ^NodeName= /etc/slurm/slurm.conf"))


def test_new_nodes_join_and_run_jobs(added: dict[str, Node], vanished: Node) -> None:
    assert sorted(added) == [RETIRED, vanished.instance_id]


@pytest.fixture
def impatient(controller: Host) -> Iterator[None]:
    """A slurmctld that takes a silent node for down after 45 s; 300 s are for production."""
    controller.check_output("cp /etc/slurm/slurm.conf /root/slurm.conf.patient")
    controller.check_output("sed -i -e '/^SlurmdTimeout=/d' -e '$aSlurmdTimeout=45' /etc/slurm/slurm.conf")
    controller.check_output("scontrol reconfigure")
    yield
    controller.check_output("cp /root/slurm.conf.patient /etc/slurm/slurm.conf")
    controller.check_output("scontrol reconfigure")


@pytest.mark.thorough
def test_of_four_nodes_with_a_beegfs_a_dead_one_harms_only_itself(
    alice: Any,
    node: Callable[[str], Node],
    added: dict[str, Node],
    vanished: Node,
    impatient: None,
    eventually: Callable[..., float],
) -> None:
    """Its slurmd does not answer, so that its prolog never begins, and slurmctld does not know it yet."""
    dead, good = added[RETIRED], [node("0"), node("3"), vanished]
    dead.sh("systemctl kill --kill-who=main --signal=SIGSTOP slurmd")
    try:
        number = alice.sbatch("--constraint=beeond --time=5 --nodes=4", "touch /tmp/never-without-it")
        eventually(lambda: alice.is_put_back(number), PUT_BACK_S, lambda: alice.job(number))
        eventually(lambda: "down" in dead.state(), DOWN_S, dead.state)
        said = []
        for one in good:
            eventually(lambda one=one: one.state() == "idle", DOWN_S, one.state)
            assert left(one) == []
            assert one.sh("ls /tmp/never-without-it", check=False) == ""
            said.append(one.sh(f"cat /var/log/hpcai/jobs/{number}.prolog.log"))
        assert all("20-beeond: done" in words for words in said), said
        # Whose time is over first tells what is missing. Others may meet a job that is in the queue already, or the
        # first node's management gone.
        assert any("3 of 4 storage" in words for words in said), said
        assert alice.is_put_back(number)
    finally:
        alice.run("scancel --user=alice")
        # It would tell of itself when slurmctld asks, which is not often for a node that is down.
        dead.sh("systemctl kill --kill-who=main --signal=SIGCONT slurmd; systemctl restart slurmd")
    eventually(lambda: dead.state() == "idle", DOWN_S, dead.state)


def test_node_with_a_job_stays_drained_when_time_is_over_and_the_job_is_named(
    azure: Cluster, alice: Any, added: dict[str, Node], job: str, in_vain: Recap
) -> None:
    said = " ".join(in_vain.output.split())
    assert in_vain.rc != 0
    assert f"Jobs still run on compute-{RETIRED} after 0 s: {job} (alice, running)" in said
    assert added[RETIRED].state() == "draining"
    assert alice.job(job)["JobState"] == "RUNNING"
    assert RETIRED in azure.instance_ids()


def test_retired_node_leaves_when_its_job_has_ended_by_itself(
    azure: Cluster, controller: Host, alice: Any, job: str, retired: Recap, vanished: Node
) -> None:
    assert retired.rc == 0, retired.output
    assert alice.job(job)["JobState"] == "COMPLETED"
    assert azure.instance_ids() == ["0", "3", vanished.instance_id]
    assert controller.run(f"scontrol show node compute-{RETIRED}").rc != 0
    assert f"NodeName=compute-[0,3,{vanished.instance_id}] " in conf(controller)


@pytest.mark.thorough
def test_second_run_changes_nothing(azure: Cluster, inventory_source: Path, retired: Recap) -> None:
    again = azure.playbook("playbooks/retire.yml", inventory_source, "-e", f"retire=compute-{RETIRED}")
    assert again.rc == 0, again.output
    assert again.changed == 0, again.output
    assert f"Gone already: compute-{RETIRED}" in " ".join(again.output.split())


@pytest.mark.thorough
def test_instance_that_is_gone_from_azure_leaves_by_the_next_run_of_site_yml(
    controller: Host, forgotten: Recap
) -> None:
    assert forgotten.rc == 0, forgotten.output
    assert "NodeName=compute-[0,3] " in conf(controller)
    shown = controller.check_output("sinfo --Node --noheader --states=idle --format=%%N")
    assert shown.split() == ["compute-0", "compute-3"]
