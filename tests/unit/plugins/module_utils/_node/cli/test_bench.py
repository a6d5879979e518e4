# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode bench, from its words to its exit status, on a stand-in for Slurm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.benchmark import details_lines
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.on_node import answer_line
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import bench
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN, USAGE
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer, Finding, Reading
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result, wait_until

SHOWN = "".join(f"NodeName=n-{number} CPUTot=1 State=IDLE Weight=1\n" for number in range(3))


class Slurm:
    """Three idle nodes, on which each check answers the same."""

    def __init__(self) -> None:
        self.answer = Answer("good", (Reading("gemm", 250.0, "TFLOP/s", "0001:00:00.0"),))
        self.jobs = ""
        self.started: list[list[str]] = []
        self.text = ""

    def run(self, words: Sequence[str], timeout_s: float = 120) -> Result:
        """Replace the command runner."""
        return Result(tuple(words), 0, SHOWN if words[0] == "scontrol" else self.jobs, "")

    def stop(self) -> None:
        """End nothing, because each job has ended at once."""

    def __call__(self, words: Sequence[str], timeout_s: float) -> Result:
        """Run a job."""
        self.started.append(list(words))
        node = next(word for word in words if word.startswith("--nodelist=")).partition("=")[2]
        return Result(tuple(words), 0, self.text or answer_line(node, self.answer), "")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """The stand-in."""
    played = Slurm()
    monkeypatch.setattr(bench, "run", played.run)
    monkeypatch.setattr(bench, "Stoppable", lambda: played)
    return played


def hpcnode(folder: Path, *words: str) -> int:
    """The exit status of hpcnode bench, with a folder for results."""
    return main(["bench", *words, "--results", str(folder)], (bench.COMMAND,))


def test_a_benchmark_runs_on_idle_nodes_and_its_results_are_kept(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.jobs = "7|alice|RUNNING|n-1\n"
    assert hpcnode(tmp_path, "run", "gemm", "--nodes", "n-[0-2]", "--json") == GOOD
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert shown["verdict"] == "pass"
    assert sorted(shown["nodes"]) == ["n-0", "n-2"]
    assert shown["left_out"] == {"n-1": "jobs run there: 7 (alice, running)"}
    assert shown["nodes"]["n-0"]["checks"][0]["readings"][0]["value"] == 250.0
    assert len(slurm.started) == 2
    assert hpcnode(tmp_path, "results", "n-0") == GOOD
    assert "gemm: pass: gemm 250 TFLOP/s" in capsys.readouterr().out
    assert hpcnode(tmp_path, "results", "n-1") == UNKNOWN


def test_the_environment_in_force_the_curve_and_the_scaling_are_printed(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = Path(__file__).parents[1] / "bench/recorded/nccl_info.txt"
    slurm.text = recorded.read_text(encoding="utf-8")
    words = ("nccl_allreduce", "--nodes", "n-[0-1]", "--vm-size", "nd96asr_v4", "--gpus", "2")
    hpcnode(tmp_path, *words)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "topology file: /etc/hpcai/nccl-topo.xml" in lines
    assert "interface: eth0" in lines
    assert [line for line in lines if line.startswith("8589934592 B 186.995 GB/s, expected about ")]
    scaling = {"scaling": [{"nodes": 4, "bus_gbps": 180.0, "efficiency": 0.9}]}
    assert list(details_lines(scaling)) == ["4 nodes: 180 GB/s, efficiency 90%"]


def test_results_that_cannot_be_kept_are_shown(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert hpcnode(tmp_path / "file", "gemm", "--nodes", "n-0", "--json") == GOOD
    shown = json.loads(capsys.readouterr().out)
    assert shown["nodes"]["n-0"]["checks"][0]["readings"][0]["value"] == 250.0
    assert "the results were not kept: " in shown["not_kept"]


def test_a_limit_of_ones_own_reaches_the_node(slurm: Slurm, tmp_path: Path) -> None:
    hpcnode(tmp_path, "gemm", "--nodes", "n-0", "--limit", "gemm=300", "--limit", "hpl=90")
    (words,) = slurm.started
    assert words[-5:] == ["bench", "measure", "gemm", "--limit", "gemm=300.0"]


def test_the_name_alone_is_enough(slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hpcnode(tmp_path, "gemm", "--nodes", "n-[0-2]", "--idle", "1") == GOOD
    shown = capsys.readouterr().out
    assert "gemm: pass: n-0: good" in shown
    assert "    limit: none is known for this VM size (--limit gemm=VALUE sets one)" in shown
    slurm.answer = Answer("good", (Reading("gemm", 250.0, "TFLOP/s", "0001:00:00.0"),), limit="at least 9 TFLOP/s")
    hpcnode(tmp_path, "gemm", "--nodes", "n-[0-2]", "--idle", "1")
    assert "    limit: at least 9 TFLOP/s\n" in capsys.readouterr().out


@pytest.mark.parametrize(("verdict", "status"), [("fail", BAD), ("warn", GOOD), ("unknown", UNKNOWN)])
def test_the_exit_status_is_that_of_the_worst_run(slurm: Slurm, tmp_path: Path, verdict: str, status: int) -> None:
    slurm.answer = Answer("", (Reading("gemm", 1.0, "TFLOP/s"),), (Finding(verdict, "slow"),))
    assert hpcnode(tmp_path, "gemm", "--nodes", "n-0") == status


def test_a_size_that_lacks_what_is_measured_skips(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "nccl_allreduce", "gemm", "--nodes", "n-0", "--vm-size", "nc24ads_a100_v4"]
    assert hpcnode(tmp_path, *words) == GOOD
    assert "nccl_allreduce: skipped: Standard_NC24ads_A100_v4 has only one GPU" in capsys.readouterr().out
    assert hpcnode(tmp_path, "nccl_allreduce", "--nodes", "n-0") == UNKNOWN
    assert hpcnode(tmp_path, "mpi_latency", "--nodes", "n-0") == UNKNOWN


def test_without_idle_nodes_nothing_runs(slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slurm.jobs = "7|alice|RUNNING|n-0\n"
    assert hpcnode(tmp_path, "gemm", "--nodes", "n-0") == UNKNOWN
    assert "0 of 1 nodes are idle. n-0: jobs run there: 7" in capsys.readouterr().out
    assert slurm.started == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "nonsense", "--nodes", "n-0"], "there is no benchmark nonsense"),
        (["gemm"], "--nodes"),
        (["gemm", "--nodes", "n-[0"], "malformed"),
        (["gemm", "--nodes", "n-0", "--set", "order=1"], "--set order: the options are none"),
        (["hpl", "--nodes", "n-0", "--set", "order"], "give NAME=VALUE"),
        (["hpl", "--nodes", "n-0", "--set", "ranks=x"], "--set ranks=x: give a whole number above 0"),
        (["nccl_allreduce", "--nodes", "n-0", "--set", "to=0.5G"], "'0.5G' is not a message size"),
        (["nccl_allreduce", "--nodes", "n-0", "--set", "iterations=0"], "give a whole number above 0"),
        (["scratch", "--nodes", "n-0", "--set", "seconds=20s"], "give a whole number above 0"),
        (["scratch", "--nodes", "n-0", "--set", "seconds=600"], "give at most 120 seconds"),
        (["scratch", "--nodes", "n-0", "--set", "size=2 GB"], "give a size such as 4M or 2G"),
        (["beeond", "--nodes", "n-0", "--set", "direct=yes"], "give 0 or 1"),
        (["scratch", "--nodes", "n-0", "--set", "folder=data"], "give an absolute path"),
        (["gemm", "--nodes", "n-0", "--limit", "speed=1"], "there is no limit speed"),
        (["gemm", "--nodes", "n-0", "--limit", "gemm=-1"], "give a number above 0"),
        (["gemm", "--nodes", "n-0", "--limit", "gemm=fast"], "give a number above 0"),
        (["gemm", "--nodes", "n-0", "--gpus", "-1"], "must not be negative"),
        (["results", "../x"], "is not the name of a node"),
    ],
)
def test_wrong_words_start_no_job(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert hpcnode(tmp_path, *words) == USAGE
    assert said in capsys.readouterr().err
    assert slurm.started == []


def test_the_list_shows_the_limits_of_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list", "--vm-size", "nd96asr_v4", "--json"], (bench.COMMAND,)) == GOOD
    shown = {one["name"]: one for one in json.loads(capsys.readouterr().out)["benchmarks"]}
    assert "at least 85.5 TFLOP/s" in shown["hpl"]["limits"]["hpl"]
    assert "at least 175 GB/s" in shown["nccl_allreduce"]["limits"]["nccl_allreduce_internode"]
    assert shown["nccl_alltoall"]["limits"] == {"nccl_alltoall": ""}


def test_a_node_measures_and_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n-0")
    assert main(["bench", "measure", "beeond"], (bench.COMMAND,)) == UNKNOWN
    line = capsys.readouterr().out
    assert line.startswith('hpcai-bench: {"node": "n-0", "answer": {')
    assert line.count("\n") == 1
    assert "is not mounted" in line


SALLOC = """#!/bin/sh
# The shell reports the end of sleep, and the reader of its output may have been killed.
exec 2>/dev/null
trap 'echo $$ >>{folder}/ended; exit 1' TERM
echo $$ >>{folder}/started
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("signal_name", ["INT", "TERM", "HUP", "KILL"])
def test_an_interruption_ends_the_jobs(tmp_path: Path, signal_name: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    answers = {"salloc": SALLOC.format(folder=tmp_path), "scontrol": f"#!/bin/sh\ncat <<END\n{SHOWN}END\n"}
    for name, text in {**answers, "squeue": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o700)
    words = ["bench", "gemm", "--nodes", "n-[0-2]", "--results", str(tmp_path / "results")]
    code = f"from {main.__module__} import main; raise SystemExit(main({words}))"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )

    def logged(name: str) -> set[str]:
        return set((tmp_path / name).read_text().split()) if (tmp_path / name).exists() else set()

    assert wait_until(lambda: len(logged("started")) == 3, 30, 0.05)
    process.send_signal(signal.Signals[f"SIG{signal_name}"])
    output = process.communicate(timeout=30)[1]
    assert wait_until(lambda: logged("ended") == logged("started"), 10, 0.05)
    if signal_name in ("INT", "TERM"):
        assert process.returncode == UNKNOWN
        assert "interrupted" in output
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("slurm")
def test_a_measurement_that_is_cancelled_removes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fio(_words: Sequence[str]) -> Result:
        assert list(tmp_path.glob("hpcai-bench-*"))
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        raise AssertionError("the signal was ignored")

    monkeypatch.setattr(bench.storage, "_FIO", (sys.executable,))
    monkeypatch.setattr(bench.storage.os, "geteuid", lambda: 65534)
    monkeypatch.setattr(bench, "run", lambda words, _seconds: fio(words))
    assert main(["bench", "measure", "scratch", "--set", f"folder={tmp_path}"], (bench.COMMAND,)) == UNKNOWN
    assert "interrupted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
