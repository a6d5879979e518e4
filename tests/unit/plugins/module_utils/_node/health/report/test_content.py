# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The content of a node's report: the newest result of each check."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report import content
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report.content import blocking_of, report_of

from ..playing import NOW
from .playing import check, document


def test_without_a_run_there_is_no_report() -> None:
    assert report_of([]) == (None, {})


def test_a_report_identifies_its_machine_and_its_time() -> None:
    report, _runs = report_of([document("boot", check("gpu_count"), age=600), document("periodic", check("gpu_count"))])
    assert report
    assert (report.time, report.boot, report.vm_id, report.host) == (NOW, "b007b007", "vm-0", "host-a")
    assert (report.faults, report.unknown) == ((), ())


def test_the_newest_result_of_each_check_counts() -> None:
    tiers = [
        document("periodic", check("gpu_count"), check("gpu_xid", "unknown"), age=60),
        document("deep", check("gemm", "fail"), check("gpu_count", "fail"), age=3600),
        document("prolog", check("gpu_xid")),
    ]
    report, _runs = report_of(tiers)
    assert report
    assert [fault.check for fault in report.faults] == ["gemm"]
    assert report.unknown == ()


@pytest.mark.parametrize("verdict", ["pass", "warn", "unknown", "skip"])
def test_only_a_failure_is_a_fault(verdict: str) -> None:
    report, _runs = report_of([document("periodic", check("gpu_count", verdict))])
    assert report
    assert report.faults == ()
    assert report.unknown == (("gpu_count",) if verdict == "unknown" else ())


def test_a_failure_caused_by_a_user_is_no_fault() -> None:
    report, _runs = report_of([document("periodic", check("gpu_xid", "fail", cause="user"))])
    assert report
    assert report.faults == ()


def test_faults_are_in_catalogue_order_and_marked_if_they_block() -> None:
    names = [name for name in content.NAMES if name in ("gpu_count", "ib_ports", "free_space")]
    tiers = [document("periodic", *(check(name, "fail") for name in reversed(names)), check("of_the_future", "fail"))]
    report, _runs = report_of(tiers)
    assert report
    assert [fault.check for fault in report.faults] == [*names, "of_the_future"]
    assert [fault.check for fault in report.faults if fault.blocks] == [n for n in names if n != "free_space"]
    assert report.faults[0].action == "replace"
    assert report.faults[0].summary == f"{names[0]} is so"


def test_faults_that_block_come_first() -> None:
    report, _runs = report_of([document("periodic", check("disk_errors", "fail"), check("scratch", "fail"))])
    assert report
    assert [(fault.check, fault.blocks) for fault in report.faults] == [("scratch", True), ("disk_errors", False)]


def test_consecutive_failures_are_counted_until_a_pass() -> None:
    runs: content.Runs = {}
    counts = []
    for age, verdict in ((300, "fail"), (300, "fail"), (200, "fail"), (100, "pass"), (0, "fail")):
        report, runs = report_of([document("periodic", check("gpu_count", verdict), age=age)], runs)
        assert report
        counts.append([fault.runs for fault in report.faults])
    assert counts == [[1], [1], [2], [], [1]]


def test_the_count_of_failures_has_a_maximum() -> None:
    """Otherwise the report of a faulty node would change with each run."""
    runs: content.Runs = {}
    for age in range(20, 0, -1):
        report, runs = report_of([document("periodic", check("gpu_count", "fail"), age=age)], runs)
    assert report
    assert report.faults[0].runs == 5


def test_only_a_failed_blocking_check_blocks_a_job() -> None:
    assert blocking_of(None) == ""
    assert blocking_of(document("prolog", check("free_space", "fail"), check("gpu_count", "unknown"))) == ""
    assert blocking_of(document("prolog", check("gpu_count", "fail"))) == "gpu_count: gpu_count is so"
