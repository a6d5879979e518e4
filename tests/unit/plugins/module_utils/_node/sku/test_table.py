# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of VM sizes: every number has its source, and the numbers of one size agree with each other."""

from __future__ import annotations

import dataclasses
import re

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, SOURCES, VmSize, canonical_size

NUMBERS = [
    field.name
    for field in dataclasses.fields(VmSize)
    if field.name not in ("name", "sources", "thresholds", "contradictions")
]


@pytest.fixture(params=list(SIZES.values()), ids=list(SIZES))
def size(request: pytest.FixtureRequest) -> VmSize:
    """Each size of the table."""
    found: VmSize = request.param
    return found


def test_every_number_names_a_source_and_every_source_a_number(size: VmSize) -> None:
    known = {name for name in NUMBERS if getattr(size, name) is not None}
    assert set(size.sources) == known
    assert known, "a size of which nothing is known has no place in the table"
    assert set(size.sources.values()) <= SOURCES.keys() - {"hand"}


def test_every_number_is_above_zero(size: VmSize) -> None:
    for name in size.sources:
        number = getattr(size, name)
        assert isinstance(number, int)
        assert not isinstance(number, bool)
        assert number > 0


def test_the_name_is_azures_and_the_tables_own_spelling(size: VmSize) -> None:
    assert re.fullmatch(r"Standard_N[CD]\d+\w+", size.name)
    assert SIZES[size.name] is size
    assert canonical_size(size.name) == size.name


def test_sockets_cores_and_threads_make_up_the_cpus(size: VmSize) -> None:
    layout = (size.sockets, size.cores_per_socket, size.threads_per_core)
    if None in layout:
        assert layout == (None, None, None)
    else:
        assert size.vcpus == (size.sockets or 0) * (size.cores_per_socket or 0) * (size.threads_per_core or 0)


def test_a_size_of_another_spelling_is_not_there_twice() -> None:
    assert len({name.lower() for name in SIZES}) == len(SIZES)


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_mib"),
    [
        # check_hw_physmem 928858388kB
        ("Standard_ND96asr_v4", 96, 907088),
        # check_hw_physmem 1915071MB
        ("Standard_ND96isr_H100_v5", 96, 1915071),
        # check_hw_physmem 433GB
        ("Standard_NC48ads_A100_v4", 48, 443392),
        # 900 GiB in the documentation's table
        ("Standard_ND128isr_NDR_GB200_v6", 128, 921600),
    ],
)
def test_memory_of_each_unit_is_in_mib(name: str, vcpus: int, memory_mib: int) -> None:
    assert (SIZES[name].vcpus, SIZES[name].memory_mib) == (vcpus, memory_mib)


def test_what_no_source_states_is_none() -> None:
    size = SIZES["Standard_ND128isr_GB300_v6"]
    assert (size.sockets, size.cores_per_socket, size.threads_per_core) == (None, None, None)
    assert size.sources == {"vcpus": "D", "memory_mib": "D"}
