# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which node of a rollout is next, which are left alone, and when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm import roll
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.roll import Node, decide, is_over, phase_of

STARTED, RESTARTED = "2026-11-22T16:40:00", "2026-11-26T23:00:00"


def node(number: int, outdated: bool | None = True, scale_set: str = "a", changing: bool = False, **slurm: Any) -> Node:
    """A node that is idle and in service, with these changes."""
    facts = {
        "state": "IDLE",
        "reason": "",
        "out": False,
        "ours": False,
        "answers": True,
        "powered_off": False,
        "mark": "",
        "slurmd_started": STARTED,
        "jobs": None,
        **slurm,
    }
    return Node(f"compute-{number}", scale_set, outdated, changing, facts)


def ours(number: int, outdated: bool = True, **more: Any) -> Node:
    """A node that a rollout has drained."""
    return node(number, outdated, **{"ours": True, "out": True, "state": "IDLE+DRAIN", **more})


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        (node(0), roll.CANDIDATE),
        (node(0, jobs=["1 (alice, running)"]), roll.CANDIDATE),
        (node(0, outdated=False), roll.DONE),
        (node(0, outdated=False, out=True, reason="bad fan"), roll.DONE),
        (ours(0, jobs=[]), roll.WAITING),
        (ours(0), roll.FREE),
        (ours(0, mark=STARTED), roll.FREE),
        (ours(0, changing=True), roll.CHANGING),
        (ours(0, False, mark=STARTED), roll.BOOTING),
        (ours(0, False, mark=STARTED, answers=False, slurmd_started=RESTARTED), roll.BOOTING),
        (ours(0, False, mark=STARTED, slurmd_started=RESTARTED), roll.BACK),
        # It was drained for a version that is no longer wanted, and has the wanted one already.
        (ours(0, False), roll.BACK),
        (ours(0, False, answers=False), roll.BOOTING),
    ],
)
def test_the_phase_of_a_node_follows_from_azure_and_slurm(seen: Node, phase: str) -> None:
    assert phase_of(seen) == (phase, "")


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (node(0, state="IDLE+DRAIN", out=True, reason="bad fan, ticket 4711"), "IDLE+DRAIN: bad fan, ticket 4711"),
        (node(0, state="IDLE+DRAIN", out=True, reason="hpcai: health: gpu_count"), "hpcai: health: gpu_count"),
        (node(0, state="DOWN", out=True), "no reason given"),
        (node(0, answers=False), "its slurmd does not answer"),
        (node(0, state="IDLE+POWERED_DOWN", powered_off=True), "it is IDLE+POWERED_DOWN"),
        (node(0, changing=True), "Azure is changing its instance"),
        (node(0, outdated=None), "its instance no longer exists"),
        (Node("compute-0", "a", True, False, None), "slurmctld does not know it"),
    ],
)
def test_a_node_that_others_took_out_is_left_alone(seen: Node, why: str) -> None:
    step = decide([seen], at_most=1)

    assert why in step.left["compute-0"]
    assert not step.acts
    assert is_over(step, canary=False, stopping=False)


def test_nodes_without_jobs_come_first_and_no_more_than_allowed_are_out() -> None:
    nodes = [node(1, jobs=["7"]), node(2, jobs=["7"]), node(10), node(9), ours(3, changing=True)]

    assert decide(nodes, at_most=4).drain == ("compute-9", "compute-10", "compute-1")
    assert decide(nodes, at_most=1).drain == ()
    assert decide(nodes, at_most=2).drain == ("compute-9",)


def test_a_drained_node_without_jobs_is_reimaged_and_one_that_is_back_resumed() -> None:
    nodes = [ours(0, jobs=["7"]), ours(1), ours(2, False, mark=STARTED, slurmd_started=RESTARTED), node(3)]

    step = decide(nodes, at_most=2)

    assert (step.mark, step.resume, step.drain) == (("compute-1",), ("compute-2",), ())


def test_a_node_that_is_back_no_longer_counts_as_out() -> None:
    nodes = [ours(0, False, mark=STARTED, slurmd_started=RESTARTED), node(1)]

    assert decide(nodes, at_most=1).drain == ("compute-1",)


def test_a_canary_is_one_node_of_each_set_and_stays_drained() -> None:
    nodes = [node(0), node(1), node(2, scale_set="b"), node(3, scale_set="b"), node(4, scale_set="c", outdated=False)]
    back = {"mark": STARTED, "slurmd_started": RESTARTED}

    assert decide(nodes, at_most=4, canary=True).drain == ("compute-0", "compute-2")
    assert decide(nodes, at_most=1, canary=True).drain == ("compute-0",)
    after = decide([ours(0, False, **back), node(1), ours(2, False, scale_set="b", **back)], at_most=4, canary=True)
    assert not after.acts
    assert after.all_in(roll.BACK) == ["compute-0", "compute-2"]
    assert is_over(after, canary=True, stopping=False)


def test_a_node_that_an_earlier_run_drained_is_the_canary() -> None:
    step = decide([node(0), ours(1, jobs=["7"])], at_most=4, canary=True)

    assert not step.acts
    assert not is_over(step, canary=True, stopping=False)


def test_a_stop_releases_nodes_that_are_only_drained_and_waits_for_the_others() -> None:
    nodes = [node(0), ours(1, jobs=["7"]), ours(2), ours(3, changing=True), ours(4, mark=STARTED)]

    step = decide(nodes, at_most=9, stopping=True)

    assert (step.drain, step.mark, step.resume) == ((), (), ("compute-1", "compute-2"))
    rest = decide([node(0), node(1), ours(3, changing=True), ours(4, mark=STARTED)], at_most=9, stopping=True)
    assert not is_over(rest, canary=False, stopping=True)
    over = decide([node(0), ours(3, False, mark=STARTED), ours(4, mark=STARTED)], at_most=9, stopping=True)
    assert not is_over(over, canary=False, stopping=True)
    assert is_over(over, canary=False, stopping=True, lost=["compute-3"])


def test_a_rollout_is_over_when_every_node_has_the_image() -> None:
    assert is_over(decide([node(0, False), node(1, False)], at_most=1), canary=False, stopping=False)
    assert not is_over(decide([node(0, False), node(1)], at_most=1), canary=False, stopping=False)


def test_progress_counts_the_nodes_in_each_phase() -> None:
    nodes = [node(0, False), node(1), ours(2, jobs=["7"]), ours(3, changing=True), node(4, answers=False)]

    assert roll.words_of(decide(nodes, at_most=2)) == (
        "1 of 4 nodes have the image, 1 wait for the end of jobs, 1 are reimaged"
    )
