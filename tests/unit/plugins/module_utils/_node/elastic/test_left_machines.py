# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines that the daemon must neither lose nor delete: drained ones, and those of nodes that it no longer has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import status
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.views import SetView

from .test_faults import runs
from .test_faults_around import retire
from .world import World


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


def shrink(world: World, most: int) -> None:
    """An administrator lowers the maximum, and the daemon starts again."""
    sets = {name: replace(one, max=most) for name, one in world.settings.sets.items()}
    world.settings = replace(world.settings, sets=sets)
    world.restart()


def test_machines_beyond_a_lower_maximum_go_when_their_jobs_have_ended() -> None:
    world = World()
    jobs = [runs(world, 1, seconds) for seconds in (900, 1e9, 1200, 1e9)]
    kept = jobs[3].nodes[0]
    world.slurm.drain(kept, "bad GPU, do not touch")
    assert [job.nodes for job in jobs[1:]] == [["gpu-1"], ["gpu-2"], ["gpu-3"]]
    shrink(world, 2)
    world.advance(300)
    assert world.slurm.nodes["gpu-2"].reason == "hpcai: elastic: retire: max of gpu is 2 now"
    assert (world.slurm.nodes[kept].reason, world.book.leases[kept].retire) == ("bad GPU, do not touch", "")
    shown = status.document(world.book, None, world.settings, [], "", world.now)
    assert "max of gpu is 2" in {one["slot"]: one["note"] for one in shown["sets"]["gpu"]["slots"]}["gpu-2"]
    assert world.advance(3000, lambda: "gpu-2" not in world.book.leases)
    assert [job.requeued for job in jobs] == [0, 0, 0, 0]
    assert world.advance(1500, lambda: set(world.book.leases) == {"gpu-1", "gpu-3"})
    # Without its node in slurm.conf, nobody uses the machine.
    world.slurm.cancel(jobs[3])
    del world.slurm.nodes[kept]
    assert world.advance(600, lambda: len(world.arm.machines) == 1)
    again = world.slurm.submit(1, 1e9)
    assert world.advance(900, lambda: again.state == "RUNNING")
    assert not world.violations


def test_machines_of_a_removed_set_are_named_as_a_problem() -> None:
    world = World(sizes={"a": 2, "b": 2})
    runs(world, 1)
    assert list(world.book.leases) == ["a-0"]
    world.settings = replace(world.settings, sets={"b": world.settings.sets["b"]})
    world.restart()
    result = world.one_pass()
    assert result
    assert "a-0 have machines, but are in no elastic set" in result.problems[0]


def test_a_node_that_is_drained_while_it_boots_does_not_make_the_daemon_ask_azure_all_the_time() -> None:
    world = World(boot_s=300.0)
    world.arm.next_boot = ["never"]
    job = world.slurm.submit(1, 1e9)
    assert world.advance(60, lambda: bool(world.book.leases))
    world.slurm.drain(job.nodes[0], "bad GPU, do not touch")
    world.slurm.cancel(job)
    world.advance(1200)
    before = world.arm.requests
    world.advance(1200)
    # Each view is two requests.
    assert (world.arm.requests - before) * 2 <= 20


@pytest.mark.parametrize("deletes", [False, True])
def test_a_node_that_is_drained_during_the_pass_that_gives_it_up_stays(
    deletes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(idle_s=300.0)
    job = runs(world, 1, 60)
    [name], seen = job.nodes, world.arm.view

    def viewed(*given: Any) -> SetView:
        found = seen(*given)
        node = world.slurm.nodes[name]
        is_over = job.is_done() and not node.power and world.now - node.last_busy > 300
        if (node.power == "POWERING_DOWN") if deletes else is_over:
            world.slurm.drain(name, "bad GPU, do not touch")
        return found

    monkeypatch.setattr(world.arm, "view", viewed)
    world.advance(3600)
    assert not world.arm.deleted
    assert world.slurm.nodes[name].drained


def test_a_book_that_is_lost_while_a_node_retires_does_not_keep_its_machine() -> None:
    world = World()
    job = runs(world, 1, 600)
    retire(world, *[lease.vm_id for lease in world.book.leases.values()])
    world.advance(60)
    assert world.slurm.nodes[job.nodes[0]].drained
    world.lose_book()
    assert world.advance(1500, lambda: not world.arm.machines)
    assert (job.state, job.requeued) == ("DONE", 0)
