# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Caps, blocks, and names that azcopy can carry."""

from __future__ import annotations

import re

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.options import (
    Limits,
    block_mib,
    cap_of,
    share_of_account,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.place import (
    NameRefused,
    check_names,
    trouble_with,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.transfer import filter_for


def test_eight_processes_under_20_gbps_get_2300_mbps_each() -> None:
    # "we choose that each azcopy can transfer data at a maximum transfer speed of 2300 Mbps (2300 x 8 = 18400)"
    assert share_of_account(20, 8) == 2300


@pytest.mark.parametrize(("gbps", "processes"), [(20, 1), (50, 16), (60, 128), (1, 100), (0.05, 4), (25, 7)])
def test_all_shares_together_stay_under_the_account_and_use_most_of_it(gbps: float, processes: int) -> None:
    together = share_of_account(gbps, processes) * processes
    assert gbps * 1000 * 0.75 <= together <= gbps * 1000 * 0.92 + 1e-6


@pytest.mark.parametrize(("gbps", "processes"), [(0, 1), (-1, 1), (20, 0), (0.001, 8)])
def test_a_share_that_is_none_is_refused(gbps: float, processes: int) -> None:
    with pytest.raises(ValueError, match="process"):
        share_of_account(gbps, processes)


@pytest.mark.parametrize(
    ("asked", "gbps", "cap"), [(None, 20, 2300), (500.0, 20, 500), (0.0, 20, 0), (None, 0, 0), (0.0, 0, 0)]
)
def test_a_cap_of_the_callers_own_counts_also_where_it_is_none(asked: float | None, gbps: float, cap: float) -> None:
    assert cap_of(asked, gbps, 8) == cap


@pytest.mark.parametrize(
    ("asked", "gbps"), [(-1.0, 0), (0.5, 0), (float("nan"), 20), (float("inf"), 20), (None, -1), (None, float("nan"))]
)
def test_a_cap_that_makes_no_sense_is_refused(asked: float | None, gbps: float) -> None:
    with pytest.raises(ValueError, match=r"makes no sense|too small"):
        cap_of(asked, gbps, 8)


@pytest.mark.parametrize("cap", [1, 2, 8, 16, 33, 40, 60, 67, 68, 80, 2300])
def test_a_block_is_less_than_a_second_of_the_cap(cap: float) -> None:
    # Measured: a capped download fails where min(file, block) is more than cap * 125000 bytes.
    assert 0 < block_mib(cap) * 1048576 <= cap * 125_000


def test_blocks_of_what_is_not_capped_are_left_to_azcopy() -> None:
    assert Limits().block_mib == 0
    with pytest.raises(ValueError, match="too small"):
        block_mib(0.5)


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "with space",
        " lead",
        "trail ",
        "per%20cent",
        "%",
        "semi;colon",
        "#?&+*[x]",
        "ünï/日本",
        'quo"te',
        "tab\tx",
        "{x}",
    ],
)
def test_names_that_azcopy_carries(name: str) -> None:
    # Each of them was carried by azcopy 10.32.2, up and down.
    check_names([name])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("two\nlines", "newline"),
        ("cr\r", "newline"),
        ("nul\0", "NUL"),
        ("back\\slash", "backslash"),
        ("", "empty part"),
        ("/a", "empty part"),
        ("a//b", "empty part"),
        ("a/../b", "'.' or '..'"),
        ("\udcff", "no UTF-8"),
        ("\ufeffx", "old form"),
        ('{ "Files": [', "old form"),
        ("x" * 230, "too long"),
        ("/".join(["x" * 100] * 11), "too long"),
    ],
)
def test_names_that_it_does_not_are_refused(name: str, why: str) -> None:
    assert why in trouble_with(name)
    with pytest.raises(NameRefused, match="rename"):
        check_names(["good", name])


def test_azcopy_lists_where_that_is_quicker_than_to_ask_for_each() -> None:
    assert filter_for(["a", "b"], 0) is None
    assert filter_for(["a"] * 100, 5_000_000) is None
    assert filter_for(["a", "b"], 2) == ["--recursive"]
    assert filter_for(["a"], 9, ["*_1", "*_2"]) == ["--recursive", "--include-pattern", "*_1;*_2"]
    assert filter_for([f"{'x' * 60}{number}" for number in range(4000)], 5000) is None


def test_an_expression_means_its_names_and_no_others() -> None:
    names = ["a.b", "c;d|e", "(x)*[y]+?", "back^$", "ünï 日本\t", "per%20"]
    chosen = filter_for(names, 7)
    assert chosen
    # Python writes a number of four digits in another way than Go.
    expression = re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: re.escape(chr(int(found[1], 16))), chosen[-1])
    assert all(re.fullmatch(expression, name) for name in names)
    assert not any(re.fullmatch(expression, name) for name in ("axb", "c", "d", "e", "xx[y]", "a.bb", "per 20"))
    assert ";" not in chosen[-1]
