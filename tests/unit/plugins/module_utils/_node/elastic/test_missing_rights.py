# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Orders that Azure refuses because a right is missing: it may be so new that not all of Azure's servers know it."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.spool import Request

from .world import World


@pytest.mark.parametrize("how", ["rights", "linked rights"])
def test_a_right_that_stays_missing_stops_the_set_after_half_an_hour(how: str) -> None:
    world = World()
    world.arm.next_order = [how] * 50
    job = world.slurm.submit(1, 60)
    began = world.now
    assert world.advance(120, lambda: bool(job.words))
    assert "AuthorizationFailed" in job.words[0]
    assert world.advance(3600, lambda: any("stopped" in line for line in world.lines))
    assert 1800 <= world.now - began <= 2400
    # One order in six minutes: the set is closed for five, and Slurm needs one.
    assert world.arm.changes == 6
    [line] = [line for line in world.lines if "stopped" in line]
    assert "roles of guide_elastic" in line
    world.advance(8 * 3600)
    assert world.arm.changes == 6


@pytest.mark.parametrize("refusals", [1, 5])
def test_a_right_that_acts_late_does_not_stop_the_set(refusals: int) -> None:
    world = World()
    world.arm.next_order = ["rights"] * refusals
    job = world.slurm.submit(1, 1e6)
    assert world.advance(2000, lambda: job.state == "RUNNING"), world.lines
    assert world.arm.changes == refusals + 1
    assert not any("stopped" in line for line in world.lines)
    assert any("closed for 300 s: AuthorizationFailed" in line for line in world.lines)


def test_a_right_that_azures_servers_learn_one_after_the_other_does_not_stop_the_set() -> None:
    """Each order that Azure fulfils is a success, after which a refusal is new."""
    world = World()
    world.arm.next_order = ["rights", "good"] * 6
    jobs = []
    for _number in range(6):
        jobs.append(world.slurm.submit(1, 1e6))
        assert world.advance(1500, lambda: jobs[-1].state == "RUNNING"), world.lines
    assert not any("stopped" in line for line in world.lines)
    assert world.arm.changes == 12


def test_the_half_hour_of_a_missing_right_survives_a_restart_and_ends_with_a_resume() -> None:
    world = World()
    world.arm.next_order = ["rights"] * 50
    world.slurm.submit(1, 60)
    world.advance(900)
    world.restart()
    assert world.advance(1500, lambda: any("stopped" in line for line in world.lines))
    world.lines.clear()
    daemon.apply_request(world.book, Request(daemon.RESUME, (), world.now), world.settings)
    world.advance(900)
    assert not any("stopped" in line for line in world.lines)
    assert any("closed for 300 s: AuthorizationFailed" in line for line in world.lines)


def test_a_clock_that_is_set_does_not_end_the_half_hour_of_a_missing_right() -> None:
    world = World()
    world.arm.next_order = ["rights"] * 3
    job = world.slurm.submit(1, 1e6)
    world.advance(60)
    world.wall += 86400
    assert world.advance(1800, lambda: job.state == "RUNNING"), world.lines
    assert not any("stopped" in line for line in world.lines)
