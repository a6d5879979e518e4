# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A large cluster's ledger: seconds, and bounded memory. The limits are those of the documentation."""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import accounting, checkpoints, compute, parts
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import JobRun, Skipped
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.buckets import rank_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Ledger, Sources
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.machines import machines_of

from .playing import T0, ledger_of, lines, run_line

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]


DAY = 86400.0
NODES = ("c-0", "c-1", "c-2", "c-3")


def ledger_of_runs(of: Callable[[float, float], Iterator[JobRun]], days: float) -> Ledger:
    """The ledger of days from T0 on.

    :param of: returns runs that overlap a time.
    """

    def read_runs(since: float, until: float, handle: Callable[[JobRun], None]) -> Skipped:
        for run in of(since, until):
            handle(run)
        return Skipped()

    return compute.compute(Sources(NODES, (), read_runs), T0, T0 + days * DAY)


def short_runs(number: int, length_s: float = 20.0) -> Callable[[float, float], Iterator[JobRun]]:
    """So many runs in each day, each of a job and a training of its own, which noted a checkpoint."""

    def of(since: float, until: float) -> Iterator[JobRun]:
        apart = DAY / number
        for job in range(max(int((since - T0 - length_s) / apart), 0), int((until - T0) / apart) + 1):
            start = T0 + job * apart
            words = (f"training=t{job}", f"saved=0.7.{int(start * 1000) + 5000}")
            texts = ("1:0", NODES[job % 4], "gpu", "alice", f"t{job}", words)
            yield JobRun(job, "FAILED", start, start, start, start, start + length_s, *texts)

    return of


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that few runs exceed."""
    monkeypatch.setattr(parts, "MOST_RUNS", 500)
    monkeypatch.setattr(compute, "_MOST_REMEMBERED", 500)
    monkeypatch.setattr(compute, "_MOST_NAMES", 50)


def most_memory(number: int) -> int:
    """The most memory for the ledger of a day with so many runs, in bytes."""
    tracemalloc.start()
    try:
        found = ledger_of_runs(short_runs(number), 1)
        assert found.runs == number
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("small_limits")
def test_memory_does_not_grow_with_the_number_of_runs() -> None:
    """Else a user with many short jobs would end the ledger of everybody, because its unit has a limit."""
    few, many = most_memory(1_500), most_memory(9_000)
    # 500 runs at a time, 500 remembered ones, and 50 trainings and jobs.
    assert many < 3 << 20
    assert many < few * 1.2


@pytest.mark.usefixtures("small_limits")
def test_further_trainings_of_a_user_are_added_up() -> None:
    found = ledger_of_runs(short_runs(1000), 1)
    assert len(found.work) == 51
    assert len(found.jobs) == 50
    others = found.work["other trainings", "alice"]
    assert others.runs == 950
    # A quarter of each run is kept. The runs may have been side by side, so the ratio of all is unknown.
    assert others.seconds["kept"] > 0
    assert others.ettr is None
    assert found.work["t0", "alice"].ettr == pytest.approx(0.25)
    # No comment can add to it.
    (run,) = runs_of(run_line(1, "FAILED", 0, 10, comment="hpcai:training=other trainings"))
    assert run.training == "other"
    assert sum(work.runs for work in found.work.values()) == found.runs == 1000
    assert sum(work.seconds["lost"] for work in found.work.values()) == found.seconds("lost") == 15_000


def requeued_runs(numbers: random.Random) -> Sequence[str]:
    """Lines of jobs of all lengths; some start again, at once or hours later."""
    made = []
    for job in range(1, 200):
        start = submit = numbers.randrange(int(2 * DAY))
        for restart in range(numbers.choice((1, 1, 1, 2, 3))):
            end = start + numbers.choice((30, 300, 5000, 40_000))
            note = f"hpcai:training=t{job % 7},hpcai:saved={restart}.5.{int((T0 + start + 20) * 1000)}"
            state = numbers.choice(("NODE_FAIL", "FAILED", "COMPLETED"))
            nodes = numbers.choice(("c-0", "c-[1-2]", "c-3", "c-[0-3]"))
            made.append(run_line(job, state, start, end, nodes, submit=submit, comment=numbers.choice(("", note))))
            submit, start = end, end + numbers.choice((1, 60, 3000, 30_000))
    return made


@pytest.mark.parametrize("seed", range(2))
def test_smaller_parts_have_the_same_result(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    ask = lines(requeued_runs(random.Random(seed)))
    read: list[float] = []
    real = parts.read_parts

    def note(
        reads: parts.ReadRuns, since: float, until: float, end: float, hosts: parts.Hosts
    ) -> Iterator[parts.WindowPart]:
        read.append(until - since)
        return real(reads, since, until, end, hosts)

    monkeypatch.setattr(parts, "read_parts", note)
    whole = ledger_of(ask, (), until=T0 + 4 * DAY, nodes=NODES)
    assert read == []
    monkeypatch.setattr(parts, "MOST_RUNS", 40)
    divided = ledger_of(ask, (), until=T0 + 4 * DAY, nodes=NODES)
    assert min(read) < DAY / 8
    assert not [note for note in divided.notes if "at a time" in note]
    assert divided.totals.keys() == whole.totals.keys()
    for key, totals in whole.totals.items():
        assert divided.totals[key] == pytest.approx(totals)
    for name, work in whole.work.items():
        shown, wanted = (asdict(one) for one in (divided.work[name], work))
        assert shown.pop("seconds") == pytest.approx(wanted.pop("seconds"))
        assert shown == wanted
    assert (divided.runs, divided.requeues, divided.lost) == (whole.runs, whole.requeues, whole.lost)


def test_too_many_runs_at_one_time_are_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_RUNS", 10)
    at_once = [run_line(job, "COMPLETED", 100, 110) for job in range(1, 31)]
    found = ledger_of(lines(at_once), (), nodes=("c-0",))
    assert found.runs == 10
    assert "20 records were skipped: runs of alice, because there were more than 10 at a time." in found.notes
    assert found.seconds("unknown") == 10


def test_a_user_with_too_many_runs_removes_none_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which runs remained depended on the order of sacct only, so the nodes of other users' jobs looked idle."""
    monkeypatch.setattr(parts, "MOST_RUNS", 10)
    comment = ",".join(f"hpcai:x={number}" for number in range(9))
    hers = [run_line(job, "COMPLETED", 100, 110, comment=comment) for job in range(1, 31)]
    his = [run_line(job, "COMPLETED", 100, 110, "c-1", user="bob") for job in (31, 32)]
    found = ledger_of(lines([*hers, *his]), (), nodes=NODES)
    assert sum(found.totals["c-1", ""]) == 600
    assert found.totals["c-1", ""][rank_of("unknown")] == 10
    # Two of hers remain, each of which counts as three.
    assert found.runs == 4
    assert found.notes == ["28 records were skipped: runs of alice, because there were more than 10 at a time."]


def test_the_number_of_calls_of_sacct_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a user with jobs that run at the same time uses up the time of the service, and there are no figures."""
    monkeypatch.setattr(parts, "MOST_RUNS", 10)
    ask = lines([run_line(job, "RUNNING", 0, None) for job in range(1, 31)])
    calls: list[Sequence[str]] = []

    def count(words: Sequence[str], handle: Callable[[str], None]) -> None:
        calls.append(words)
        ask(words, handle)

    found = ledger_of(count, (), until=T0 + DAY, nodes=NODES)
    assert found.runs == 10
    assert 32 <= len(calls) <= 64
    assert len(found.notes) == 1


def test_runs_on_many_nodes_and_with_long_comments_count_as_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_RUNS", 10)
    comment = ",".join(f"hpcai:x{chr(97 + number % 26)}={number}" for number in range(500))
    (run,) = runs_of(run_line(1, "FAILED", 0, 10, comment=comment))
    assert len(run.words) == 100
    for one in (run_line(7, "FAILED", 100, 110, "c-[0-700]"), run_line(7, "FAILED", 100, 110, comment=comment)):
        assert ledger_of(lines([one]), (), nodes=("c-0",)).runs == 0


def test_times_of_a_machine_are_joined() -> None:
    """Else each part of each day would add one for each node."""
    machines = machines_of([{"time": T0 - 1, "node": "c-0", "vm_id": "a"}])
    found = ledger_of(lines([run_line(1, "FAILED", 0, 10)]), (), machines, T0 + 4 * DAY, ("c-0",))
    assert found.machine_times == {("c-0", "a"): [(T0, T0 + 4 * DAY)]}


def runs_of(*shown: str) -> list[JobRun]:
    """The runs in lines of sacct."""
    found: list[JobRun] = []
    accounting.read_runs(T0, T0 + DAY, found.append, lines(shown))
    return found


def test_notes_of_a_job_about_checkpoints_are_limited_and_forgotten_with_it() -> None:
    index = checkpoints.Index()
    for second in range(300):
        index.add("000000000007-7.0-w1", T0 + second)
    index.add("000000000007-8.0-w1", T0)
    assert [when - T0 for when, _step in index.noted[7]] == list(range(200, 300))
    index.keep_noted({8: None})
    assert list(index.noted) == [8]


def test_runs_have_their_texts_in_common() -> None:
    """Each run has five texts, which take more memory than the run itself."""
    one, two = runs_of(*(run_line(job, "FAILED", 0, 10, "c-[0-3]", comment="hpcai:training=llama") for job in (1, 2)))
    for name in ("state", "exit", "nodes", "partition", "user", "training"):
        assert getattr(one, name) is getattr(two, name)


def test_texts_of_users_are_not_kept_for_ever() -> None:
    """Python 3.12.3 frees no interned text, so each training of a user would stay in the memory of a service."""
    (run,) = runs_of(run_line(1, "FAILED", 0, 10, "c-[0,2]", user="user-one", comment="hpcai:training=only-here"))
    for text in (run.training, run.user, run.nodes):
        same = "".join(list(text))
        assert same is not text
        # It is another object if the text was interned before.
        assert sys.intern(same) is same


def kept_bytes(act: Callable[[], object]) -> int:
    """The memory that is still in use after an action."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_expanded_lists_of_nodes_take_a_limited_amount_of_memory() -> None:
    hosts = parts.Hosts(most=10_000)

    def expand() -> None:
        for number in range(100):
            assert len(hosts(f"c-[{number}-{number + 1999}]")) == 2000

    # Five lists of 2000 names; 100 would take 12 MiB.
    assert kept_bytes(expand) < 1 << 20


def test_texts_in_common_take_a_limited_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "_MOST_TEXTS", 100)
    reader = accounting.RunReader("@", lambda _run: None, Skipped())

    def read() -> None:
        for number in range(2000):
            reader.line(run_line(number, "FAILED", 0, 10, comment=f"hpcai:training=t{number}"))

    assert kept_bytes(read) < 100_000


@pytest.mark.thorough
def test_a_hundred_thousand_runs_take_seconds_and_bounded_memory() -> None:
    """In a process of its own, because the memory of this one has the tests."""
    path = os.pathsep.join(str(REPOSITORY / name) for name in ("tests", ".collections"))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ledger", "json"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    print(found)
    assert (found["runs"], found["nodes"]) == (100_000, 600)
    assert found["difference_s"] < 1
    assert found["memory_mib"] < 256
    # CPU time: other work on the machine does not change it much.
    assert found["page_cpu_seconds"] < 5
    assert found["cpu_seconds"] < 10
