# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of orders, machines and lists, over models of Slurm and Azure."""

from __future__ import annotations

import math

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import status
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.codes import (
    CAPACITY,
    OTHER,
    POLICY,
    QUOTA,
    RIGHTS,
    closed_s,
    meaning_of,
)

from .slurm_model import Job
from .world import World


def runs(world: World, nodes: int = 1, seconds: float = 1e9) -> Job:
    """A job that has started."""
    job = world.slurm.submit(nodes, seconds)
    assert world.advance(400, lambda: job.state == "RUNNING"), world.lines
    return job


def reasons(world: World) -> set[str]:
    """The reasons of nodes that are down."""
    return {node.reason for node in world.slurm.nodes.values() if node.down}


def test_a_job_makes_a_node_appear_and_idleness_makes_it_go() -> None:
    world = World()
    job = world.slurm.submit(1, 60)
    assert world.advance(200, lambda: job.state == "RUNNING")
    assert len(world.arm.machines) == 1
    assert world.advance(1500, lambda: not world.arm.machines)
    assert (job.state, job.requeued) == ("DONE", 0)
    world.advance(120)
    assert not world.book.leases
    assert all(node.power == "POWERED_DOWN" for node in world.slurm.nodes.values())
    assert not world.differences()


def test_an_expected_instance_is_looked_for_after_5_s_and_then_less_often() -> None:
    world = World()
    world.arm.lag_s = 600.0
    assert world.daemon.run(world.now, world.monotonic).next_s == math.inf
    world.slurm.submit(1, 60)
    world.tick(15)
    rests = []
    for _number in range(5):
        result = world.daemon.run(world.now, world.monotonic)
        rests.append(result.next_s)
        world.tick(result.next_s)
    assert rests == [5.0, 10.0, 20.0, 40.0, 60.0]


def test_a_node_counts_as_joined_as_soon_as_slurm_shows_it() -> None:
    world = World()
    job = world.slurm.submit(1, 1e9)
    assert world.advance(200, lambda: job.state == "RUNNING")
    asked = world.arm.requests
    world.one_pass()
    assert [lease.state for lease in world.book.leases.values()] == ["joined"]
    assert world.arm.requests == asked


def test_growth_by_600_nodes_is_one_change() -> None:
    world = World(sizes={"gpu": 600})
    job = world.slurm.submit(600, 1e9)
    assert world.advance(600, lambda: job.state == "RUNNING")
    assert world.arm.changes == 1
    # 600 instances are 5 pages, their interfaces 6, and each view also reads the set and an order: see polling.py.
    views = world.arm.requests - world.arm.changes
    assert 2 + (views - 1) * 7 + 6 <= 40


def test_a_set_is_changed_at_most_four_times_a_minute() -> None:
    world = World(seconds=5.0, sizes={"gpu": 12})
    jobs = []
    for _number in range(12):
        jobs.append(world.slurm.submit(1, 1e9))
        world.advance(5)
    # What comes while Azure's bucket is empty is ordered together.
    assert world.advance(300, lambda: all(job.state == "RUNNING" for job in jobs))
    assert 4 < world.arm.changes < 12
    assert not world.violations


def test_an_empty_cluster_asks_azure_at_most_once_a_minute() -> None:
    world = World()
    world.advance(600)
    before = world.arm.requests
    world.advance(3600)
    # Each view of an empty set is two requests.
    assert (world.arm.requests - before) * 2 <= 60


def test_a_set_with_a_job_is_read_every_two_minutes_however_many_sets_there_are() -> None:
    world = World(sizes=dict.fromkeys("abcde", 2))
    job = world.slurm.submit(1, 1e9)
    assert world.advance(600, lambda: job.state == "RUNNING")
    world.advance(600)
    before = {name: arm.requests for name, arm in world.arms.items()}
    world.advance(3600)
    read = {name: arm.requests - before[name] for name, arm in world.arms.items()}
    assert read["a"] >= 25
    # Five sets send ten requests for one reading of all, so the others are read every ten minutes.
    assert max(read[name] for name in "bcde") <= 8


def test_no_capacity_at_once_starts_the_job_in_the_other_set() -> None:
    world = World(sizes={"a": 4, "b": 4})
    world.arms["a"].next_order = ["refused"]
    job = world.slurm.submit(2, 1e9)
    assert world.advance(15 * 3, lambda: job.nodes[:1] == ["b-0"])
    assert any("AllocationFailed" in words for words in job.words)
    assert world.advance(400, lambda: job.state == "RUNNING")
    assert {name[0] for name in job.nodes} == {"b"}
    assert not world.arms["a"].machines
    assert {reason.split(":")[2].strip() for reason in reasons(world)} == {"AllocationFailed"}


def test_no_capacity_after_minutes_fails_only_the_slots_that_have_no_machine() -> None:
    world = World()
    first = runs(world, 2)
    world.arm.next_order = ["late"]
    world.slurm.submit(2, 60)
    assert world.advance(400, lambda: bool(world.book.failures))
    assert first.state == "RUNNING"
    assert not set(first.nodes) & set(world.book.failures)


def test_a_set_without_capacity_opens_again_and_closes_for_longer_each_time() -> None:
    world = World()
    world.arm.next_order = ["refused", "refused"]
    job = world.slurm.submit(1, 1e9)
    assert world.advance(60, lambda: world.book.of("gpu").closed is not None)
    first = world.book.of("gpu").closed
    assert first
    assert first.until - first.since == 600
    assert world.advance(1500, lambda: world.book.of("gpu").level == 2)
    second = world.book.of("gpu").closed
    assert second
    assert second.until - second.since == 1200
    assert [closed_s(level) for level in (3, 4, 30)] == [2400, 3600, 3600]
    assert world.advance(3000, lambda: job.state == "RUNNING")
    assert world.book.of("gpu").level == 0


@pytest.mark.parametrize("how", ["partial", "partial, drops"])
def test_a_partial_order_gives_its_nodes_to_other_jobs(how: str) -> None:
    world = World()
    world.arm.next_order = [how]
    big = world.slurm.submit(4, 1e9)
    assert world.advance(120, lambda: big.requeued == 1)
    assert "ZonalAllocationFailed" in big.words[0]
    small = world.slurm.submit(2, 60)
    assert world.advance(100, lambda: small.state == "RUNNING"), world.lines
    assert world.arm.changes == 1


def test_a_slot_that_failed_before_its_machine_came_is_offered_and_not_ordered() -> None:
    world = World()
    world.arm.next_order = ["refused"]
    job = world.slurm.submit(1, 60)
    assert world.advance(60, lambda: world.slurm.nodes["gpu-0"].down)
    world.slurm.cancel(job)
    changes = world.arm.changes
    # slurmctld leaves POWERING_UP on a node that was set down while it powered up.
    assert world.slurm.nodes["gpu-0"].power == "POWERING_UP"
    world.advance(1500)
    assert world.arm.changes == changes
    assert {node.power for node in world.slurm.nodes.values()} == {"POWERED_DOWN"}
    assert not any(node.down for node in world.slurm.nodes.values())


def test_a_quota_is_not_tried_again_before_an_administrator_opens_the_set() -> None:
    world = World()
    world.arm.next_order = ["quota"] * 5
    world.slurm.submit(1, 60)
    world.advance(8 * 3600)
    assert world.arm.changes == 1
    closed = world.book.of("gpu").closed
    assert closed
    assert not closed.until
    assert "hpcnode elastic resume gpu" in closed.words


@pytest.mark.parametrize(
    ("code", "kind", "action"),
    [
        *[(code, CAPACITY, "") for code in ("AllocationFailed", "ZonalAllocationFailed", "SkuNotAvailable")],
        *[(f"Overconstrained{zone}AllocationRequest", CAPACITY, "") for zone in ("", "Zonal")],
        *[(code, QUOTA, "raise the quota or") for code in ("QuotaExceeded", "SubnetIsFull")],
        *[(code, RIGHTS, "roles of guide_elastic") for code in ("AuthorizationFailed", "LinkedAuthorizationFailed")],
        *[(code, POLICY, "owner of the Azure policy") for code in ("RequestDisallowedByPolicy", "ScopeLocked")],
        *[(code, OTHER, "") for code in ("InternalServerError", "OSProvisioningTimedOut", "")],
    ],
)
def test_the_advice_for_a_code_is_what_helps_against_it(code: str, kind: str, action: str) -> None:
    meaning = meaning_of(code)
    assert (meaning.kind, meaning.waits) == (kind, not action)
    assert action in meaning.action


def test_an_operation_that_is_not_allowed_is_a_quota_only_if_azure_says_so() -> None:
    words = "Operation could not be completed as it results in exceeding approved Total Regional Cores quota."
    assert meaning_of("OperationNotAllowed", words).kind == QUOTA
    assert meaning_of("OperationNotAllowed", "The operation is not allowed while another one is in progress.").waits


def test_a_policy_stops_the_set_with_the_advice_to_ask_its_owner() -> None:
    world = World()
    world.arm.next_order = ["policy"] * 5
    job = world.slurm.submit(1, 60)
    world.advance(8 * 3600)
    assert (world.arm.changes, world.arm.created) == (1, 0)
    assert "hpcai: elastic: RequestDisallowedByPolicy" in job.words[0]
    assert len([line for line in world.lines if "stopped" in line and "owner of the Azure policy" in line]) == 1


def test_a_set_that_opens_offers_its_nodes_at_once() -> None:
    world = World()
    world.arm.next_order = ["refused"]
    world.slurm.submit(1, 60)
    assert world.advance(660, lambda: any("open again" in line for line in world.lines))
    assert any(line.startswith("gpu: offers gpu-[0-5]") for line in world.lines)
    assert not any(node.down for node in world.slurm.nodes.values())


def test_a_machine_that_never_joins_is_deleted_and_its_job_gets_another() -> None:
    world = World(boot_s=300.0)
    world.arm.next_boot = ["never"]
    job = world.slurm.submit(1, 1e9)
    began = world.now
    assert world.advance(3000, lambda: job.state == "RUNNING")
    world.advance(3000)
    assert len(world.arm.machines) == 1
    assert any("did not join" in words for words in job.words)
    # A rollout still sees it when the node is in use again.
    failed = status.document(world.book, None, world.settings, [], "", world.now)["sets"]["gpu"]["boot_failed"]
    assert began + 300 < failed["time"] < began + 3000
    assert "it did not join within" in failed["words"]


def test_five_machines_that_never_join_stop_the_set_with_one_line() -> None:
    world = World(boot_s=120.0)
    world.arm.next_boot = ["never"] * 50
    world.slurm.submit(1, 1e9)
    world.advance(6 * 3600)
    closed = world.book.of("gpu").closed
    assert closed
    assert closed.code == "NeverJoined"
    assert len([line for line in world.lines if line.startswith("gpu: stopped")]) == 1
    assert world.arm.created <= 6
    assert not world.arm.machines


def test_five_machines_that_are_drained_when_they_join_stop_the_set_and_stay() -> None:
    world = World(sizes={"gpu": 12})
    register = world.slurm.register

    def refused(name: str) -> None:
        register(name)
        # slurmctld drains a node with less memory or fewer GPUs than slurm.conf says, and requeues its job.
        if not world.slurm.nodes[name].drained:
            world.slurm.drain(name, "Low RealMemory (reported:1 < 100.00% of configured:2)")
            world.slurm._requeue(name)

    world.slurm.register = refused  # type: ignore[method-assign]
    world.slurm.submit(1, 1e9)
    world.advance(6 * 3600)
    closed = world.book.of("gpu").closed
    assert closed
    assert closed.code == "NeverJoined"
    assert "Low RealMemory" in closed.words
    assert (world.arm.created, len(world.arm.machines)) == (5, 5)


def test_a_machine_that_joins_after_its_deadline_is_deleted_without_a_job() -> None:
    world = World(boot_s=300.0)
    world.arm.boot_s = 360
    world.arm.delete_faults = ["refused"] * 4
    job = world.slurm.submit(1, 60)
    assert world.advance(60, lambda: bool(world.book.leases))
    [(slot, lease)] = world.book.leases.items()
    late = lease.vm_id
    ran_on: set[str] = set()

    def is_gone() -> bool:
        ran_on.update(job.nodes if job.state == "RUNNING" else [])
        return late not in {one.vm_id for one in world.arm.machines.values()}

    assert world.advance(1200, is_gone)
    # It registered while Azure refused its deletion.
    assert late in [one.vm_id for one in world.arm.deleted if one.started_for == slot]
    assert slot not in ran_on
    assert slot not in world.book.leases
    assert not world.violations


def test_an_id_that_azure_gives_again_is_another_machine() -> None:
    world = World(idle_s=60.0)
    world.arm.reuses_ids = True
    for _number in range(3):
        job = world.slurm.submit(1, 30)
        assert world.advance(600, job.is_done)
        assert world.advance(900, lambda: not world.arm.machines and not world.book.leases)
    assert [one.id for one in world.arm.deleted] == ["0", "0", "0"]
    assert len({one.vm_id for one in world.arm.deleted}) == 3


def test_an_id_that_changed_hands_before_the_deletion_is_not_deleted() -> None:
    world = World(idle_s=60.0)
    job = world.slurm.submit(1, 30)
    assert world.advance(600, lambda: job.state == "DONE")
    world.arm.reuses_ids = True
    seen = world.arm.instances

    def changed(options: object) -> object:
        # Between the pass's list and its deletion, Azure replaces the machine.
        if "0" in world.arm.machines and world.arm.machines["0"].vm_id == "vm-1":
            del world.arm.machines["0"]
            world.arm.add()
        return seen(options)  # type: ignore[arg-type]

    world.arm.instances = changed  # type: ignore[method-assign,assignment]
    world.advance(200)
    assert not [one for one in world.arm.deleted if one.vm_id == "vm-1"]
    assert not world.violations


def test_a_set_that_somebody_else_changes_is_planned_again() -> None:
    world = World()
    grow, calls = world.arm.grow, []

    def raced(options: object, capacity: int, etag: str) -> str:
        calls.append(capacity)
        if len(calls) == 1:
            world.arm.person_grows(1)
        return grow(options, capacity, etag)  # type: ignore[arg-type]

    world.arm.grow = raced  # type: ignore[method-assign,assignment]
    job = world.slurm.submit(3, 1e9)
    assert world.advance(200, lambda: job.state == "RUNNING")
    # The person's instance is used: three in all, not four.
    assert calls == [3, 3]
    assert len(world.arm.machines) == 3


def test_a_preempted_deletion_is_asked_for_again() -> None:
    world = World(idle_s=60.0)
    runs(world, 1, 30)
    world.arm.delete_faults = ["refused", "without effect"]
    assert world.advance(1200, lambda: not world.arm.machines)


def test_throttling_for_minutes_delays_and_changes_nothing() -> None:
    world = World()
    runs(world)
    world.arm.throttled_until = world.now + 600
    before = world.arm.requests
    waiting = world.slurm.submit(1, 1e9)
    world.advance(560)
    assert world.arm.requests - before <= 3
    assert len(world.arm.machines) == 1
    assert world.advance(300, lambda: waiting.state == "RUNNING")


@pytest.mark.parametrize("fault", ["failed", "half"])
def test_a_failed_or_partial_list_deletes_nothing(fault: str) -> None:
    world = World()
    job = runs(world, 4)
    world.arm.list_faults = [fault] * 3
    world.slurm.submit(1, 30)
    world.advance(300)
    assert job.state == "RUNNING"
    assert job.requeued == 0
    assert not world.arm.deleted or {one.started_for for one in world.arm.deleted}.isdisjoint(job.nodes)


def test_without_slurms_answer_nothing_is_done() -> None:
    world = World(idle_s=30.0)
    runs(world, 1, 30)
    changes = world.arm.changes
    world.slurm.faults = ["failed"] * 40
    world.advance(600)
    assert world.arm.changes == changes
    assert len(world.arm.machines) == 1
