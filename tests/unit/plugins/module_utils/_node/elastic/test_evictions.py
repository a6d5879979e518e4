# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evictions, over models of Slurm and Azure: jobs are notified, and requeued in time, whatever Azure answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.eviction import evicted_reason
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import ElasticSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.views import SetView

from .slurm_model import Job
from .test_faults import runs
from .test_faults_around import retire
from .world import World

NOTICE_S = 30


def test_an_eviction_leaves_its_job_the_time_for_a_checkpoint() -> None:
    world = World(seconds=2.0)
    job = runs(world)
    name = job.nodes[0]
    gone = world.now + 30
    world.slurm.drain(name, evicted_reason(gone))
    world.advance(20)
    assert job.state == "RUNNING"
    world.advance(8)
    assert job.requeued == 1
    for machine in list(world.arm.machines):
        world.arm.remove(machine)
    assert world.advance(600, lambda: job.state == "RUNNING")
    # The evicted slot is offered again.
    world.advance(300)
    assert not any(node.drained for node in world.slurm.nodes.values())
    assert not world.differences()


def test_the_daemon_wakes_up_in_time_for_an_eviction() -> None:
    world = World()
    job = runs(world)
    world.advance(300)
    world.slurm.drain(job.nodes[0], evicted_reason(world.now + 40))
    world.tick(15)
    result = world.one_pass()
    assert result
    # Five seconds before its time, not at the next of the passes every 15 s.
    assert result.next_s == 20
    world.tick(result.next_s)
    world.one_pass()
    assert job.requeued == 1


def announce(world: World, job: Job, position: int = 0) -> str:
    """Azure announces an eviction, and the node drains itself; return its reason."""
    reason = evicted_reason(world.now + NOTICE_S)
    world.slurm.drain(job.nodes[position], reason)
    return reason


def _pause(world: World) -> None:
    world.book.of("gpu").paused = True


def _throttle(world: World) -> None:
    world.arm.throttled_until = world.now + 900
    world.slurm.submit(1, 60)
    world.advance(60)
    assert world.daemon._readings["gpu"].not_before > world.now + NOTICE_S


def _fail(world: World) -> None:
    world.arm.list_faults = ["failed"] * 100


@pytest.mark.parametrize("trouble", [_pause, _throttle, _fail])
def test_an_eviction_does_not_wait_for_azure(trouble: Callable[[World], None]) -> None:
    world = World(seconds=2.0)
    job = runs(world, 2)
    trouble(world)
    reason = announce(world, job)
    requested = world.arm.changes
    world.advance(4)
    # The job hears of it at once, and goes on.
    assert (job.state, job.words) == ("RUNNING", [f"{reason} (node gpu-0)"])
    world.advance(NOTICE_S - 10)
    assert (job.state, job.requeued) == ("RUNNING", 0)
    world.advance(4)
    assert (job.requeued, len(job.words), world.arm.changes) == (1, 1, requested)


def test_the_jobs_of_an_evicted_node_are_requeued_before_azure_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    job = runs(world)
    world.advance(300)
    announce(world, job)
    world.tick(NOTICE_S - 5)
    requeued: list[int] = []
    read = world.arm.view

    def view(options: ElasticSet, operations: dict[str, str]) -> SetView:
        requeued.append(job.requeued)
        return read(options, operations)

    monkeypatch.setattr(world.arm, "view", view)
    world.arm.person_grows(1)
    world.slurm.submit(1, 60)
    world.tick(0)
    world.one_pass()
    assert requeued == [1]


def test_azure_is_not_asked_before_an_eviction_if_it_did_not_answer() -> None:
    """A request without an answer takes 20 s."""
    world = World(seconds=2.0)
    job = runs(world)
    world.slurm.submit(1, 60)
    _fail(world)
    world.advance(20)
    announce(world, job)
    asked = world.arm.requests
    world.advance(NOTICE_S - 6)
    assert (world.arm.requests, job.requeued) == (asked, 0)
    world.advance(20)
    assert job.requeued == 1
    assert world.arm.requests > asked


def test_a_retired_node_that_is_evicted_is_still_requeued_in_time() -> None:
    world = World(seconds=2.0)
    job = runs(world)
    [lease] = world.book.leases.values()
    reason = announce(world, job)
    retire(world, lease.vm_id)
    world.advance(10)
    assert world.slurm.nodes[lease.slot].reason == reason
    world.advance(16)
    assert job.requeued == 1


def test_an_eviction_of_a_node_without_a_lease_is_requeued_in_time() -> None:
    world = World(seconds=2.0)
    job = runs(world)
    world.lose_book()
    _fail(world)
    announce(world, job)
    world.advance(26)
    assert (job.requeued, world.book.leases) == (1, {})


def test_a_job_that_waits_for_a_machine_that_is_evicted_gets_another_one() -> None:
    world = World(seconds=2.0)
    job = world.slurm.submit(1, 1e9)
    assert world.advance(60, lambda: bool(world.book.leases))
    announce(world, job)
    world.advance(4)
    assert job.requeued == 1
    assert world.advance(900, lambda: job.state == "RUNNING")
    assert [one.vm_id for one in world.arm.deleted] == ["vm-1"]
    assert not world.violations


def test_evictions_right_after_the_boot_do_not_stop_the_set() -> None:
    world = World()
    for _number in range(6):
        job = world.slurm.submit(1, 1e9)
        assert world.advance(200, lambda: bool(world.book.leases))
        while job.state != "RUNNING":
            # Between two passes, the node joins and learns that it is evicted.
            world.tick(5)
        announce(world, job)
        world.advance(60)
        world.slurm.cancel(job)
        assert world.advance(600, lambda: not world.book.leases)
    assert not world.book.of("gpu").closed


def test_a_reason_that_looks_like_an_eviction_does_not_end_the_daemon() -> None:
    world = World()
    job = runs(world)
    world.slurm.drain(job.nodes[0], "hpcai: elastic: evicted at 2026-99-99T99:99:99Z")
    assert world.advance(60, lambda: job.requeued == 1)
