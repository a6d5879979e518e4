# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes a benchmark uses, how its runs are grouped, and what is kept and compared over time."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.bench import catalog, checks, results, run, storage
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.benchmark import Options
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.catalog import CATALOGUE, NAMES
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.on_node import answer_line
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog as health_catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    Answer,
    CannotMeasure,
    Context,
    Finding,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep import must_be_idle
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.measure import Machine
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.job_control import Job
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import parse_nodes

RECORDED = Path(__file__).parent / "recorded"
ND = Options(find_size("nd96asr_v4"), 8)
FOUR = ("n-0", "n-1", "n-2", "n-3")


def nodes_of(words: Sequence[str]) -> list[str]:
    """The nodes of a command."""
    return next(word for word in words if word.startswith("--nodelist=")).partition("=")[2].split(",")


class Slurm:
    """A stand-in for salloc: each node answers as it is configured to."""

    def __init__(self, name: str, **values: float) -> None:
        self.name, self.values = name, values
        self.commands: list[list[str]] = []

    def __call__(self, words: Sequence[str], timeout_s: float) -> Result:
        self.commands.append(list(words))
        lines = []
        for node in nodes_of(words):
            value = self.values.get(node.replace("-", "_"), 10.0)
            readings = tuple(Reading(way, value, "GB/s") for way in ("write", "read"))
            lines.append(answer_line(node, Answer(f"{value}", readings)))
        return Result(tuple(words), 0, "\n".join(["a note of the program", *lines]), "")


def test_the_catalogue_is_complete_and_each_benchmark_is_explained() -> None:
    assert len(set(NAMES)) == len(NAMES) == 13
    for benchmark in CATALOGUE:
        assert benchmark.explain.endswith((".", "GB/s)."))
        assert benchmark.limit_s > 0
        assert benchmark.scope in ("each", "pairs", "together")
        words = run.command(("n-0", "n-1"), benchmark.step(benchmark, ND, ("n-0", "n-1")), ND, benchmark.limit_s)
        # A signal during the first moments of coreutils' timeout would end only that, and not the job.
        assert words[0] == "salloc"
    with pytest.raises(catalog.NoSuchBenchmark, match="the benchmarks are stream"):
        catalog.select(["nonsense"])


SHOWN = """\
NodeName=n-0 CPUTot=1 State=IDLE Weight=1
NodeName=n-1 CPUTot=1 State=IDLE Weight=1
NodeName=n-2 CPUTot=1 State=MIXED Weight=1
NodeName=n-3 CPUTot=1 State=IDLE+DRAIN Weight=1 Reason=hpcai: health: gpu_count [root@2026-01-01T00:00:00]
"""


def test_only_idle_nodes_are_used_and_no_job_is_disturbed() -> None:
    known = parse_nodes(SHOWN)
    free, out = run.idle_nodes(known, [Job("7", "alice", "RUNNING", ("n-2",))], (*FOUR, "n-9"))
    assert free == ("n-0", "n-1")
    assert out["n-2"] == "jobs run there: 7 (alice, running)"
    assert "no job starts there" in out["n-3"]
    assert out["n-9"] == "slurmctld does not know it"
    # A job that has ended does not keep its nodes from the next run, which waits for the epilog.
    assert run.idle_nodes(known, [Job("8", "alice", "COMPLETING", ("n-0",))], ("n-0", "n-1")) == (("n-0", "n-1"), {})
    one, rest = run.idle_nodes(known, [], ("n-0", "n-1"), 1)
    assert (one, rest) == (("n-0",), {"n-1": "only 1 nodes were asked for"})
    with pytest.raises(run.NoNodes, match="2 of 3 nodes are idle"):
        run.idle_nodes(known, [], FOUR, 3)
    with pytest.raises(run.NoNodes, match=r"0 of 1 nodes are idle\. n-9: slurmctld does not know it"):
        run.idle_nodes(known, [], ("n-9",))


def test_runs_are_grouped_so_that_no_node_is_in_two_at_once() -> None:
    scratch, latency, reduce = (catalog.select([name])[0] for name in ("scratch", "mpi_latency", "nccl_allreduce"))
    assert run.groups_of(scratch, FOUR, False) == [[("n-0",), ("n-1",), ("n-2",), ("n-3",)]]
    assert run.groups_of(latency, FOUR, False) == [[("n-0", "n-1"), ("n-2", "n-3")]]
    assert run.groups_of(latency, FOUR[:3], False) == [[("n-0", "n-1")], [("n-2", "n-0")]]
    assert run.groups_of(latency, FOUR[:1], False) == []
    assert run.groups_of(reduce, FOUR, False) == [[FOUR]]
    assert run.groups_of(reduce, (*FOUR, "n-4", "n-5"), True) == [[FOUR[:2]], [FOUR], [(*FOUR, "n-4", "n-5")]]
    assert run.groups_of(reduce, FOUR[:1], True) == [[("n-0",)]]


def test_each_node_has_its_own_verdict() -> None:
    slurm = Slurm("scratch", n_2=3.0)
    done = run.run_benchmark(storage.SCRATCH, FOUR, ND, slurm, clock=lambda: 1000.0)
    assert [one.result.verdict for one in done] == ["pass", "pass", "warn", "pass"]
    assert "at least 7.2" in done[2].result.summary
    assert all(command[-3:] == ["bench", "measure", "scratch"] for command in slurm.commands)
    assert done[2].words.startswith("scratch: warn: n-2: the rate at which the scratch is")
    # A benchmark asks for nothing that would take the node out of scheduling.
    assert {one.result.action for one in done} <= {"observe", "nothing"}


def test_the_nodes_of_a_shared_file_system_are_measured_together() -> None:
    done = run.run_benchmark(storage.BEEOND, FOUR, ND, Slurm("beeond", n_0=1.0, n_1=1.0, n_2=2.0, n_3=2.0))
    (one,) = done
    assert one.result.verdict == "warn"
    assert {reading.name: reading.value for reading in one.result.answer.readings} == {
        "beeond_read": 1.5,
        "beeond_read_total": 6.0,
        "beeond_write": 1.5,
        "beeond_write_total": 6.0,
    }
    assert one.result.answer.limit.startswith("reading: at least 2.5 GB/s per node, which CosmoFlow reads")


def test_a_limit_of_ones_own_is_shown_with_the_result_of_a_shared_file_system() -> None:
    own = replace(ND, limits={"beeond_read": 9.0, "beeond_write": 1.0})
    (one,) = run.run_benchmark(storage.BEEOND, FOUR, own, Slurm("beeond", n_0=2.0, n_1=2.0, n_2=2.0, n_3=2.0))
    assert one.result.verdict == "fail"
    limit = one.result.answer.limit
    assert limit.startswith("reading: at least 9 ")
    assert "; writing: at least 1 " in limit
    assert "CosmoFlow" not in limit


def test_a_node_that_cannot_measure_does_not_end_the_others() -> None:
    slurm = Slurm("beeond")
    run.run_benchmark(storage.BEEOND, FOUR, ND, slurm)
    (words,) = slurm.commands
    # The last one of an option counts.
    assert [word for word in words if word.startswith("--kill-on-bad-exit")][-1] == "--kill-on-bad-exit=0"


def test_a_node_that_does_not_answer_is_unknown() -> None:
    done = run.run_benchmark(storage.BEEOND, FOUR, ND, lambda words, _s: Result(tuple(words), 0, "nothing", ""))
    assert [one.result.verdict for one in done] == ["unknown"]
    assert "0 of 4 nodes answered" in done[0].result.summary
    broken = run.run_benchmark(
        storage.SCRATCH, FOUR[:1], ND, lambda words, _s: Result(tuple(words), 0, "hpcai-bench: {", "")
    )
    assert broken[0].result.verdict == "unknown"


def test_a_check_that_fails_asks_for_no_repair() -> None:
    answer = Answer(findings=(Finding("fail", "slow", "0001:00:00.0", action="replace", latch=True),))
    line = answer_line("n-0", answer)
    measured = checks.parse(checks.GEMM, ND, ("n-0",), Result(("x",), 0, line, ""))
    (finding,) = measured.answer.findings
    assert (finding.verdict, finding.action, finding.latch) == ("fail", "observe", False)


def nccl(rate: str, nodes: int) -> str:
    """The output of a run over so many nodes of one GPU each."""
    text = (RECORDED / "nccl_info.txt").read_text(encoding="utf-8")
    ranks = "".join(f"#  Rank {n:2} Group  0 Pid 1 on n-{n} device  0 [0001:00:00] NVIDIA A100\n" for n in range(nodes))
    lines = [line for line in text.splitlines() if not line.startswith("#  Rank")]
    return "\n".join(lines).replace("186.98", rate).replace("187.01", rate) + "\n" + ranks


def test_the_scaling_efficiency_is_judged_on_the_largest_run() -> None:
    rates = {2: "190.0", 4: "150.0"}

    def salloc(words: Sequence[str], _s: float) -> Result:
        count = len(nodes_of(words))
        return Result(tuple(words), 0, nccl(rates[count], count), "")

    (benchmark,) = catalog.select(["nccl_allreduce"])
    done = run.run_benchmark(benchmark, FOUR, replace(ND, gpus=1), salloc, scale=True)
    assert [(len(one.nodes), one.result.verdict) for one in done] == [(2, "pass"), (4, "warn")]
    assert any("keep 79%" in finding.summary for finding in done[1].result.answer.findings)
    assert "over 90 %" in done[1].result.answer.limit
    documents = run.documents(run.Outcome(tuple(done)), "Standard_ND96asr_v4", "0.2.0")
    assert list(documents) == list(FOUR)
    # A node of both runs shows the one over most nodes.
    assert [len(document["checks"]) for document in documents.values()] == [1, 1, 1, 1]
    assert documents["n-0"]["checks"][0]["verdict"] == "warn"
    assert (documents["n-0"]["tier"], documents["n-0"]["schema"]) == ("benchmark", 1)


def test_a_node_of_several_runs_shows_the_worst_one() -> None:
    """A failure over two nodes must not disappear behind a good run over four."""

    def salloc(words: Sequence[str], _s: float) -> Result:
        count = len(nodes_of(words))
        text = nccl("190.0", count)
        return Result(tuple(words), 0, text.replace("      0\n", "     64\n", 1) if count == 2 else text, "")

    (benchmark,) = catalog.select(["nccl_allreduce"])
    done = run.run_benchmark(benchmark, FOUR, replace(ND, gpus=1), salloc, scale=True)
    documents = run.documents(run.Outcome(tuple(done)), "Standard_ND96asr_v4", "0.2.0")
    assert [one["verdict"] for one in documents.values()] == ["fail", "fail", "pass", "pass"]


def runs(values: Sequence[float]) -> list[run.JudgedRun]:
    """Runs of one node, one after the other."""
    return [
        run.run_benchmark(storage.SCRATCH, ("n-0",), ND, Slurm("scratch", n_0=value), clock=lambda: 1000.0)[0]
        for value in values
    ]


def test_a_value_that_is_worse_than_before_warns(tmp_path: Path) -> None:
    root, folder = Root("/"), str(tmp_path / "results")
    earlier = runs([10.0, 10.2, 9.9])
    for one in earlier:
        results.keep(root, folder, [one])
    kept = results.read(root, folder, "n-0")
    assert [one.readings[0].value for one in kept] == [10.0, 10.2, 9.9]
    (worse,) = runs([8.5])
    found = results.trend(worse, kept)
    assert found is not None
    assert "scratch_write is 8.5 GB/s, 15% worse than the median of the last 3 runs (10)" in found.summary
    assert run.with_finding(worse, found, storage.SCRATCH).result.verdict == "warn"
    assert results.trend(runs([9.5])[0], kept) is None
    assert results.trend(worse, kept[:2]) is None
    # Runs over another number of nodes are not comparable.
    assert results.trend(worse, [replace(one, nodes=2) for one in kept]) is None


def test_values_of_different_programs_are_not_compared(tmp_path: Path) -> None:
    """OSU's programs and NetPIPE measure the latency of MPI differently."""

    def by(tool: str, done: run.JudgedRun) -> run.JudgedRun:
        return replace(done, result=replace(done.result, details={"tool": tool}))

    root, folder = Root("/"), str(tmp_path / "results")
    for one in runs([10.0, 10.2, 9.9]):
        results.keep(root, folder, [by("OSU", one)])
    kept = results.read(root, folder, "n-0")
    (worse,) = runs([5.0])
    assert results.trend(by("OSU", worse), kept) is not None
    assert results.trend(by("NetPIPE", worse), kept) is None


def test_results_survive_a_broken_line_and_do_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MOST", 3)
    root, folder = Root("/"), str(tmp_path)
    (tmp_path / "n-0.jsonl").write_text('broken\n{"schema": 9}\n', encoding="utf-8")
    results.keep(root, folder, runs([10.0, 11.0]))
    assert [one.readings[0].value for one in results.read(root, folder, "n-0")] == [10.0, 11.0]
    results.keep(root, folder, runs([12.0, 13.0]))
    assert len((tmp_path / "n-0.jsonl").read_text().splitlines()) == 3
    assert json.loads((tmp_path / "n-0.jsonl").read_text().splitlines()[-1])["time"] == "1970-01-01T00:16:40Z"


def test_a_name_that_is_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the name of a node"):
        results.read(Root("/"), str(tmp_path), "../../etc/passwd")


def test_fio_runs_in_a_folder_that_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.os, "geteuid", lambda: 1000)
    text = (RECORDED / "fio_read.json").read_text(encoding="utf-8")
    both = json.loads(text)
    both["jobs"][0]["write"] = both["jobs"][0]["read"]
    commands: list[Sequence[str]] = []

    def fio(words: Sequence[str], _s: float) -> Result:
        commands.append(words)
        assert len(os.listdir(tmp_path / "data")) == 1
        return Result(tuple(words), 0, json.dumps(both), "")

    monkeypatch.setattr(storage, "_FIO", ("/bin/sh",))
    (tmp_path / "data").mkdir()
    answer = storage.measure_here("scratch", Root("/"), fio, {"folder": str(tmp_path / "data"), "size": "16M"})
    assert [(one.name, one.value) for one in answer.readings] == [("write", 1.249), ("read", 1.249)]
    # Blocks that are only allocated are read faster than any disk.
    assert "--fallocate=none" in commands[0]
    assert [word for word in commands[0] if word.startswith(("--rw", "--size", "--direct="))] == [
        "--rw=write",
        "--size=16M",
        "--direct=1",
    ]
    assert os.listdir(tmp_path / "data") == []


def test_the_scratch_is_not_measured_as_root_nor_without_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.os, "geteuid", lambda: 0)
    with pytest.raises(CannotMeasure, match="does not run as root"):
        storage.measure_here("scratch", Root("/"), lambda words, _s: Result(tuple(words), 0, "", ""), {})
    monkeypatch.setattr(storage.os, "geteuid", lambda: 1000)
    with pytest.raises(CannotMeasure, match="fio is not installed"):
        storage.measure_here("scratch", Root(str(tmp_path)), lambda words, _s: Result(tuple(words), 0, "", ""), {})
    with pytest.raises(CannotMeasure, match="is not mounted"):
        storage.measure_here("beeond", Root("/"), lambda words, _s: Result(tuple(words), 0, "", ""), {})


def test_a_check_is_measured_in_a_job_with_the_users_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Context] = []

    def played(context: Context) -> Answer:
        must_be_idle(context, check)
        seen.append(context)
        return Answer("good", (Reading("gemm", 1.0, "TFLOP/s"),))

    check = replace(health_catalog.load("gemm"), measure=played)
    monkeypatch.setattr(checks.catalog, "load", lambda _name: check)
    # The site's settings for its own checks do not turn a benchmark off, nor make it wait for an idle node.
    settings = Settings(
        off=("gemm",), limits={"gemm": 100.0, "cpu_stream": 7.0}, options={"gemm": {"while_busy": False}}
    )
    machine = Machine(Root("/"), lambda words, _s: Result(tuple(words), 0, "", ""), find_size("nd96asr_v4"), settings)
    assert checks.measure_here("gemm", machine, {"gemm": 300.0}).good == "good"
    (context,) = seen
    assert dict(context.settings.limits) == {"gemm": 300.0, "cpu_stream": 7.0}
    assert context.option(check, "while_busy") is True
