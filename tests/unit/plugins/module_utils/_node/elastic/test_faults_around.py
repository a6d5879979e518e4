# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of machines, people, clocks and the daemon itself, over models of Slurm and Azure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import Budget
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.spool import Request

from . import slurm_model
from .test_faults import runs
from .world import DUPLICATE, World


def retire(world: World, *vm_ids: str) -> None:
    """An administrator wants machines to go."""
    request = Request(daemon.RETIRE, vm_ids, world.now, words="faulty")
    daemon.apply_request(world.book, request, world.settings)


@pytest.mark.parametrize(("silent_at_once", "seconds"), [(True, 30), (False, 140)])
def test_the_job_of_a_machine_that_somebody_deleted_is_requeued_soon(
    monkeypatch: pytest.MonkeyPatch, silent_at_once: bool, seconds: float
) -> None:
    # slurmctld sets a silent node down only after SlurmdTimeout, and may not have asked it for a while.
    monkeypatch.setattr(slurm_model, "SILENT_S", 3600.0)
    world = World()
    job = runs(world, 1, 3000)
    world.advance(600)
    if not silent_at_once:
        monkeypatch.setattr(slurm_model.Slurm, "is_alive", lambda *_arguments: None)
    for machine in list(world.arm.machines):
        world.arm.remove(machine)
    # The set is read every two minutes. One list without the machine is not enough, so the next one follows soon.
    assert world.advance(seconds, lambda: job.requeued == 1)


@pytest.mark.parametrize("drained", ["", "hpcai: health: gpu_memory: 3 rows"])
def test_a_machine_that_an_administrator_retires_goes_when_its_job_has_ended(drained: str) -> None:
    world = World()
    job = runs(world, 1, 300)
    [name], [lease] = job.nodes, world.book.leases.values()
    if drained:
        world.slurm.drain(name, drained)
    retire(world, lease.vm_id)
    world.advance(120)
    assert (job.state, world.slurm.nodes[name].drained) == ("RUNNING", True)
    assert world.slurm.nodes[name].reason == "hpcai: elastic: retire: faulty"
    assert world.advance(400, lambda: not world.arm.machines)
    assert (job.state, job.requeued, world.violations) == ("DONE", 0, [])
    # The node can be used again, with another machine.
    world.advance(120)
    assert not world.slurm.nodes[name].drained
    again = runs(world, 6, 60)
    assert name in again.nodes
    assert world.arm.running(lease.vm_id) is None


def test_a_machine_that_is_retired_before_it_joins_goes_after_the_job_that_waits_for_it() -> None:
    world = World()
    job = world.slurm.submit(1, 60)
    assert world.advance(60, lambda: bool(world.book.leases))
    [first] = [lease.vm_id for lease in world.book.leases.values()]
    retire(world, first)
    # It is drained as soon as it has joined, so that it gets no other job.
    assert world.advance(120, lambda: job.state == "RUNNING")
    world.advance(30)
    assert world.slurm.nodes[job.nodes[0]].drained
    assert world.advance(900, lambda: not world.arm.machines)
    assert (job.state, job.requeued) == ("DONE", 0)


def test_a_retired_node_that_is_resumed_keeps_its_machine() -> None:
    world = World()
    job = runs(world)
    [lease] = world.book.leases.values()
    retire(world, lease.vm_id)
    world.advance(60)
    world.slurm.undrain(job.nodes[0])
    world.advance(120)
    assert not world.slurm.nodes[job.nodes[0]].drained
    assert not world.book.leases[lease.slot].retire


def test_a_slot_that_a_restarted_slurmctld_would_not_use_is_reset() -> None:
    world = World()
    world.slurm.nodes["gpu-3"].stuck = True
    world.advance(300)
    node = world.slurm.nodes["gpu-3"]
    assert (node.stuck, node.down, node.power) == (False, False, "POWERED_DOWN")
    assert not world.violations


def test_a_node_that_slurmctld_drained_after_its_restart_goes_when_its_job_has_ended() -> None:
    world = World()
    job = runs(world, 1, 300)
    name = job.nodes[0]
    world.slurm.drain(name, DUPLICATE)
    world.advance(200)
    assert (job.state, len(world.arm.machines)) == ("RUNNING", 1)
    assert world.advance(600, lambda: not world.arm.machines)
    assert (job.state, job.requeued) == ("DONE", 0)
    world.advance(120)
    assert not world.slurm.nodes[name].drained
    assert not world.violations


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


def test_a_kept_node_stays_although_the_clock_jumps() -> None:
    world = World(idle_s=60.0)
    job = runs(world, 1, 30)
    world.book.keep[job.nodes[0]] = world.now + 3600
    world.advance(60)
    world.wall = 7 * 3600.0
    world.advance(3000)
    assert len(world.arm.machines) == 1
    assert world.advance(1500, lambda: not world.arm.machines)


def test_a_kept_node_goes_in_time_although_the_clock_was_behind_when_the_daemon_started() -> None:
    world = World(idle_s=60.0)
    job = runs(world, 1, 30)
    world.book.keep[job.nodes[0]] = world.now + 3600
    world.advance(60)
    world.wall = -86400.0
    world.restart()
    world.advance(60)
    world.wall = 0.0
    world.advance(3000)
    assert len(world.arm.machines) == 1
    assert world.advance(1500, lambda: not world.arm.machines)


def test_a_clock_that_is_set_back_while_no_daemon_runs_delays_nothing() -> None:
    world = World()
    world.arm.next_order = ["refused"]
    job = world.slurm.submit(1, 1e9)
    assert world.advance(60, lambda: bool(world.book.failures))
    world.wall = -7 * 3600.0
    world.restart()
    # The set is closed for ten minutes. The longest time that a set is closed is one hour.
    assert world.advance(4200, lambda: job.state == "RUNNING"), world.book.of("gpu").closed
    world.book.leases[job.nodes[0]].granted += 7 * 3600.0
    world.restart()
    world.one_pass()
    assert world.book.leases[job.nodes[0]].granted <= world.now + world.wall


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


def test_a_used_budget_ends_jobs_if_an_administrator_asks_for_it() -> None:
    world = World()
    world.settings = replace(world.settings, budget=Budget(end_jobs=True))
    world.restart()
    job, drained, kept = runs(world), runs(world), runs(world)
    world.slurm.drain(drained.nodes[0], "bad GPU, do not touch")
    world.book.keep[kept.nodes[0]] = world.now + 4 * 3600
    world.arm.next_boot = ["late"]
    booting = world.slurm.submit(1, 60)
    assert world.advance(60, lambda: len(world.book.leases) == 4)
    world.stopped = "the daily budget of 100 is used up"
    assert world.advance(30, lambda: job.requeued == 1 == booting.requeued)
    world.advance(900)
    assert (job.state, booting.state) == ("PENDING", "PENDING")
    for one in (job, booting):
        assert "hpcai: elastic: Budget: " in one.words[0]
        assert "the daily budget of 100 is used up" in one.words[0]
    # What a person drained or keeps stays, with its job.
    assert (drained.requeued, kept.requeued) == (0, 0)
    assert len(world.arm.machines) == 2
    assert not world.violations
    world.stopped = ""
    assert world.advance(1500, lambda: job.state == "RUNNING")


def test_a_paused_set_is_only_watched() -> None:
    world = World(idle_s=30.0)
    runs(world, 1, 30)
    world.book.of("gpu").paused = True
    changes = world.arm.changes
    world.slurm.submit(1, 30)
    world.advance(900)
    assert world.arm.changes == changes
    assert len(world.arm.machines) == 1


def kill_and_loop_twice(world: World, call: int) -> None:
    """Let passes follow until the daemon is killed at this call, and then two undisturbed ones."""
    world.kill_in = call
    killed = False
    while not killed:
        world.tick(15)
        killed = world.one_pass() is None
    for _loop in range(2):
        world.tick(15)
        world.one_pass()


@pytest.mark.parametrize("call", range(30))
def test_a_daemon_that_is_killed_at_any_step_converges_in_two_loops(call: int) -> None:
    """Killed before or after each call, while it orders and while it deletes; nothing is ordered twice."""
    world = World(idle_s=60.0)
    job = world.slurm.submit(2, 600)
    kill_and_loop_twice(world, call)
    # What Slurm waits for is ordered, and each machine has a lease that Slurm shows.
    assert (world.arm.capacity, world.arm.created, len(world.arm.growths)) == (2, 2, 1)
    shown = {node.lease for node in world.slurm.nodes.values()} - {""}
    assert shown == {lease.vm_id for lease in world.book.leases.values()} == {"vm-1", "vm-2"}
    assert world.advance(700, job.is_done)
    # Both nodes have been idle for long enough.
    world.tick(75)
    kill_and_loop_twice(world, call)
    assert {one.state for one in world.arm.machines.values()} <= {"Deleting"}
    world.advance(300)
    assert not world.arm.machines
    assert not world.differences()
    assert not world.violations


@pytest.mark.parametrize("retired", ["", "faulty"])
def test_a_slot_that_slurm_powers_down_and_up_between_two_passes_gets_a_new_machine(retired: str) -> None:
    world = World()
    job = runs(world, 1, 60)
    world.advance(200)
    name = next(iter(world.book.leases))
    node = world.slurm.nodes[name]
    world.book.leases[name].retire = retired
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
