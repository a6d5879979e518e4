# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of nvbandwidth, old and new, whole and not."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.parsers.nvbandwidth import devices, matrices

from ..deep_playing import recorded


def test_two_tests_of_the_host() -> None:
    found = matrices(recorded("nvbandwidth.txt"))
    assert list(found) == ["host_to_device_memcpy_ce", "device_to_host_memcpy_ce"]
    assert found["host_to_device_memcpy_ce"][0, 7] == 24.59
    assert found["device_to_host_memcpy_ce"] == {
        (0, number): value for number, value in enumerate((24.10, 24.11, 24.12, 24.11, 24.10, 24.13, 24.11, 24.09))
    }
    assert devices(recorded("nvbandwidth.txt")) == {}


def one_matrix(text: str) -> Mapping[tuple[int, int], float]:
    """The only one in it."""
    found = list(matrices(text).values())
    assert len(found) == 1
    return found[0]


def test_pairs_without_a_gpu_with_itself() -> None:
    text = recorded("nvbandwidth_peers.txt")
    matrix = one_matrix(text)
    assert len(matrix) == 56
    assert (matrix[6, 0], matrix[0, 6]) == (274.89, 276.55)
    assert matrices(text.replace("N/A", "0.00")) == {"device_to_device_memcpy_read_ce": matrix}, "as older ones have it"
    assert devices(text)[4] == "000b:00:00.0"


def test_what_is_not_available_or_no_number_is_not_in_it() -> None:
    text = recorded("nvbandwidth_peers.txt").replace("274.89", "   N/A").replace("276.03", "   nan")
    matrix = one_matrix(text)
    assert len(matrix) == 54
    assert (6, 0) not in matrix
    assert (4, 0) not in matrix


def test_no_matrix_is_no_test() -> None:
    assert matrices("") == {}
    waived = "Running device_to_device_memcpy_read_ce.\nWaived: \n\n          0         1\n0     24.61     24.60\n"
    head = recorded("nvbandwidth.txt").split("          0  ")[0]
    assert matrices(head) == {}
    assert matrices(waived.split("\n\n", maxsplit=1)[0]) == {}


def test_only_whole_rows_of_the_matrix_count() -> None:
    text = "Running a.\n           0         1\n 0       N/A    276.07\n 1    275.61\nSUM a 551.68\n"
    assert matrices(text) == {"a": {(0, 1): 276.07}}
