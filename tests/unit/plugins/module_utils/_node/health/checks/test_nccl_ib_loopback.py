# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An all-reduce within the node through its adapters."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.nccl_ib_loopback import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..deep_playing import Tool, is_idle, machine, recorded
from ..playing import ND_A100, context

PROGRAM = "opt/nccl-tests/build/all_reduce_perf"
WELL = recorded("all_reduce_perf.txt").replace("232.824", "18.4")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch)


def test_passes_at_its_own_limit_with_all_data_through_the_adapters(tmp_path: pathlib.Path) -> None:
    tool = Tool(WELL)
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), tool))
    assert answer.findings == ()
    assert [(one.value, one.limit) for one in answer.readings] == [(18.4, 18)]
    assert tool.environments[0].items() >= {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}.items()


def test_fails_below_it(tmp_path: pathlib.Path) -> None:
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool(WELL.replace("18.4", "17.99"))))
    assert [one.verdict for one in answer.findings] == [FAIL]


def test_cannot_measure_with_an_empty_output(tmp_path: pathlib.Path) -> None:
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), Tool("")))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]


def test_a_size_without_adapters_is_not_asked() -> None:
    assert CHECK.applies(find_size("Standard_ND96is_H100_v5")) == "Standard_ND96is_H100_v5 has no InfiniBand"
    assert CHECK.applies(find_size("Standard_ND96isr_MI300X_v5"))
    assert CHECK.applies(find_size(ND_A100)) == CHECK.applies(None) == ""
