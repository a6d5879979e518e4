# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An all-to-all within the node: no source has a limit, so its results count, and the site's limit."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.nccl_alltoall import CHECK

from ..deep_playing import Tool, is_idle, machine, recorded
from ..playing import ND_A100, context

PROGRAM = "opt/nccl-tests/build/alltoall_perf"
WELL = recorded("alltoall_perf.txt")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch)


def test_passes_with_right_results_whatever_the_bandwidth(tmp_path: pathlib.Path) -> None:
    tool = Tool(WELL)
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), tool))
    assert answer.findings == ()
    assert [(one.name, one.value, one.limit) for one in answer.readings] == [("nccl_alltoall", 234.52, None)]
    assert "no limit is known" in answer.good
    assert tool.commands[0][:5] == [f"/{PROGRAM}", "-b", "8G", "-e", "8G"], "the size of the all-reduce's limit"


def test_fails_below_the_limit_of_the_site_and_with_wrong_results(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, ND_A100, PROGRAM)
    (finding,) = CHECK.measure(context(tree, Tool(WELL), limits={"nccl_alltoall": 240})).findings
    assert (finding.verdict, "should be at least 240" in finding.summary) == (FAIL, True)
    wrong = Tool(WELL.replace("values : 0 OK", "values : 1 FAILED"))
    assert [one.verdict for one in CHECK.measure(context(tree, wrong)).findings] == [FAIL]


def test_cannot_measure_what_was_not_checked(tmp_path: pathlib.Path) -> None:
    unchecked = Tool(WELL.replace("234.80       0", "234.80     N/A"))
    answer = CHECK.measure(context(machine(tmp_path, ND_A100, PROGRAM), unchecked))
    assert [(one.verdict, one.summary) for one in answer.findings] == [
        (UNKNOWN, "alltoall_perf did not check its results, so they may be wrong")
    ]
