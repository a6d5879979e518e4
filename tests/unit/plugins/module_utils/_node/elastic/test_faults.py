# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each fault of Slurm, of Azure and of the daemon, over models of both."""

from __future__ import annotations

import pytest

from .world import World


def test_a_job_makes_a_node_appear_and_idleness_makes_it_go() -> None:
    world = World()
    job = world.slurm.submit(1, 60)
    assert world.advance(200, lambda: job.state == "RUNNING")
    assert job.started is not None
    assert len(world.arm.machines) == 1
    assert world.advance(1500, lambda: not world.arm.machines)
    assert job.state == "DONE"
    assert job.requeued == 0
    world.advance(120)
    assert not world.book.leases
    assert all(node.power == "POWERED_DOWN" for node in world.slurm.nodes.values())
    assert not world.differences()
