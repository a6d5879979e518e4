# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slow nodes and slow storage, although all ranks have the same step time."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.train.slow import DATA, OWN, STORAGE, Sample, find_slow

STEP = 1.0


def samples(own: dict[str, float], data: dict[str, float] | None = None) -> list[Sample]:
    """Return three samples of two ranks of each node, with small differences."""
    return [
        Sample(node, STEP, (data or {}).get(node, 0.01) * (1 + part / 50), value * (1 + part / 50))
        for node, value in own.items()
        for part in range(6)
    ]


def even(count: int, **changed: float) -> dict[str, float]:
    """Return times of many nodes, some of them changed."""
    times = {f"c-{number}": 0.10 + 0.001 * (number % 3) for number in range(count)}
    return {**times, **{name.replace("_", "-"): value for name, value in changed.items()}}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 16])
def test_equal_nodes_are_not_slow(count: int) -> None:
    assert find_slow(samples(even(count))) == []


@pytest.mark.parametrize("count", [2, 3, 4, 16, 100])
def test_a_node_that_works_longer_is_named_although_all_steps_are_equal(count: int) -> None:
    (found,) = find_slow(samples(even(count, c_1=0.40)))
    assert (found.subject, found.section) == ("c-1", OWN)
    assert found.why.startswith("c-1 is slow: it works for 0.4")
    assert "hpcnode health run deep" in found.why


def test_one_slow_gpu_of_eight_makes_its_node_slow() -> None:
    ranks = [
        Sample(f"c-{node}", STEP, 0.01, 0.40 if (node, gpu) == (1, 5) else 0.10 + 0.001 * gpu, 8 * node + gpu)
        for node in range(8)
        for gpu in range(8)
        for _line in range(4)
    ]
    (found,) = find_slow(ranks)
    assert (found.subject, found.section, found.seconds) == ("c-1", OWN, 0.40)
    # Two lines of a rank may both have the warm-up in them.
    assert find_slow(ranks[::2]) == []


def test_a_single_hiccup_is_not_a_slow_node() -> None:
    one = samples(even(4))
    one[0] = Sample("c-0", STEP, 0.01, 5.0)
    assert find_slow(one) == []


def test_a_loss_below_a_twentieth_of_the_step_is_not_worth_a_check() -> None:
    assert find_slow(samples(even(16, c_1=0.14))) == []
    assert find_slow(samples(even(16, c_1=0.17))) != []


def test_a_faster_node_is_not_slow() -> None:
    assert find_slow(samples(even(8, c_1=0.001))) == []


def test_storage_is_named_when_all_nodes_wait_for_data() -> None:
    own = even(8)
    (found,) = find_slow(samples(own, dict.fromkeys(own, 0.5)))
    assert (found.subject, found.section) == (STORAGE, DATA)
    assert "The storage is slow" in found.why


def test_one_node_that_waits_for_data_is_a_slow_node_and_not_the_storage() -> None:
    own = even(8)
    (found,) = find_slow(samples(own, {"c-3": 0.5}))
    assert (found.subject, found.section) == ("c-3", DATA)


def test_the_largest_loss_comes_first() -> None:
    found = find_slow(samples(even(16, c_1=0.40, c_2=0.80)))
    assert [one.subject for one in found] == ["c-2", "c-1"]


def test_nothing_is_said_without_samples() -> None:
    assert find_slow([]) == []
