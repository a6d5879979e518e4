# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger: each node-second in exactly one bucket, and what faults of the sources do."""

from __future__ import annotations

import calendar
import json
import pathlib
import random
import time
from collections.abc import Sequence
from functools import partial

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import accounting, checkpoints, gather, output
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import read_history, read_runs
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.buckets import BUCKETS, ORDER, rank_of, sweep
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Sources, compute
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.machines import machines_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.reliability import bounds, failures_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import PriceList, SizePrice

from .playing import END, RELEASES, STEPS, T0, database, gone, ledger_of, lines, recorded, run_line


def test_a_killed_node_costs_what_was_counted() -> None:
    found = ledger_of(database())
    # Run 1 on two nodes: 10 s prologs, kept from 30 to 100 s, lost from 100 to 120 s. Run 2: 10 s prologs, 100 s kept.
    assert found.seconds("starting") == 2 * 10 + 2 * 10
    assert found.seconds("kept") == 2 * 70 + 2 * 100
    assert found.seconds("lost") == 2 * 20
    # c-0 waits for the next start from 120 to 250 s; c-1 is down and then drained meanwhile.
    assert found.seconds("hold") == 130
    # c-1 has the job until 120 s, is down until 180 s, and drained by a check until 300 s.
    assert found.seconds("down") == 60
    assert found.seconds("drained_check") == 120
    assert found.seconds("drained_people") == 360
    # Job 12 has no checkpoints and still runs.
    assert found.seconds("unknown") == 180
    # c-4 is a spare node.
    assert found.seconds("absent") == 0
    assert sum(found.seconds(bucket) for bucket in BUCKETS) == 5 * 600
    work = found.work["llama", "alice"]
    assert work.ettr == pytest.approx(170 / 350)
    assert (work.runs, work.interruptions) == (2, 1)
    assert found.lost == {"node": 40}
    assert found.blamed == {("c-1", ""): 40}
    assert (found.runs, found.requeues) == (3, 1)


def test_a_user_adds_nothing_to_the_training_of_another_user() -> None:
    alone = ledger_of(database())
    forged = run_line(99, "FAILED", 0, 300, user="bob", comment="hpcai:training=llama")
    found = ledger_of(database([forged]))
    assert found.work["llama", "alice"] == alone.work["llama", "alice"]
    assert found.work["llama", "bob"].interruptions == 1


def moment(text: str) -> float:
    """A time of 27 November 2026 in seconds since the epoch."""
    return float(calendar.timegm(time.strptime(f"2026-11-27T{text}", "%Y-%m-%dT%H:%M:%S")))


# By release: the window, the node that was killed, and node-seconds that were added up by hand from the recording.
RECORDED = {
    "22.05": (
        ("05:31:00", "05:35:00"),
        "compute-3",
        {
            "kept": 2 * (52 - 6.562) + 2 * (76 - 7.781),
            "lost": 2 * 6.562 + 2 * 7.781,
            "unknown": 43 + 3,
            "down": 155,
            "hold": 8,
            "starting": 0,
        },
    ),
    "24.11": (
        ("05:01:30", "05:05:00"),
        "compute-3",
        {
            # Job 1 on two nodes: 54 s, saved 7.378 s before its end; then 52 s, saved 6.607 s before it. Jobs 2 and
            # 3 share its nodes meanwhile.
            "kept": 2 * (54 - 7.378) + 2 * (52 - 6.607),
            "lost": 2 * 7.378 + 2 * 6.607,
            # Jobs 4 and 5 make no checkpoints.
            "unknown": 41 + 3,
            # compute-3 does not respond from 05:02:45 on, and compute-0 waits for 5 s for the next start.
            "down": 135,
            "hold": 5,
            "starting": 0,
        },
    ),
}


@pytest.mark.parametrize("release", RELEASES)
def test_recordings_of_each_release_add_up(release: str) -> None:
    (since, until), killed, wanted = RECORDED[release]
    window = moment(since), moment(until)
    ask = recorded(release)
    history = read_history(*window, ask)
    nodes = ("compute-0", "compute-3", "compute-17")
    # Slurm itself shows only events of the window.
    events = [one for one in history.events if one.start < window[1]]
    found = compute(Sources(nodes, [one for one in events if one.node in nodes], partial(read_runs, ask=ask)), *window)
    assert history.skipped.counts == {}
    assert {bucket: found.seconds(bucket) for bucket in wanted} == pytest.approx(wanted)
    assert sum(found.seconds(bucket) for bucket in BUCKETS) == pytest.approx(3 * (window[1] - window[0]))
    assert {(one.node, one.fault) for one in found.failures} == {(killed, "not_responding")}
    # The other nodes have no machine.
    listed = failures_of([one for one in events if one.node not in nodes])
    assert listed == []


def test_buckets_partition_each_window_exactly() -> None:
    """Against a count second by second, with intervals that overlap in all ways."""
    numbers = random.Random(7)
    for _round in range(200):
        intervals = []
        for _one in range(numbers.randrange(8)):
            start = numbers.randrange(-20, 60)
            intervals.append((float(start), float(start + numbers.randrange(30)), numbers.randrange(len(ORDER) - 1)))
        totals = [0.0] * len(ORDER)
        sweep(intervals, 0.0, 50.0, totals)
        counted = [0.0] * len(ORDER)
        for second in range(50):
            active = [rank for start, end, rank in intervals if start <= second < end]
            counted[min(active, default=rank_of("idle"))] += 1
        assert totals == counted


def test_days_add_up_to_the_same_as_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ledger_of(database())
    monkeypatch.setattr(
        "ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute.slices",
        lambda since, until: accounting.slices(since, until, 37.0),
    )
    parts = ledger_of(database())
    assert {bucket: parts.seconds(bucket) for bucket in ORDER} == {bucket: whole.seconds(bucket) for bucket in ORDER}
    assert parts.work["llama", "alice"].seconds == pytest.approx(whole.work["llama", "alice"].seconds)
    assert (parts.runs, parts.requeues, parts.lost) == (whole.runs, whole.requeues, whole.lost)


DAY = 86400.0


@pytest.mark.parametrize(("ended", "wait"), [(DAY - 600, 2400.0), (DAY / 2, 2400.0), (DAY / 2, 3 * DAY)])
def test_a_wait_counts_completely_wherever_the_days_begin(ended: float, wait: float) -> None:
    runs = [
        run_line(7, "NODE_FAIL", 0, ended),
        run_line(7, "COMPLETED", ended + wait, ended + wait + 600, submit=ended),
    ]
    found = ledger_of(lines(runs), (), nodes=("c-0",), until=T0 + 5 * DAY)
    assert (found.seconds("hold"), found.requeues) == (wait, 1)


def test_without_checkpoints_kept_and_lost_are_unknown() -> None:
    found = ledger_of(database(), known=())
    assert (found.seconds("kept"), found.seconds("lost")) == (0, 0)
    assert found.seconds("unknown") == 2 * 90 + 2 * 100 + 180
    data = output.as_data(found, output.Rates())
    assert data["runtime_goodput"] is None
    assert data["work"][0]["ettr"] is None
    assert "ETTR unknown" in output.text(data)


def test_checkpoints_in_a_local_folder_count_if_the_job_noted_them() -> None:
    noted = f"hpcai:training=x,hpcai:saved=0.40.{int((T0 + 50.5) * 1000)}"
    runs = [
        run_line(7, "NODE_FAIL", 0, 60, comment=noted),
        # The note of the first run does not count for the second one, which saved nothing.
        run_line(7, "NODE_FAIL", 100, 130, submit=60, comment=noted),
    ]
    found = ledger_of(lines(runs), (), nodes=("c-0",))
    assert (found.seconds("kept"), found.seconds("lost"), found.seconds("unknown")) == (50.5, 9.5 + 30, 0)
    # If a store has checkpoints of the job, only they count: others may have been on the node that died.
    stored = [Checkpoint("000000000020-7.0-w1", T0 + 20)]
    found = ledger_of(lines(runs), stored, nodes=("c-0",))
    assert (found.seconds("kept"), found.seconds("lost")) == (20, 40 + 30)


def test_a_job_that_was_requeued_five_times_is_one_work() -> None:
    runs = [run_line(7, "NODE_FAIL", 100 * number, 100 * number + 60, submit=100 * number - 40) for number in range(5)]
    runs.append(run_line(7, "COMPLETED", 500, 560, submit=460))
    steps = [Checkpoint(f"00000000000{number}-7.{number}-w1", T0 + 100 * number + 50) for number in range(5)]
    found = ledger_of(lines(runs), steps, nodes=("c-0",))
    assert found.seconds("kept") == 5 * 50 + 60
    assert found.seconds("lost") == 5 * 10
    assert found.seconds("hold") == 5 * 40
    assert found.requeues == 5
    work = found.work["job 7", "alice"]
    assert (work.runs, work.interruptions) == (6, 5)


def test_pruned_checkpoints_make_a_run_unknown_unless_they_were_recorded_before() -> None:
    pruned = [Checkpoint("000000000040-10.0-w2", None), STEPS[1]]
    found = ledger_of(database(), pruned)
    # The first run: 90 s of work on two nodes. Job 12 has 180 s.
    assert found.seconds("unknown") == 2 * 90 + 180
    assert found.seconds("kept") == 2 * 100
    recorded = checkpoints.merged([STEPS[0]], pruned, END)
    assert ledger_of(database(), recorded).seconds("kept") == 2 * 70 + 2 * 100


@pytest.mark.parametrize(
    ("state", "cause"),
    [("FAILED", "program"), ("OUT_OF_MEMORY", "program"), ("TIMEOUT", "time_limit"), ("CANCELLED by 5", "cancelled")],
)
def test_lost_work_of_a_users_own_bug_is_no_fault_of_a_node(state: str, cause: str) -> None:
    events = ["c-0|2026-01-01T00:01:00|2026-01-01T00:03:00|DOWN|slurm||Not responding"]
    steps = [Checkpoint("000000000001-7.0-w1", T0 + 20)]
    found = ledger_of(lines([run_line(7, state, 0, 60)], events), steps)
    assert found.lost == {cause: 40}
    assert found.blamed == {}


def test_a_comment_cannot_forge_a_record() -> None:
    forged = run_line(99, "COMPLETED", 0, 600, "c-[0-9]").replace("@", "|")
    comment = f"hpcai:training=x\n{forged}\n{forged.replace('|', '~0000~')}"
    runs = run_line(7, "COMPLETED", 0, 60, comment=comment).splitlines()
    found = ledger_of(lines(runs), ())
    assert found.runs == 1
    assert found.seconds("unknown") == 60


@pytest.mark.parametrize(
    ("comment", "training"),
    [
        ("hpcai:training=a-b_1.2", "a-b_1.2"),
        ("x,hpcai:training=a;y", "a"),
        ("hpcai:recover hpcai:training=a", "a"),
        ("hpcai:training=<script>", ""),
        ("xhpcai:training=a", ""),
    ],
)
def test_reads_the_training_of_a_comment(comment: str, training: str) -> None:
    assert accounting.training_in(accounting.words_in(comment)) == training


def test_clocks_that_were_changed_are_noted_and_counted_nowhere() -> None:
    runs = [run_line(7, "COMPLETED", 100, 50), run_line(8, "COMPLETED", 100, 160), "9@x@y@z@a@b@c@d@e@f@g"]
    # A step that began before its run.
    runs.insert(2, "8.batch@COMPLETED@@@2025-12-31T00:00:00@@0:0@c-0@@@")
    events = ["c-1|2026-01-01T00:05:00|2026-01-01T00:01:00|DOWN|slurm||Not responding"]
    found = ledger_of(lines(runs, events), ())
    assert found.seconds("unknown") == 60
    assert found.seconds("starting") == 0
    assert found.seconds("down") == 0
    assert [note for note in found.notes if "the controller's clock was changed" in note]


def test_a_replaced_machine_under_an_old_name_does_not_inherit_failures() -> None:
    log = [{"time": T0 - 1e6, "node": "c-1", "vm_id": "vm-old"}, {"time": T0 + 200, "node": "c-1", "vm_id": "vm-new"}]
    found = ledger_of(database(), machines=machines_of(log))
    rows = {(row["node"], row["vm_id"]): row for row in output.costliest(found, output.Rates())}
    assert rows["c-1", "vm-old"]["failures"] == 1
    assert rows["c-1", "vm-old"]["lost_node_seconds"] == 40
    # The drain went on after the replacement; its beginning was the old machine's.
    assert rows["c-1", "vm-new"]["failures"] == 0
    assert rows["c-1", "vm-new"]["lost_node_seconds"] == 0
    assert rows["c-1", "vm-old"]["out_seconds"] + rows["c-1", "vm-new"]["out_seconds"] == 180


def test_one_outage_with_two_reasons_is_one_failure_with_the_better_reason() -> None:
    events = read_history(T0, END, database()).events
    (failure,) = failures_of([event for event in events if event.node == "c-1"])
    assert (failure.fault, failure.end and failure.end - failure.start) == ("gpu_count", 190)
    assert failures_of([event for event in events if event.node in ("c-3", "c-4")]) == []


@pytest.mark.parametrize(("number", "low", "high"), [(0, 0.0, 2.3026), (1, 0.0513, 4.7439), (3, 0.8177, 7.7537)])
def test_bounds_are_the_exact_ones_of_the_poisson_distribution(number: int, low: float, high: float) -> None:
    """Garwood's table."""
    assert bounds(number) == pytest.approx((low, high), abs=1e-4)


def test_bounds_of_many_failures_are_close_to_their_number() -> None:
    for number in (500, 1000, 1001, 10**6):
        low, high = bounds(number)
        assert 0.9 * number < low < number < high < 1.1 * number


def test_without_a_failure_there_is_a_lower_bound_only() -> None:
    data = output.as_data(ledger_of(lines([]), ()), output.Rates())
    figures = data["reliability"]["all"]
    assert (figures["failures"], figures["mtbf_s"], figures["mtbf_high_s"], figures["mttr_s"]) == (0, None, None, None)
    assert figures["mtbf_low_s"] == pytest.approx(6 * 600 / 2.3026, abs=0.1)
    assert "MTBF is more than" in output.text(data)


def test_money_is_shown_only_if_each_price_is_known() -> None:
    prices = PriceList("USD", "2026-01-01", sizes={("westeurope", "Standard_ND96asr_v4"): SizePrice(36.0)})
    sizes = dict.fromkeys(("c-0", "c-1", "c-2", "c-3", "c-5"), "Standard_ND96asr_v4")
    data = output.as_data(ledger_of(database()), output.Rates(prices, "westeurope", sizes))
    # c-4 has no machine and no price.
    assert data["buckets"]["lost"]["money"] == pytest.approx(40 * 36 / 3600)
    assert data["costliest_nodes"][0] == {
        "node": "c-1",
        "vm_id": "",
        "out_seconds": 180.0,
        "lost_node_seconds": 40.0,
        "failures": 1,
        "faults": ["gpu_count"],
        "money": pytest.approx(220 * 36 / 3600),
    }
    del sizes["c-5"]
    data = output.as_data(ledger_of(database()), output.Rates(prices, "westeurope", sizes))
    assert data["buckets"]["idle"]["money"] is None
    assert data["buckets"]["lost"]["money"] is not None


def test_metrics_are_the_same_after_a_restart_of_the_exporter() -> None:
    first, second = (output.metrics(output.as_data(ledger_of(database()), output.Rates()), END) for _once in range(2))
    assert first == second
    assert 'hpcai_goodput_node_seconds{bucket="lost"} 40' in first
    assert 'hpcai_goodput_training_ettr_ratio{training="llama",user="alice"}' in first
    names = [line.split()[2] for line in first.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_metrics_name_no_training_where_users_do_not_see_each_others_jobs() -> None:
    shown = output.metrics(output.as_data(ledger_of(database()), output.Rates()), END, hide_users=True)
    assert "alice" not in shown
    assert "llama" not in shown
    assert 'hpcai_goodput_node_seconds{bucket="lost"} 40' in shown


def test_the_page_escapes_reasons() -> None:
    events = ["c-1|2026-01-01T00:01:00|2026-01-01T00:03:00|DOWN|slurm||hpcai: health: <script>: x"]
    shown = output.page(output.as_data(ledger_of(lines([], events), ()), output.Rates()))
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert '<th class="n">node-hours</th>' in shown


def asked() -> gather.LedgerScope:
    """The recorded window."""
    return gather.LedgerScope(T0, END)


def slurmctld(_words: Sequence[str]) -> Result:
    """slurmctld, which knows one node."""
    shown = "NodeName=c-5 State=IDLE AvailableFeatures=nd96asr_v4,a100 ActiveFeatures=nd96asr_v4 "
    return Result((), 0, f"{shown}\n", "")


def test_gathers_nodes_and_their_sizes(tmp_path: pathlib.Path) -> None:
    found, rates = gather.gather(Root(str(tmp_path)), slurmctld, gather.Settings(), asked(), database())
    assert ("c-5", "") in found.totals
    assert rates.sizes == {"c-5": "Standard_ND96asr_v4"}


def test_nodes_with_the_feature_of_spot_machines_cost_the_spot_price(tmp_path: pathlib.Path) -> None:
    def both(_words: Sequence[str]) -> Result:
        shown = [f"NodeName={name} State=IDLE AvailableFeatures={kind}" for name, kind in features.items()]
        return Result((), 0, "\n".join(shown), "")

    features = {"c-0": "nd96asr_v4,spot", "c-1": "nd96asr_v4,regular"}
    found = {"region": "westeurope", "size": "Standard_ND96asr_v4", "hourly": 32.77, "spot_hourly": 9.83}
    prices = {"schema": 1, "currency": "USD", "date": "2026-11-20", "sizes": [found]}
    (tmp_path / "prices.json").write_text(json.dumps(prices), encoding="utf-8")
    settings = gather.Settings(prices="/prices.json", region="westeurope")
    _ledger, rates = gather.gather(Root(str(tmp_path)), both, settings, asked(), database())
    assert (rates.of("c-0"), rates.of("c-1")) == (9.83, 32.77)


def test_a_run_that_began_before_the_window_is_a_run_of_its_training() -> None:
    comment = "hpcai:training=x"
    runs = [run_line(7, "NODE_FAIL", -600, 60, comment=comment), run_line(7, "RUNNING", 100, None, comment=comment)]
    work = ledger_of(lines(runs), nodes=("c-0",)).work["x", "alice"]
    assert (work.runs, work.interruptions) == (2, 1)


def test_without_slurmctld_the_ledger_is_computed_and_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    def away(words: Sequence[str]) -> Result:
        return Result(tuple(words), 1, "", "Unable to contact slurm controller")

    found, _rates = gather.gather(Root(str(tmp_path)), away, gather.Settings(), asked(), database())
    assert found.seconds("down") == 60
    assert "slurmctld does not answer" in found.notes[0]


def test_without_slurmdbd_there_is_an_error_and_no_ledger(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CommandFailed, match="slurmdbd"):
        gather.gather(Root(str(tmp_path)), slurmctld, gather.Settings(), asked(), gone)


def test_jobs_can_be_given_to_a_training_without_a_comment(tmp_path: pathlib.Path) -> None:
    wanted = gather.LedgerScope(T0, END, "gpt", (12,))
    found, _rates = gather.gather(Root(str(tmp_path)), slurmctld, gather.Settings(), wanted, database())
    assert set(found.work) == {("gpt", "bob")}
    assert found.work["gpt", "bob"].nodes == 1
