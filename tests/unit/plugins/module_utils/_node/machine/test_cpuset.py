# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of CPUs in their four notations."""

from __future__ import annotations

import random

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import EMPTY, CpuSet, CpuSetError


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("\n", []),
        ("0", [0]),
        ("0,4", [0, 4]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("0-3,8-11", [0, 1, 2, 3, 8, 9, 10, 11]),
        (" 3-3 , 1 ", [1, 3]),
        ("0-7:2/4", [0, 1, 4, 5]),
        ("8191", [8191]),
    ],
)
def test_lists_are_parsed(text: str, cpus: list[int]) -> None:
    assert sorted(CpuSet.parse_list(text)) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0-7:0/4", "0-7:5/4", "0-7:1/0", "1 2", "0x3", "0-99999999"])
def test_an_invalid_list_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(CpuSetError, match="list of CPUs") as refused:
        CpuSet.parse_list(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", ""),
        ("ff", "0-7"),
        ("0xFF", "0-7"),
        ("ffffff000000", "24-47"),
        ("0000ffff,ff000000", "24-47"),
        ("ffffff00,00000000,00000000", "72-95"),
        ("1,00000000", "32"),
    ],
)
def test_masks_are_parsed_as_one_number_and_as_the_kernels_words(text: str, cpus: str) -> None:
    assert CpuSet.parse_mask(text).as_list() == cpus


@pytest.mark.parametrize("text", ["", "g", "0x", "ff,", "1,123456789", "123456789,1", "f" * 20000])
def test_an_invalid_mask_is_refused(text: str) -> None:
    with pytest.raises(CpuSetError):
        CpuSet.parse_mask(text)


def test_every_notation_is_read_back_as_the_same_set() -> None:
    chance = random.Random(1)
    for highest in (1, 8, 31, 32, 33, 63, 64, 65, 96, 1023, 1024, 4096):
        cpus = CpuSet(chance.sample(range(highest), chance.randint(1, highest)))
        assert CpuSet.parse_list(cpus.as_list()) == cpus
        assert CpuSet.parse_mask(cpus.as_mask()) == cpus
        assert CpuSet.parse_mask(cpus.as_words()) == cpus


def test_writes_as_many_words_as_asked_for_and_more_if_needed() -> None:
    assert CpuSet({0}).as_words() == "00000001"
    assert CpuSet({0}).as_words(3) == "00000000,00000000,00000001"
    assert CpuSet({64}).as_words(1) == "00000001,00000000,00000000"
    assert EMPTY.as_words() == "00000000"


def test_the_empty_set_is_an_empty_list_and_the_mask_0() -> None:
    assert (EMPTY.as_list(), EMPTY.as_mask()) == ("", "0")


def test_set_operations_return_sets_of_cpus() -> None:
    a, b = CpuSet({1, 2}), CpuSet({2, 3})
    assert ((a & b).as_list(), (a | b).as_list(), (a - b).as_list()) == ("2", "1-3", "1")
    assert a == CpuSet({1, 2})
    assert hash(a) == hash(frozenset(CpuSet({1, 2})))
