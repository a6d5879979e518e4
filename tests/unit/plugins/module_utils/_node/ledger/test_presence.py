# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes without a machine count nowhere: spare nodes, slots of elastic sets, and the time before and after a machine.

The files ``forms/life-*`` are recordings of slurmctld and slurmdbd 22.05.8 and 24.11.5 in two minutes of a cluster:
compute-0 is there from the beginning, compute-1 is a spare node whose machine joins, is retired and removed from
slurm.conf, compute-2 to compute-4 stay spare, and burst-0 of an elastic set is powered up and down once. slurmctld was
restarted after each change of slurm.conf.
"""

from __future__ import annotations

import calendar
import pathlib
import time
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import gather, output
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import Event, Registration, Skipped
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.buckets import ABSENT, BUCKETS, rank_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Ledger, Sources, compute
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.presence import declared, without_machine
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .playing import FOLDER, RELEASES, lines

NO_INSTANCE = "hpcai: no such instance"


def moment(text: str) -> float:
    """A time of 27 November 2026 in seconds since the epoch."""
    return float(calendar.timegm(time.strptime(f"2026-11-27T{text}", "%Y-%m-%dT%H:%M:%S")))


def recording(name: str, release: str) -> list[str]:
    """The lines of a recording, without its licence."""
    text = (FOLDER / f"life-{name}-{release}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def gathered(tmp_path: pathlib.Path, release: str, since: float, until: float) -> Ledger:
    """The ledger of a recording."""

    def slurmctld(words: Sequence[str]) -> Result:
        return Result(tuple(words), 0, "\n".join(recording("nodes", release)) + "\n", "")

    database = lines(recording("sacct", release), recording("events", release))
    asked = gather.LedgerScope(since, until)
    return gather.gather(Root(str(tmp_path)), slurmctld, gather.Settings(), asked, database)[0]


def seconds(found: Ledger, node: str) -> float:
    """The seconds in which a node had a machine."""
    listed = [totals for key, totals in found.totals.items() if key[0] == node]
    return sum(sum(totals) - totals[rank_of(ABSENT)] for totals in listed)


# By release: when the cluster registered first, when compute-1 joined, was drained, and had no machine any more, when
# burst-0 was ordered and when it was powered down, and the seconds of jobs on each node. Read from the recording.
LIVES = {
    "22.05": (
        ("08:06:07", "08:06:22", "08:07:33", "08:07:48", "08:07:03", "08:07:31"),
        {"compute-0": 4, "compute-1": 4, "burst-0": 3},
    ),
    "24.11": (
        ("08:04:01", "08:04:18", "08:05:27", "08:05:43", "08:04:57", "08:05:25"),
        {"compute-0": 5, "compute-1": 5, "burst-0": 3},
    ),
}


@pytest.mark.parametrize("release", RELEASES)
def test_only_time_with_a_machine_counts(tmp_path: pathlib.Path, release: str) -> None:
    moments, jobs = LIVES[release]
    first, joined, drained, gone, ordered, off = map(moment, moments)
    # The window begins a day before the cluster.
    since, until = first - 86400, moment("08:10:00")
    found = gathered(tmp_path, release, since, until)
    there = {"compute-0": until - first, "compute-1": gone - joined, "burst-0": off - ordered}
    assert {node for node, _machine in found.totals} == set(there)
    assert {node: seconds(found, node) for node in there} == there
    assert found.seconds("drained_people") == gone - drained
    assert found.seconds("unknown") == sum(jobs.values())
    assert found.seconds("idle") == sum(there.values()) - (gone - drained) - sum(jobs.values())
    # Each node's buckets and the time without a machine are exactly the window.
    assert {node: sum(totals) for (node, _machine), totals in found.totals.items()} == dict.fromkeys(
        there, until - since
    )
    assert sum(found.seconds(bucket) for bucket in BUCKETS) == sum(there.values())
    assert found.failures == []
    data = output.as_data(found, output.Rates())
    assert data["nodes"] == 3
    assert data["reliability"]["all"]["failures"] == 0
    assert data["costliest_nodes"] == []


def events(*entries: tuple[float, float | None, str, str]) -> list[Event]:
    """Outages of a node: start, end, state and reason."""
    return [Event("n", start, end, state, "slurm(64030)", reason) for start, end, state, reason in entries]


def test_an_outage_between_two_times_without_a_machine_is_no_failure() -> None:
    """slurmctld reports a spare node as down for a second before it is set down as a spare node."""
    short = events((100, 101, "DOWN*", "First Registration"), (101, None, "DOWN", NO_INSTANCE))
    kept, absent = without_machine(short, [(100.0, 500.0)], None, 0.0, 500.0)
    assert kept == []
    assert sorted(absent) == [(0.0, 100.0), (100, 101), (101, 500.0)]


def test_the_outage_of_a_machine_that_is_replaced_is_a_failure() -> None:
    dead = events((300, 400, "DOWN*", "Not responding"), (400, None, "DOWN", NO_INSTANCE))
    kept, absent = without_machine(dead, [(100.0, 500.0)], None, 0.0, 500.0)
    assert [one.reason for one in kept] == ["Not responding"]
    assert sorted(absent) == [(0.0, 100.0), (400, 500.0)]


def test_a_check_that_fails_on_a_new_machine_is_a_failure_although_the_machine_goes_again() -> None:
    found = events(
        (100, 200, "DOWN~", NO_INSTANCE),
        (201, 300, "DRAIN", "hpcai: boot: scratch: x"),
        (300, None, "DOWN", NO_INSTANCE),
    )
    kept, _absent = without_machine(found, [(100.0, 500.0)], None, 0.0, 500.0)
    assert [one.state for one in kept] == ["DRAIN"]


def test_what_slurmctld_knows_now_counts_if_slurmdbd_lost_the_outage() -> None:
    kept, absent = without_machine([], [(100.0, 500.0)], 150.0, 0.0, 500.0)
    assert (kept, sorted(absent)) == ([], [(0.0, 100.0), (150.0, 500.0)])
    # A window that ended before is not changed by it.
    assert without_machine([], [(100.0, 500.0)], 600.0, 0.0, 500.0)[1] == [(0.0, 100.0)]


def test_a_machine_that_never_answers_is_down_because_it_is_paid_for() -> None:
    silent = events((120, None, "DOWN*", "Not responding"))
    kept, absent = without_machine(silent, [(100.0, 500.0)], None, 0.0, 500.0)
    assert (len(kept), absent) == (1, [(0.0, 100.0)])


def test_without_registrations_each_node_is_there_for_all_of_the_window() -> None:
    assert without_machine([], None, None, 0.0, 500.0) == ([], [])
    ledger = compute(Sources(["n"], [], lambda *_words: Skipped()), 0.0, 500.0)
    assert ledger.seconds("idle") == 500


def test_a_node_that_is_declared_twice_has_no_time_between() -> None:
    listed = [
        Registration(300.0, None, "n-[1-2]"),
        Registration(0.0, 100.0, "n-[1-2]"),
        Registration(100.0, 300.0, "n-2"),
    ]
    assert declared(listed, 500.0) == {"n-1": [(0.0, 100.0), (300.0, 500.0)], "n-2": [(0.0, 500.0)]}
    assert without_machine([], [(0.0, 100.0), (300.0, 500.0)], None, 0.0, 500.0)[1] == [(100.0, 300.0)]


def test_an_idle_node_that_was_removed_counts_until_then() -> None:
    """It has no jobs, no outages, and slurmctld does not know it any more."""
    listed = [Registration(0.0, 100.0, "n-[1-2]"), Registration(100.0, None, "n-1")]
    ledger = compute(Sources(["n-1"], [], lambda *_words: Skipped(), registrations=listed), 0.0, 500.0)
    assert {node: seconds(ledger, node) for node in ("n-1", "n-2")} == {"n-1": 500.0, "n-2": 100.0}


def test_the_time_of_slurmctlds_reason_is_used(tmp_path: pathlib.Path) -> None:
    """slurmdbd has only the registration: the node was up for 300 s, and has had no machine since."""
    shown = f"NodeName=n-1 State=DOWN+CLOUD Reason={NO_INSTANCE} [root@2026-11-27T08:05:00] \n"
    database = lines([], ["|2026-11-27T08:00:00|Unknown|||n-1|Cluster Registered TRES"])
    found, _rates = gather.gather(
        Root(str(tmp_path)),
        lambda words: Result(tuple(words), 0, shown, ""),
        gather.Settings(),
        gather.LedgerScope(moment("08:00:00"), moment("08:10:00")),
        database,
    )
    assert (found.seconds("idle"), found.seconds("absent")) == (300, 300)
