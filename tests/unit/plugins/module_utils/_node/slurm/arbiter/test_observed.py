# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What slurmctld shows of a node, and the report in it."""

from __future__ import annotations

import datetime
import pathlib
import time
from collections.abc import Iterator

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter import observed
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import encode

from .playing import BOOTED, FULL, LOST, NOW, Slurmctld, report

RECORDED = pathlib.Path(__file__).parent.parent / "recorded"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A controller outside UTC. scontrol prints UTC there too, because commands run with TZ=UTC."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_a_nodes_report_reason_and_times_are_read() -> None:
    slurmctld = Slurmctld()
    slurmctld.add("compute-0", report(LOST), "IDLE+DRAIN", "hpcai: health: gpu_count: x")
    one = observed.read_nodes(slurmctld)["compute-0"]
    assert (one.report, one.problem) == (report(LOST), "")
    assert (one.node.reason, one.node.drained) == ("hpcai: health: gpu_count: x", True)
    assert (one.booted, one.reason_since) == (BOOTED, NOW)


def test_the_newest_report_counts_if_both_fields_have_one() -> None:
    old, new = encode(report(LOST, age=900)), encode(report(FULL, age=10))
    line = "NodeName=a State=IDLE BootTime=None Comment={} Extra={}"
    for fields in ((old, new), (new, old)):
        assert observed.parse_nodes(line.format(*fields))["a"].report == report(FULL, age=10)


def test_an_unreadable_report_is_a_problem_with_a_message() -> None:
    shown = "NodeName=a State=IDLE Extra=hpcai-health/2;t=1\nNodeName=b State=IDLE Extra=rack 4\n"
    found = observed.parse_nodes(shown)
    assert found["a"].report is None
    assert found["a"].problem.startswith("its report cannot be read: it has version 2")
    assert (found["b"].report, found["b"].problem) == (None, "it has not reported")


def test_free_text_that_looks_like_a_time_is_not_one() -> None:
    line = "NodeName=a State=IDLE BootTime=2026-99-99T99:99:99 Comment=seen [bob@2026-13-45T::::::::]\n"
    found = observed.parse_nodes(line)["a"]
    assert (found.booted, found.reason_since) == (None, None)


def test_records_of_real_releases_are_read() -> None:
    for name in ("scontrol-22.05.8-show-nodes.txt", "scontrol-25.05-show-nodes.txt"):
        found = observed.parse_nodes((RECORDED / name).read_text(encoding="utf-8"))
        assert found
        assert all(one.report is None for one in found.values())
    drained = found["compute-3"]
    assert drained.reason_since == datetime.datetime(2026, 11, 21, 10, 30, tzinfo=datetime.UTC).timestamp()
    assert found["compute-19"].booted is None
