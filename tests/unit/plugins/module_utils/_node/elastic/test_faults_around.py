# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of machines, people, clocks and the daemon itself, over models of Slurm and Azure."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.eviction import evicted_reason

from .test_faults import runs
from .world import World


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


@pytest.mark.parametrize("reason", ["bad GPU, do not touch", "hpcai: health: gpu_memory: 3 rows", "hpcai: retire: x"])
def test_a_drained_node_is_never_deleted(reason: str) -> None:
    world = World(idle_s=60.0)
    job = runs(world, 1, 120)
    world.slurm.drain(job.nodes[0], reason)
    world.advance(4 * 3600)
    assert len(world.arm.machines) == 1
    assert not world.arm.deleted
    # Even if somebody powers it down in Slurm.
    for node in world.slurm.nodes.values():
        if node.drained:
            node.power = "POWERED_DOWN"
    world.advance(3600)
    assert not world.arm.deleted


def test_a_kept_node_stays_idle_until_its_time_is_over() -> None:
    world = World(idle_s=60.0)
    job = runs(world, 1, 30)
    world.book.keep[job.nodes[0]] = world.now + 3600
    world.advance(3000)
    assert len(world.arm.machines) == 1
    assert world.advance(1500, lambda: not world.arm.machines)


def test_the_minimum_of_nodes_stays() -> None:
    world = World(min=2, idle_s=60.0)
    world.advance(3600)
    assert len(world.arm.machines) == 2
    assert world.arm.created == 2


def test_a_lost_book_is_restored_from_slurm() -> None:
    world = World()
    job = runs(world, 3)
    world.lose_book()
    world.advance(900)
    assert (job.state, job.requeued) == ("RUNNING", 0)
    assert len(world.book.leases) == 3
    assert not world.arm.deleted


def test_an_older_state_of_slurmctld_converges() -> None:
    world = World(idle_s=60.0)
    older = world.slurm.dump()
    runs(world, 2)
    world.slurm.restore(older)
    world.advance(1200)
    assert not world.differences()


@pytest.mark.parametrize("jump", [7 * 3600.0, -7 * 3600.0])
def test_a_clock_that_jumps_deletes_nothing_and_fails_nothing(jump: float) -> None:
    world = World()
    job = runs(world, 2)
    waiting = world.slurm.submit(1, 1e9)
    world.advance(15)
    world.wall = jump
    assert world.advance(300, lambda: waiting.state == "RUNNING")
    assert (job.requeued, waiting.requeued) == (0, 0)
    assert not world.arm.deleted


def test_a_machine_that_azure_deletes_requeues_its_job_at_once() -> None:
    world = World()
    job = runs(world, 2)
    world.arm.remove("0")
    assert world.advance(300, lambda: job.requeued == 1)
    assert world.advance(900, lambda: job.state == "RUNNING")
    assert not world.differences()


def test_instances_that_a_person_grows_are_used_before_others_are_ordered() -> None:
    world = World()
    world.advance(60)
    world.arm.person_grows(2)
    job = world.slurm.submit(2, 1e9)
    assert world.advance(400, lambda: job.state == "RUNNING")
    assert world.arm.created == 2
    assert world.arm.changes == 0


def test_instances_that_nobody_needs_are_deleted_after_their_deadline() -> None:
    world = World()
    world.arm.person_grows(2)
    world.advance(240)
    assert len(world.arm.machines) == 2
    assert world.advance(900, lambda: not world.arm.machines)


def test_an_order_that_never_ends_fails_at_its_deadline() -> None:
    world = World(order_s=300.0)
    world.arm.next_order = ["never ends"]
    job = world.slurm.submit(1, 1e9)
    assert world.advance(400, lambda: bool(job.words))
    assert "OrderTimeout" in job.words[0]
    assert world.advance(2000, lambda: job.state == "RUNNING")


def test_failed_members_are_deleted_and_do_not_count() -> None:
    world = World()
    world.arm.next_order = ["wrecks"]
    job = world.slurm.submit(2, 1e9)
    assert world.advance(2000, lambda: job.state == "RUNNING")
    assert len(world.arm.machines) == 2


def test_the_budget_stops_growth_and_says_so_but_kills_nothing() -> None:
    world = World()
    job = runs(world)
    world.stopped = "the daily budget of 100 is used up"
    waiting = world.slurm.submit(1, 60)
    assert world.advance(60, lambda: bool(waiting.words))
    assert "the daily budget of 100 is used up" in waiting.words[0]
    assert job.state == "RUNNING"
    assert len(world.arm.machines) == 1


def test_a_paused_set_is_only_watched() -> None:
    world = World(idle_s=30.0)
    runs(world, 1, 30)
    world.book.of("gpu").paused = True
    changes = world.arm.changes
    world.slurm.submit(1, 30)
    world.advance(900)
    assert world.arm.changes == changes
    assert len(world.arm.machines) == 1


@pytest.mark.parametrize("call", range(30))
def test_a_daemon_that_is_killed_at_any_step_converges(call: int) -> None:
    """Killed before or after each call, while it orders and while it deletes; nothing is ordered twice."""
    world = World(idle_s=60.0)
    world.kill_in = call
    job = world.slurm.submit(2, 60)
    assert world.advance(400, lambda: job.state == "RUNNING")
    assert world.arm.created == 2
    world.kill_in = call
    assert world.advance(1500, lambda: not world.arm.machines)
    world.advance(120)
    assert not world.differences()
    assert not world.violations


def test_a_slot_that_slurm_powers_down_and_up_between_two_passes_gets_a_new_machine() -> None:
    world = World()
    job = runs(world, 1, 60)
    world.advance(200)
    name = next(iter(world.book.leases))
    node = world.slurm.nodes[name]
    # slurmctld accepts only a machine that boots after this request.
    node.power, node.since = "POWERING_UP", world.now
    again = world.slurm.submit(1, 1e9)
    again.state, again.nodes = "CONFIGURING", [name]
    for machine in world.arm.machines.values():
        machine.boots = None
    assert world.advance(900, lambda: again.state == "RUNNING")
    assert [one.vm_id for one in world.arm.deleted] == ["vm-1"]
    assert job.state == "DONE"


def test_a_lost_book_does_not_shrink_a_set_that_azure_still_fills() -> None:
    world = World()
    world.arm.next_order = ["slow"]
    job = world.slurm.submit(2, 1e9)
    world.advance(30)
    world.lose_book()
    world.advance(200)
    # The model refuses a capacity below the number of instances, also of those that no list shows yet.
    second = world.slurm.submit(1, 1e9)
    assert world.advance(900, lambda: job.state == second.state == "RUNNING")


def test_a_node_that_is_drained_while_a_deletion_has_no_effect_stays() -> None:
    world = World(idle_s=60.0)
    job = runs(world, 1, 30)
    name = job.nodes[0]
    world.arm.delete_faults = ["without effect"]
    assert world.advance(900, lambda: world.book.leases[name].state == "deleting")
    world.slurm.drain(name, "bad GPU, do not touch")
    world.advance(1800)
    assert not world.arm.deleted
