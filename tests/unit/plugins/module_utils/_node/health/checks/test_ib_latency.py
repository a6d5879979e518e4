# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Latency of each adapter."""

from __future__ import annotations

import pathlib

import pytest
from stand_ins.infiniband import put_ports_of

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_latency import CHECK

from ..deep_playing import Tool, is_idle, machine, recorded
from ..playing import ND_A100, context

PROGRAM = "usr/bin/ib_write_lat"
WELL = recorded("ib_write_lat.txt")
H100 = "Standard_ND96isr_H100_v5"


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch)


def one_slow(figure: str) -> Tool:
    """All adapters well but one."""
    return Tool(lambda words: WELL.replace("1.56 ", figure) if "mlx5_ib5" in words else WELL)


def test_passes_below_the_limit(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(WELL)))
    assert answer.findings == ()
    assert {(one.name, one.value, one.limit, one.at_most) for one in answer.readings} == {
        ("ib_latency_local", 1.56, 2, True)
    }
    assert len(answer.readings) == 8


def test_fails_above_it(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), one_slow("2.01 ")))
    assert [(one.verdict, one.device) for one in answer.findings] == [(FAIL, "mlx5_ib5")]


def test_warns_of_the_slowest_where_the_size_has_no_limit(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, H100)
    answer = CHECK.measure(context(machine(tmp_path, H100, PROGRAM), one_slow("1.75 "), size=H100))
    assert [(one.verdict, one.device) for one in answer.findings] == [(WARN, "mlx5_ib5")]


def test_cannot_measure_with_an_empty_output(tmp_path: pathlib.Path) -> None:
    put_ports_of(tmp_path, ND_A100)
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool("")))
    assert [one.verdict for one in answer.findings] == [UNKNOWN] * 8
    assert answer.readings == ()
