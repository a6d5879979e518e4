# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node-hours by account, from lines of sacct."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Callable, Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import accounting, accounts

HOUR = 3600.0


def hours(*lines: str, days: float = 0.25) -> dict[str, dict[str, float]]:
    """The node-hours of the first six hours of 1970, or of so many days, in lines with | for the delimiter."""

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        [delimiter] = [word.partition("=")[2] for word in words if word.startswith("--delimiter=")]
        for line in lines:
            handle(line.replace("|", delimiter))

    return accounts.node_hours(0.0, days * 24 * HOUR, lambda name: "gpu" if name.startswith("gpu-") else None, ask)


def test_nodes_of_sets_are_counted_within_the_window() -> None:
    assert hours(
        "1970-01-01T01:00:00|1970-01-01T02:00:00|gpu-[0-1],compute-3|physics",
        "1969-12-31T23:00:00|1970-01-01T01:00:00|gpu-2|physics",
        "1970-01-01T05:00:00|Unknown|gpu-3|biology",
    ) == {"gpu": {"physics": pytest.approx(3.0), "biology": pytest.approx(1.0)}}


def test_jobs_that_share_a_node_share_its_time() -> None:
    assert hours(
        "1970-01-01T01:00:00|1970-01-01T03:00:00|gpu-0|physics",
        "1970-01-01T02:00:00|1970-01-01T04:00:00|gpu-0|biology",
    ) == {"gpu": {"physics": pytest.approx(1.5), "biology": pytest.approx(1.5)}}


def test_many_short_jobs_on_a_node_cost_little_time() -> None:
    """A user may start tens of thousands in a month. To compare each with all others takes seconds for each node."""
    begins = [f"1970-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}" for number in range(20001)]
    lines = [f"{first}|{last}|gpu-0|a{place % 3}" for place, (first, last) in enumerate(itertools.pairwise(begins))]
    began = time.process_time()
    found = hours(*lines, f"{begins[0]}|{begins[-1]}|gpu-0|long")
    assert time.process_time() - began < 2
    assert found["gpu"]["long"] == pytest.approx(10000 / HOUR)
    assert sum(found["gpu"].values()) == pytest.approx(20000 / HOUR)


def test_lines_that_are_no_records_are_left_out() -> None:
    assert hours("Unknown|Unknown|None assigned|a", "x", "1970-01-01T01:00:00|yesterday|gpu-0|a", "|||") == {}


def test_an_account_cannot_forge_a_record() -> None:
    forged = "1970-01-01T01:00:00|1970-01-01T05:00:00|gpu-0|victim".replace("|", "~")
    found = hours("1970-01-01T01:00:00|1970-01-01T02:00:00|gpu-0|\x1b[2Jmine", forged)
    assert found == {"gpu": {"?[2Jmine": pytest.approx(1.0)}}


def most_memory(days: int) -> int:
    """The most memory for a window of so many days with 2000 jobs each, in bytes."""

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        options = dict(word.split("=", 1) for word in words if "=" in word)
        for number in range(days * 2000):
            start, end = (accounting.slurm_time(number * 43.2 + more) for more in (0, 40))
            if end >= options["--starttime"] and start <= options["--endtime"]:
                handle(options["--delimiter"].join((start, end, "gpu-0", f"account {number}")))

    tracemalloc.start()
    try:
        found = accounts.node_hours(0.0, days * 86400.0, lambda _name: "gpu", ask)
        assert sum(found["gpu"].values()) == pytest.approx(days * 2000 * 40 / HOUR, rel=0.02)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_jobs_and_accounts() -> None:
    """A user's short jobs, each with another account, would use up the controller's memory."""
    assert most_memory(6) < most_memory(2) * 1.3


def test_the_smallest_accounts_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_MOST_ACCOUNTS", 2)
    found = hours(
        *(f"1970-01-01T0{number}:00:00|1970-01-01T0{number}:10:00|gpu-0|{name}" for number, name in enumerate("abc")),
        "1970-01-01T00:00:00|1970-01-01T02:00:00|gpu-1|physics",
        "1970-01-01T00:00:00|1970-01-01T01:00:00|gpu-2|biology",
    )
    assert found == {"gpu": {"physics": 2.0, "biology": 1.0, "other accounts": pytest.approx(0.5)}}


def test_a_job_of_two_days_is_counted_once() -> None:
    line = "1970-01-01T23:00:00|1970-01-02T01:30:00|gpu-0|physics"
    assert hours(line, days=3) == {"gpu": {"physics": pytest.approx(2.5)}}
