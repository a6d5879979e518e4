# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of an elastic set with a real slurmctld, one at a time: orders, machines, lists and people.

Instances and requests are counted at the simulated Resource Manager. test_elastic_crashes.py has killed programs, lost
records and clocks that jump, and test_elastic_seeds.py several faults at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.mgmt.compute.models import Sku, VirtualMachineScaleSetUpdate

from simulated import training
from simulated.cluster import RESOURCE_GROUP
from simulated.node import Node, admin
from simulated.storage_account import BIN, TOOLS, StorageAccount, storage_account

from .elastic_cluster import (
    JOIN_S,
    SUSPEND_S,
    ElasticCluster,
    elastic_cluster,
    elastic_machines,
    is_empty,
    members,
    runs,
    settle,
    state_of,
    submit,
    wait_for,
    write_source,
)

NAME, PORT, NETWORK, CONTROLLER = "faults", 8512, "10.61.0.0/24", "10.61.0.4"
IDLE_S, BOOT_S, ORDER_S = 30, 120, 180
SET = "virtualmachinescalesets/gpu"
AGAIN_S = 130
"""slurmctld puts the start of a requeued job off by 121 s."""
PROGRAM, READY = f"{TOOLS}/training.py", f"{TOOLS}/ready"
RUN, LOG = "/var/tmp/run", "/var/tmp/training.log"
TRAINING = f"""#!/bin/bash
#SBATCH --partition=gpu --output={LOG} --requeue
until [ -e {READY} ]; do sleep 1; done
export PATH={BIN}:$PATH HPCAI_CHECKPOINT_STORE=URL/evicted
mkdir -p {RUN}
hpcnode checkpoint restore --to {RUN} || exit 1
hpcnode checkpoint watch {RUN} --every 1 &
srun --mpi=none --overlap python3 {PROGRAM} {TOOLS}/bin {RUN} 100000
"""
"""It waits until the test has made the storage account known to its machine, which may be a new one."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ElasticCluster]:
    """A controller, a static node, and an elastic set without instances."""
    with elastic_cluster(NAME, PORT, NETWORK, CONTROLLER) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def converged(cluster: ElasticCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first run of site.yml. The set has no fallback, so its jobs run on its own nodes only."""
    times: dict[str, Any] = {"idle_s": IDLE_S, "boot_s": BOOT_S, "order_s": ORDER_S}
    source = write_source(cluster, tmp_path_factory.mktemp("faults"), **times)
    run = cluster.site(source, "-e", f"@{source.parent / 'elastic.json'}")
    assert run.rc == 0, run.output


@pytest.fixture(autouse=True)
def settled(cluster: ElasticCluster, converged: None) -> Iterator[None]:
    """After each test, nothing fails any more, and nothing is left: no job, no instance, no lease, no failed node."""
    admin(cluster, "delete", "requests")
    yield
    settle(cluster)
    wait_for(lambda: is_empty(cluster) and not leases(cluster), JOIN_S + IDLE_S + 2 * SUSPEND_S, cluster)


def add_fault(cluster: ElasticCluster, match: str, action: str, **more: Any) -> None:
    """Let requests of the daemon, or what Azure does with the set's instances, fail."""
    admin(cluster, "post", "faults", {"match": match, "action": action, **more})


def asked(cluster: ElasticCluster, method: str) -> list[int]:
    """The statuses of the requests of this method for the set: PATCH is a growth, POST a deletion."""
    found = admin(cluster, "get", "requests")["requests"]
    return [one["status"] for one in found if one["method"] == method and SET in one["path"].lower()]


def status(cluster: ElasticCluster) -> dict[str, Any]:
    """What the daemon shows of the set."""
    shown: dict[str, Any] = json.loads(cluster.run("sudo hpcnode elastic status --json", check=False))
    return shown


def leases(cluster: ElasticCluster) -> dict[str, str]:
    """The vmIds of the leases, by node."""
    return {one["slot"]: one["vm_id"] for one in status(cluster)["sets"]["gpu"]["slots"] if one.get("vm_id")}


def comment_of(cluster: ElasticCluster, job: str) -> str:
    """What the daemon has told a job."""
    return cluster.run(f"scontrol --oneliner show job {job}").partition("AdminComment=")[2]


def hears(cluster: ElasticCluster, job: str, code: str, seconds: float) -> None:
    """Wait until a job knows why it gets no node."""
    wait_for(lambda: f"hpcai: elastic: {code}" in comment_of(cluster, job), seconds, cluster)


def starts(cluster: ElasticCluster, job: str, seconds: float = JOIN_S) -> None:
    """Wait until a job runs."""
    wait_for(partial(runs, cluster, job), seconds, cluster)


def node_of(cluster: ElasticCluster, job: str) -> str:
    """The node on which a job runs."""
    return cluster.run(f"squeue --noheader --jobs={job} --format=%N").strip()


# Orders


def test_capacity_that_is_missing_only_after_minutes(cluster: ElasticCluster) -> None:
    add_fault(cluster, "^GROW ", "revert", service="scale", delay_s=90, times=1, code="AllocationFailed")
    job = submit(cluster, 10)
    wait_for(lambda: asked(cluster, "PATCH") == [200], 60, cluster)
    time.sleep(45)
    assert state_of(cluster, job) == "CONFIGURING"
    hears(cluster, job, "AllocationFailed", 120)
    assert (members(cluster), asked(cluster, "PATCH")) == ([], [200])
    assert "AllocationFailed" in cluster.run("sinfo --noheader --list-reasons --format=%E")
    assert status(cluster)["sets"]["gpu"]["closed"]["until"]
    cluster.run("sudo hpcnode elastic resume gpu")
    starts(cluster, job, AGAIN_S + SUSPEND_S + JOIN_S)


def test_a_partial_order_gives_its_node_to_another_job(cluster: ElasticCluster) -> None:
    add_fault(cluster, "^CREATE ", "omit", service="scale", after=1, times=1, code="ZonalAllocationFailed")
    large = submit(cluster, 10, "--nodes=2")
    # Azure's operation ends when the other machine has booted.
    hears(cluster, large, "ZonalAllocationFailed", JOIN_S)
    assert len(members(cluster)) == 1
    small = submit(cluster, 10, "--nodes=1")
    starts(cluster, small)
    assert (len(members(cluster)), asked(cluster, "PATCH")) == (1, [200])


def test_a_quota_stops_the_set_until_an_administrator_opens_it(cluster: ElasticCluster) -> None:
    # The static node uses all that is left.
    admin(cluster, "patch", "limits", {"quotas": {"standardNDASv4_A100Family": 96}})
    try:
        job = submit(cluster, 10)
        hears(cluster, job, "OperationNotAllowed", 60)
        is_stopped(cluster, "OperationNotAllowed", "raise the quota")
        second = submit(cluster, 10)
        time.sleep(60)
        assert (state_of(cluster, second), asked(cluster, "PATCH")) == ("PENDING", [409])
    finally:
        admin(cluster, "patch", "limits", {"quotas": {}})
    cluster.run("sudo hpcnode elastic resume gpu")
    starts(cluster, second, SUSPEND_S + JOIN_S)


def test_a_policy_stops_the_set_until_an_administrator_opens_it(cluster: ElasticCluster) -> None:
    words = {"code": "RequestDisallowedByPolicy", "message": "Resource 'gpu' was disallowed by policy 'no-gpus'."}
    add_fault(cluster, f"PATCH .*{SET}", "status", status=403, **words)
    job = submit(cluster, 10)
    hears(cluster, job, "RequestDisallowedByPolicy", 60)
    is_stopped(cluster, "RequestDisallowedByPolicy", "ask the owner of the Azure policy")
    assert "no-gpus" in comment_of(cluster, job)
    admin(cluster, "delete", "faults")
    cluster.run("sudo hpcnode elastic resume gpu")
    starts(cluster, job, AGAIN_S + SUSPEND_S + JOIN_S)


def is_stopped(cluster: ElasticCluster, code: str, action: str) -> None:
    """Fail unless the set is closed without an end, and says what a person has to do."""
    closed = status(cluster)["sets"]["gpu"]["closed"]
    assert (closed["code"], closed["until"]) == (code, 0)
    assert action in closed["words"]


def test_an_order_that_never_ends_is_given_up(cluster: ElasticCluster) -> None:
    add_fault(cluster, "^GROW ", "hang", service="scale", times=1)
    job = submit(cluster, 10)
    hears(cluster, job, "OrderTimeout", ORDER_S + 60)
    assert (members(cluster), asked(cluster, "PATCH")) == ([], [200])
    # Azure's operation ends without an instance.
    admin(cluster, "delete", "faults")
    cluster.run("sudo hpcnode elastic resume gpu")
    starts(cluster, job, AGAIN_S + SUSPEND_S + JOIN_S)
    assert len(members(cluster)) == 1


def test_a_set_that_somebody_else_changes_and_a_preempted_deletion(cluster: ElasticCluster) -> None:
    add_fault(cluster, f"PATCH .*{SET}", "status", status=412, times=1, code="PreconditionFailed")
    add_fault(cluster, "^DELETE ", "status", service="scale", times=1, code="OperationPreempted")
    job = submit(cluster, 5)
    starts(cluster, job)
    assert (asked(cluster, "PATCH"), len(members(cluster))) == ([412, 200], 1)
    wait_for(lambda: not members(cluster), IDLE_S + 2 * JOIN_S, cluster)
    assert len(asked(cluster, "POST")) == 2


def test_throttling_for_minutes(cluster: ElasticCluster) -> None:
    add_fault(cluster, SET, "bucket", tokens=4, refill_s=15)
    job = submit(cluster, 5)
    # A reading needs up to four requests, and the daemon waits longer with each refusal.
    starts(cluster, job, 5 * JOIN_S)
    assert 429 in [*asked(cluster, "GET"), *asked(cluster, "PATCH")]
    assert (asked(cluster, "PATCH").count(200), len(members(cluster))) == (1, 1)
    wait_for(lambda: not members(cluster), 3 * JOIN_S, cluster)


# Machines


def test_a_machine_that_never_joins_is_replaced(cluster: ElasticCluster) -> None:
    add_fault(cluster, "^CREATE ", "dead", service="scale", times=1)
    job = submit(cluster, 10, "--requeue")
    wait_for(lambda: len(members(cluster)) == 1, 60, cluster)
    [dead] = members(cluster)
    hears(cluster, job, "NeverJoined", BOOT_S + 60)
    wait_for(lambda: not members(cluster), 90, cluster)
    starts(cluster, job, AGAIN_S + JOIN_S)
    assert dead not in members(cluster)
    assert len(members(cluster)) == 1


def test_a_machine_that_joins_after_its_deadline_gets_no_job(cluster: ElasticCluster) -> None:
    # Azure needs a while for its deletion, in which it would join.
    add_fault(cluster, "^DELETE ", "hang", service="scale", times=1, delay_s=60)
    job = submit(cluster, 10, "--nodelist=gpu-0")
    wait_for(lambda: bool(elastic_machines(cluster)), 60, cluster)
    [late] = elastic_machines(cluster)
    # Without its munge key, the machine does not join.
    wait_for(lambda: reach(cluster, late["id"], "refused"), 20, cluster)
    hears(cluster, job, "NeverJoined", BOOT_S + 60)
    assert reach(cluster, late["id"], "normal")
    cluster.ssh(late["private_ipv4"], "sudo systemctl start --no-block slurmd", check=False)

    def is_gone() -> bool:
        shown = cluster.run("squeue --noheader --states=RUNNING --nodelist=gpu-0 --format=%i")
        assert not shown.strip(), "a job runs on a machine that is about to be deleted"
        return not members(cluster)

    wait_for(is_gone, JOIN_S, cluster)
    cluster.run("sudo hpcnode elastic resume gpu")
    starts(cluster, job, AGAIN_S + SUSPEND_S + JOIN_S)
    assert late["vm_id"] not in members(cluster)


def reach(cluster: ElasticCluster, azure_id: str, how: str) -> bool:
    """Block or allow a machine's access to the key vault; return whether the machine exists already."""
    url = f"{cluster.endpoint}/_simulator/reach{azure_id}"
    return requests.post(url, json={"vault": how}, timeout=30).ok


def test_an_instance_id_that_azure_gives_again_is_another_machine(cluster: ElasticCluster) -> None:
    # Each gets the lowest id of a deleted instance.
    add_fault(cluster, "^CREATE ", "reuse", service="scale", times=2)
    first = submit(cluster, 5)
    starts(cluster, first)
    [former] = elastic_machines(cluster)
    wait_for(lambda: is_empty(cluster), JOIN_S + IDLE_S + SUSPEND_S, cluster)
    second = submit(cluster, 10)
    starts(cluster, second)
    [one] = elastic_machines(cluster)
    assert one["id"] == former["id"]
    assert one["vm_id"] != former["vm_id"]
    assert leases(cluster) == {node_of(cluster, second): one["vm_id"]}


def test_an_evicted_training_resumes_on_another_machine_from_its_last_whole_checkpoint(
    cluster: ElasticCluster, tmp_path: Path
) -> None:
    static = Node(cluster, CONTROLLER, "", CONTROLLER)
    with storage_account(static, tmp_path) as account:

        def saved() -> int:
            return max(account.complete_steps("evicted"), default=0)

        job = cluster.run(f"sbatch --parsable <<'END'\n{TRAINING.replace('URL', account.url)}END\n").strip()
        wait_for(lambda: len(leases(cluster)) == 1, JOIN_S, cluster)
        first = let_train(cluster, account)
        wait_for(lambda: saved() > 0, JOIN_S, cluster)
        node, [machine] = node_of(cluster, job), elastic_machines(cluster)
        admin(cluster, "post", f"evict{machine['id']}", {"seconds": 40})
        reason = f"sinfo --noheader --nodes={node} --format=%E"
        wait_for(lambda: "hpcai: elastic: evicted at" in cluster.run(reason), 20, cluster)
        # Until shortly before the eviction, it can save. hpcnode tells it so, and uploads what it has saved.
        assert state_of(cluster, job) == "RUNNING"
        assert first.sh(f"ls {RUN}/.hpcai-checkpoint", check=False).count("notice-") == 1
        wait_for(lambda: machine["vm_id"] not in members(cluster), 60, cluster)
        kept = saved()
        assert kept > 0
        wait_for(
            lambda: [*leases(cluster).values()] not in ([], [machine["vm_id"]]), AGAIN_S + SUSPEND_S + JOIN_S, cluster
        )
        second = let_train(cluster, account)
        wait_for(lambda: f"goes on from step {kept}\n" in second.sh(f"cat {LOG}", check=False), JOIN_S, cluster)
        assert "Restarts=1" in cluster.run(f"scontrol --oneliner show job {job}")
        wait_for(lambda: saved() > kept, JOIN_S, cluster)
        cluster.run(f"scancel {job}")


def let_train(cluster: ElasticCluster, account: StorageAccount) -> Node:
    """Give the only machine of the set what the training needs, and return this machine."""
    [machine] = elastic_machines(cluster)
    made = Node(cluster, CONTROLLER, "", machine["private_ipv4"])
    # A new machine still boots when it gets its lease.
    wait_for(lambda: "up" in made.sh("echo up", check=False), JOIN_S, cluster)
    account.give(made, "azureuser")
    made.write(PROGRAM, Path(training.__file__).read_bytes(), "0644")
    made.sh(f"touch {READY}")
    return made


# Lists and people


def test_a_list_that_fails_deletes_nothing(cluster: ElasticCluster) -> None:
    job = submit(cluster, 5)
    starts(cluster, job)
    add_fault(cluster, f"GET .*{SET}", "status", status=503)
    machine = members(cluster)
    time.sleep(2 * IDLE_S + 30)
    assert members(cluster) == machine
    assert not asked(cluster, "POST")
    wait_for(lambda: any("503" in problem for problem in status(cluster)["problems"]), 60, cluster)


def test_a_list_that_lacks_a_machine_ends_no_job_and_deletes_nothing(cluster: ElasticCluster) -> None:
    job = submit(cluster, 600)
    starts(cluster, job)
    wait_for(lambda: len(leases(cluster)) == 1, 30, cluster)
    [machine], before = elastic_machines(cluster), leases(cluster)
    admin(cluster, "patch", f"instances{machine['id']}", {"hidden": True})
    admin(cluster, "delete", "requests")
    # Each makes the daemon read the set. A reading needs two requests.
    cluster.run("sudo hpcnode elastic pause gpu")
    wait_for(lambda: status(cluster)["sets"]["gpu"]["paused"], 30, cluster)
    cluster.run("sudo hpcnode elastic resume gpu")
    wait_for(lambda: len(asked(cluster, "GET")) >= 6, 120, cluster)
    assert (state_of(cluster, job), leases(cluster)) == ("RUNNING", before)
    admin(cluster, "patch", f"instances{machine['id']}", {"hidden": False})
    time.sleep(2 * IDLE_S)
    assert (state_of(cluster, job), leases(cluster)) == ("RUNNING", before)
    assert not asked(cluster, "POST")
    assert not asked(cluster, "PATCH")


def test_an_instance_that_a_person_adds_is_used_before_another_is_ordered(cluster: ElasticCluster) -> None:
    machine = add_by_hand(cluster)
    job = submit(cluster, 10)
    starts(cluster, job)
    assert (members(cluster), asked(cluster, "PATCH")) == ([machine], [])
    assert list(leases(cluster).values()) == [machine]


def test_an_instance_that_a_person_adds_becomes_a_node_if_an_administrator_asks(cluster: ElasticCluster) -> None:
    machine = add_by_hand(cluster)
    assert "get the instances without a lease" in cluster.run("sudo hpcnode elastic adopt gpu")
    wait_for(lambda: list(leases(cluster).values()) == [machine], JOIN_S, cluster)
    [node] = leases(cluster)
    wait_for(lambda: cluster.run(f"sinfo --noheader --nodes={node} --format=%T").strip() == "idle", JOIN_S, cluster)
    assert (members(cluster), asked(cluster, "PATCH")) == ([machine], [])


def add_by_hand(cluster: ElasticCluster) -> str:
    """Let a person add an instance in the portal, and return its vmId."""
    update = VirtualMachineScaleSetUpdate(sku=Sku(capacity=1))
    cluster.sdk().virtual_machine_scale_sets.begin_update(RESOURCE_GROUP, "gpu", update).result()
    admin(cluster, "delete", "requests")
    [machine] = members(cluster)
    return machine
