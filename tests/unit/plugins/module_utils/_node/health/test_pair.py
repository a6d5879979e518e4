# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The search for the bad nodes of a failed run finds each of them, and blames no good one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.pair import (
    Step,
    Trial,
    next_step,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import FAIL, PASS, UNKNOWN

Works = Callable[[frozenset[str]], bool]


def names(count: int) -> tuple[str, ...]:
    """Return the names of nodes of a scale set."""
    return tuple(f"gpu-{number}" for number in range(count))


def run_search(
    nodes: Sequence[str], works: Works, known_good: Sequence[str] = (), first: bool = True
) -> tuple[Step, int]:
    """Try the groups of each step until the search is done; return the last step and the number of rounds."""
    trials = [Trial(tuple(nodes), FAIL)] if first else []
    for rounds in itertools.count():
        step = next_step(nodes, trials, known_good)
        if step.done:
            return step, rounds
        assert rounds < 40, f"the search does not end: {step}"
        members = [node for group in step.groups for node in group]
        assert len(members) == len(set(members)), "a node is in two groups at once"
        assert all(len(set(group)) > 1 for group in step.groups)
        trials += [Trial(group, PASS if works(frozenset(group)) else FAIL) for group in step.groups]
    raise AssertionError


def without(*bad: str) -> Works:
    """Return a function that lets runs without these nodes work."""
    return lambda group: not group & set(bad)


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9, 33])
def test_one_bad_node_is_found_at_each_position(count: int) -> None:
    nodes = names(count)
    for bad in nodes:
        step, rounds = run_search(nodes, without(bad))
        assert step.bad == (bad,)
        assert (step.links, step.groups_failing, step.unclear) == ((), (), ())
        assert set(step.good) == set(nodes) - {bad}
        assert rounds <= 4
        assert step.words == f"{bad} fails with each node tried"


@pytest.mark.parametrize("count", [4, 5, 7, 12])
def test_two_bad_nodes_are_found_in_one_pair_or_in_two(count: int) -> None:
    nodes = names(count)
    for bad in itertools.combinations(nodes, 2):
        step, rounds = run_search(nodes, without(*bad))
        assert step.bad == bad
        assert step.links == ()
        assert rounds <= 6


def test_600_nodes_take_at_most_four_rounds() -> None:
    step, rounds = run_search(names(600), without("gpu-17", "gpu-599", "gpu-300"))
    assert step.bad == ("gpu-17", "gpu-300", "gpu-599")
    assert rounds <= 4


def test_the_first_round_tries_pairs_of_neighbours() -> None:
    assert next_step(names(5)).groups == (("gpu-0", "gpu-1"), ("gpu-2", "gpu-3"))


def test_a_bad_link_between_two_good_nodes_blames_neither() -> None:
    for link in itertools.combinations(names(8), 2):
        step, _rounds = run_search(names(8), lambda group, link=link: not set(link) <= group)  # type: ignore[misc]
        assert step.links == (link,), step.words
        assert (step.bad, step.unclear, step.groups_failing) == ((), (), ())
        assert step.words == f"{link[0]} and {link[1]} work with others, but not with each other"


def test_a_bad_node_and_a_bad_link_are_both_found() -> None:
    step, _rounds = run_search(names(8), lambda group: "gpu-0" not in group and not {"gpu-2", "gpu-3"} <= group)
    assert step.bad == ("gpu-0",)
    assert step.links == (("gpu-2", "gpu-3"),)


def test_a_pair_that_passes_the_second_time_has_no_bad_link() -> None:
    nodes = names(4)
    trials = [
        Trial(("gpu-0", "gpu-1"), FAIL),
        Trial(("gpu-2", "gpu-3"), PASS),
        Trial(("gpu-0", "gpu-2"), PASS),
        Trial(("gpu-1", "gpu-3"), PASS),
    ]
    assert next_step(nodes, trials).groups == (("gpu-0", "gpu-1"),), "it is tried a second time"
    again = next_step(nodes, [*trials, Trial(("gpu-1", "gpu-0"), PASS)])
    assert (again.links, again.done, again.words) == ((), True, "all nodes work with each other")
    assert next_step(nodes, [*trials, Trial(("gpu-1", "gpu-0"), FAIL)]).links == (("gpu-0", "gpu-1"),)


def test_a_failure_at_scale_is_narrowed_to_the_smallest_group() -> None:
    culprits = {"gpu-1", "gpu-6"}
    step, rounds = run_search(names(16), lambda group: len(group) == 2 or not culprits <= group)
    assert (step.bad, step.links) == ((), ())
    assert step.groups_failing == (("gpu-0", "gpu-1", "gpu-6", "gpu-7"),)
    assert step.words == "gpu-0, gpu-1, gpu-6, gpu-7 fail together, but no smaller group of them failed"
    assert rounds <= 8


def test_if_only_the_largest_group_fails_all_its_nodes_are_named() -> None:
    step, _rounds = run_search(names(8), lambda group: len(group) < 8)
    assert step.groups_failing == (names(8),)


def test_if_no_pair_works_no_node_is_blamed() -> None:
    step, rounds = run_search(names(16), lambda group: False)
    assert (step.bad, step.links, step.good) == ((), (), ())
    assert step.unclear == names(16)
    assert step.words == "no two nodes work together: check what all nodes share: settings, program, network"
    assert rounds == 8


def test_of_two_nodes_the_bad_one_is_found_only_with_a_third() -> None:
    step, _rounds = run_search(names(2), without("gpu-1"))
    assert (step.bad, step.unclear) == ((), names(2))
    assert "add a third node that is known to be good" in step.words
    step, _rounds = run_search(names(2), without("gpu-1"), known_good=["gpu-7"])
    assert (step.bad, step.good) == (("gpu-1",), ("gpu-0",))


def test_one_failure_with_one_good_node_is_not_enough_to_blame() -> None:
    step, _rounds = run_search(("gpu-0",), without("gpu-0"), known_good=["gpu-7"], first=False)
    assert (step.bad, step.unclear) == ((), ("gpu-0",))


def test_runs_that_do_not_start_blame_no_node_and_end_the_search() -> None:
    nodes = names(8)
    trials: list[Trial] = []
    for rounds in itertools.count():
        step = next_step(nodes, trials)
        if step.done:
            break
        assert rounds < 20
        trials += [Trial(group, UNKNOWN if "gpu-3" in group else PASS) for group in step.groups]
    assert step.bad == ()
    assert step.unclear == ("gpu-3",)
    assert step.words == "gpu-3 could not be judged: there were too few runs with good nodes"


def test_less_than_two_nodes_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least two nodes"):
        next_step(["gpu-0"])
