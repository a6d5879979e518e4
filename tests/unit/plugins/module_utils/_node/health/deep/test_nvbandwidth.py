# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvbandwidth's devices by their addresses, and tests of which it printed nothing."""

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep.nvbandwidth import run

from ..deep_playing import Said, Tool
from ..playing import context

MATRIX = "Running peers.\nsome words\n           0         1\n 0       N/A    276.07\n 1    275.61       N/A\n\n"


def measured(said: str | Said, *busids: str) -> tuple[object, list[tuple[str, str]]]:
    """The pairs of what was measured, and what was found."""
    values, findings = run(context(run=Tool(said)), "/nvbandwidth", ("peers",), busids, 60)
    return {test: list(of_test) for test, of_test in values.items()}, [(one.verdict, one.summary) for one in findings]


def test_devices_have_their_printed_address_else_that_of_their_place() -> None:
    printed = "Device 0: NVIDIA A100 (00000001:00:00)\n"
    assert measured(MATRIX, "a", "b") == ({"peers": [("a", "b"), ("b", "a")]}, [])
    expected = [("0001:00:00.0", "b"), ("b", "0001:00:00.0")]
    assert measured(printed + MATRIX, "a", "b") == ({"peers": expected}, [])
    assert measured(MATRIX, "a") == ({"peers": [("a", "GPU 1"), ("GPU 1", "a")]}, [])


def test_a_test_without_a_matrix_is_told_and_a_run_that_failed() -> None:
    words = "nvbandwidth printed no bandwidth of peers: nothing was printed"
    assert measured("") == ({}, [(UNKNOWN, words)])
    assert measured((1, MATRIX, "bad\n")) == ({}, [(FAIL, "nvbandwidth failed (exit status 1): bad")])
