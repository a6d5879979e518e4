# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode beeond: what it answers, without a BeeGFS."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import start as starting
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import stop as stopping
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import sweep
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.layout import Holding
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.start import Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import lock
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

JOB = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_UID": "4001",
    "SLURM_JOB_GID": "4001",
    "SLURM_NODELIST": "gpu-[0-1]",
    "SLURMD_NODENAME": "gpu-1",
    "SLURM_JOB_CONSTRAINTS": "beeond",
    "SLURM_JOB_RESTART_COUNT": "2",
}
PACKAGE = frame.__name__.rpartition(".cli.")[0]
HELD = Holding("17", "beegfs", "/beeond", "/scratch/beeond/17", "/scratch/beeond")


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """This machine, but below a folder, with settings and job 17."""
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/beeond.json").write_text('{"schema": 1}', encoding="utf-8")
    monkeypatch.setattr(Root, "is_this_machine", property(lambda _root: True))
    monkeypatch.setattr(Root, "at", lambda _root, path: str(tmp_path) + path)
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and what it prints for programs."""
    status = frame.main(["beeond", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("good", "started", "status"), [(True, True, 0), (True, False, 0), (False, False, 1)])
def test_start_ends_as_the_start_did(
    node: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, good: bool, started: bool, status: int
) -> None:
    jobs = []

    def play(job: Any, *_rest: Any) -> Outcome:
        jobs.append(job)
        return Outcome(good, started, "words")

    monkeypatch.setattr(starting, "start", play)
    ended, document = answer(capsys, "start")
    assert (ended, document["asked"], document["started"]) == (status, True, started)
    assert document["reason"] == ("" if started else "words")
    [job] = jobs
    assert (job.number, job.nodes, job.node, job.restarts) == ("17", ("gpu-0", "gpu-1"), "gpu-1", 2)


def test_start_of_a_job_that_does_not_ask_reads_nothing(
    node: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (node / "etc/hpcai/beeond.json").write_text("no json", encoding="utf-8")
    monkeypatch.setenv("SLURM_JOB_CONSTRAINTS", "nobeeond")
    assert answer(capsys, "start")[0] == 0


def test_a_job_that_does_not_ask_waits_for_few_imports() -> None:
    code = (
        "import sys, os; os.environ.pop('SLURM_JOB_CONSTRAINTS', None);"
        f"from {PACKAGE}.cli.main import main; status = main(['beeond', 'start']);"
        "names = {name.rpartition('.')[2] for name in sys.modules if 'beeond' in name};"
        "assert names == {'beeond', 'request'}, names; sys.exit(status)"
    )
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_start_without_settings_cannot_tell(node: pathlib.Path, capsys: Any) -> None:
    (node / "etc/hpcai/beeond.json").unlink()
    status, document = answer(capsys, "start")
    assert (status, document["reason"]) == (2, "no /etc/hpcai/beeond.json: role hpcai.azure.beeond writes it")


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_UID", "SLURM_NODELIST", "SLURMD_NODENAME"])
def test_start_without_a_job_is_refused(
    node: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, name: str
) -> None:
    monkeypatch.delenv(name)
    status, document = answer(capsys, "start")
    assert status == 1
    assert document["reason"]


@pytest.mark.parametrize(("leftovers", "status"), [([], 0), (["cannot kill process 7"], 1)])
def test_stop_tells_what_is_left(
    node: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, leftovers: list[str], status: int
) -> None:
    monkeypatch.setattr(sweep, "find_leftovers", lambda *_given: [sweep.Leftover(HELD, False)])
    monkeypatch.setattr(stopping, "stop", lambda *_given: leftovers)
    monkeypatch.setattr(stopping, "verify", lambda *_given: [])
    ended, document = answer(capsys, "stop")
    assert (ended, document["problems"], document["found"]) == (status, leftovers, True)


def test_stop_looks_whether_something_is_left(node: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sweep, "find_leftovers", lambda *_given: [sweep.Leftover(HELD, False)])
    monkeypatch.setattr(stopping, "stop", lambda *_given: [])
    (node / "scratch/beeond/17").mkdir(parents=True)
    ended, document = answer(capsys, "stop")
    assert (ended, document["problems"]) == (1, ["/scratch/beeond/17 exists"])


def test_sweep_makes_the_folder_of_all_jobs_data_before_a_user_can(
    node: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sweep, "find_leftovers", lambda *_given: [])
    assert answer(capsys, "sweep")[1]["warnings"] == []
    (node / "scratch").mkdir()
    (node / "scratch").chmod(0o1777)
    (node / "scratch/beeond").symlink_to("/etc")
    [words] = answer(capsys, "sweep")[1]["warnings"]
    assert "/scratch/beeond was a symbolic link of user" in words
    assert (node / "scratch/beeond").stat().st_mode & 0o7777 == 0o700
    assert answer(capsys, "sweep")[1]["warnings"] == []


def test_sweep_leaves_a_start_that_goes_on_alone(
    node: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def held(_path: str, _timeout_s: float) -> None:
        raise lock.Locked("process 7 holds it")

    monkeypatch.setattr(lock, "only_one", held)
    monkeypatch.setattr(sweep, "find_leftovers", lambda *_given: pytest.fail("it looked"))
    assert answer(capsys, "sweep") == (
        0,
        {
            "schema": 1,
            "command": "beeond",
            "status": 0,
            "found": [],
            "problems": [],
            "unsure": [],
            "warnings": [],
        },
    )


@pytest.mark.parametrize(("problems", "unsure", "status"), [([], [], 0), (["stays"], [], 1), ([], ["who knows"], 2)])
def test_sweep_tells_what_it_did(
    node: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    problems: list[str],
    unsure: list[str],
    status: int,
) -> None:
    monkeypatch.setattr(sweep, "find_leftovers", lambda *_given: [])
    monkeypatch.setattr(sweep, "of_dead_jobs", lambda *_given: ([HELD], unsure))
    monkeypatch.setattr(sweep, "clean", lambda *_given: problems)
    ended, document = answer(capsys, "sweep")
    assert (ended, document["found"], document["problems"], document["unsure"]) == (status, ["17"], problems, unsure)
    # For the health check, and no longer than it is so.
    leftovers = node / "run/hpcai/beeond.left"
    assert (leftovers.read_text(encoding="utf-8").splitlines() if leftovers.exists() else []) == problems
    monkeypatch.setattr(sweep, "clean", lambda *_given: [])
    answer(capsys, "sweep")
    assert not leftovers.exists()


def test_only_status_looks_at_another_tree(tmp_path: pathlib.Path, capsys: Any) -> None:
    assert frame.main(["beeond", "sweep", "--root", str(tmp_path)]) == 3
    assert "works on the running machine only" in capsys.readouterr().err
    assert frame.main(["beeond", "status", "--root", str(tmp_path)]) == 2
