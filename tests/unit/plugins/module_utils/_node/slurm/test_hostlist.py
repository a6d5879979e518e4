# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host lists, compared with the output of scontrol 22.05.8: `show hostlist` and `show hostnames`."""

from __future__ import annotations

import itertools
import random

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import HostlistError, compress, expand

# names, the host list that `scontrol show hostlist` made of them
FOLDED_BY_SLURM = [
    (["n1", "n2", "n10", "n9"], "n[1-2,10,9]"),
    (["n3", "n2", "n1"], "n[3,2,1]"),
    (["n1", "n1"], "n[1,1]"),
    (["n99", "n100"], "n[99-100]"),
    (["abc", "abc0", "abc1"], "abc,abc[0-1]"),
    (["n1a", "n2a"], "n1a,n2a"),
    (["10.77.0.4", "10.77.0.5"], "10.77.0.[4-5]"),
    (["compute00000A", "compute00000H"], "compute00000A,compute00000H"),
    (["compute000000", "compute000003"], "compute[000000,000003]"),
]

# host list, the names that `scontrol show hostnames` made of it
UNFOLDED_BY_SLURM = [
    ("compute-[0-3,7,017]", ["compute-0", "compute-1", "compute-2", "compute-3", "compute-7", "compute-017"]),
    ("a[01-3]", ["a01", "a02", "a03"]),
    ("a[9-11]", ["a9", "a10", "a11"]),
    ("a[09-11]", ["a09", "a10", "a11"]),
    ("a[1,1]", ["a1", "a1"]),
    ("a[3-3]", ["a3"]),
    (",a,", ["a"]),
    ("n[09-11]", ["n09", "n10", "n11"]),
    ("n[0,00,000]", ["n0", "n00", "n000"]),
]

PIECES = [
    [f"compute-{number}" for number in (0, 3, 4, 5, 17)],
    [f"node{number:03}" for number in range(97, 103)],
    ["login", "login0", "login1", "login01"],
    ["compute00000A", "compute00000B", "compute000010", "compute000011"],
    ["web_1f3a9c02", "web_1f3a9c03"],
    ["10.0.0.9", "10.0.0.10", "10.0.1.1"],
    ["n999999999999999999", "n1000000000000000000", "n12345678901234567890", "n12345678901234567891"],
]


@pytest.mark.parametrize(("names", "hostlist"), FOLDED_BY_SLURM)
def test_names_are_folded_as_slurm_folds_them(names: list[str], hostlist: str) -> None:
    assert compress(names) == hostlist


@pytest.mark.parametrize(("hostlist", "names"), UNFOLDED_BY_SLURM)
def test_host_lists_are_unfolded_as_slurm_unfolds_them(hostlist: str, names: list[str]) -> None:
    assert expand(hostlist) == names


@pytest.mark.parametrize("hostlist", ["a[3-1]", "a[]", "a[1,]", "a[0A-0C]", "a[-1]", "a[1-2-3]"])
def test_ranges_that_slurm_refuses_are_refused(hostlist: str) -> None:
    with pytest.raises(HostlistError, match=r"malformed|only one bracket") as caught:
        expand(hostlist)
    assert repr(hostlist) in str(caught.value)


@pytest.mark.parametrize("hostlist", ["a[", "a[1", "a]", "a,,b", "a[1-2]b[1-2]", "a[1,[2]]"])
def test_ambiguous_or_incomplete_lists_are_refused(hostlist: str) -> None:
    with pytest.raises(HostlistError):
        expand(hostlist)


def test_an_empty_list_is_folded_and_unfolded() -> None:
    assert compress([]) == ""
    assert expand("") == []


def test_600_nodes_of_one_scale_set_are_one_short_word() -> None:
    assert compress(f"compute-{number}" for number in range(600)) == "compute-[0-599]"


def test_leading_zeros_are_kept_if_a_number_gets_another_digit() -> None:
    names = [f"n{number:03}" for number in range(98, 102)]
    assert expand(compress(names)) == names == ["n098", "n099", "n100", "n101"]


def test_a_name_that_is_a_prefix_of_others_keeps_its_position() -> None:
    assert expand(compress(["login", "login0"])) == ["login", "login0"]
    assert expand(compress(["login0", "login", "login1"])) == ["login0", "login", "login1"]


def test_lists_of_one_line_stay_paired_by_position() -> None:
    names = ["compute-0", "compute-3", "compute-17"]
    addresses = ["10.77.0.9", "10.77.0.4", "10.77.0.5"]
    assert compress(addresses) == "10.77.0.[9,4-5]"
    pairs = zip(expand(compress(names)), expand(compress(addresses)), strict=True)
    assert list(pairs) == list(zip(names, addresses, strict=True))


def test_a_number_too_long_for_slurm_stays_text() -> None:
    long = ["n1" + "0" * 18, "n1" + "0" * 17 + "1"]
    assert expand(compress(long)) == long


def test_a_digit_of_another_script_is_no_number() -> None:
    names = ["n٣", "n٤"]
    assert compress(names) == ",".join(names)


@pytest.mark.parametrize("seed", range(40))
def test_any_mixture_is_unfolded_in_its_order(seed: int) -> None:
    source = random.Random(seed)
    names = source.choices(list(itertools.chain.from_iterable(PIECES)), k=source.randint(1, 60))
    assert expand(compress(names)) == names


@pytest.mark.parametrize("seed", range(10))
def test_runs_of_numbers_are_unfolded_in_their_order(seed: int) -> None:
    source = random.Random(seed)
    width = source.choice([0, 0, 2, 3, 6])
    names = []
    for _run in range(source.randint(1, 8)):
        start = source.randint(0, 1200)
        names += [f"s-{number:0{width}}" for number in range(start, start + source.randint(1, 12))]
    assert expand(compress(names)) == names
