# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notes in a job's comment: slow nodes that are checked after the job, checkpoints without a store; the job's log."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import JobRun, read_runs, words_in
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import job_log, suspects, watch
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.comment import (
    LONGEST,
    NoNote,
    add_saved,
    job_of,
    with_notes,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.look import look
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.settings import Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.suspects import SlowChecks, orders, slow_nodes

from ..ledger.playing import END, T0, lines, run_line

# Notes


@pytest.mark.parametrize(
    ("comment", "notes", "instead_of", "after"),
    [
        ("", ["slow=c-1"], "", "hpcai:slow=c-1"),
        ("mine", ["slow=c-1", "slow=c-2"], "", "mine,hpcai:slow=c-1,hpcai:slow=c-2"),
        ("a b,hpcai:slow=c-1", ["slow=c-1"], "", "a b,hpcai:slow=c-1"),
        ("hpcai:saved=0.5.7,x", ["saved=0.9.8"], "saved=0.", "x,hpcai:saved=0.9.8"),
        ("x,hpcai:saved=0.5.7", ["saved=1.9.8"], "saved=1.", "x,hpcai:saved=0.5.7,hpcai:saved=1.9.8"),
    ],
)
def test_notes_keep_the_users_own_comment(comment: str, notes: list[str], instead_of: str, after: str) -> None:
    assert with_notes(comment, notes, instead_of) == after


@pytest.mark.parametrize("comment", ["two\nlines", "x" * LONGEST])
def test_a_comment_that_cannot_take_notes_is_not_changed(comment: str) -> None:
    with pytest.raises(NoNote):
        with_notes(comment, ["slow=c-1"])


def test_the_task_of_an_array_is_not_its_array() -> None:
    assert job_of({"SLURM_JOB_ID": "7"}) == "7"
    assert job_of({"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}) == "7_3"
    assert job_of({}) == ""


# Slow nodes


def ran(comment: str, nodes: str = "c-[0-7]", job: int = 7, user: str = "alice") -> JobRun:
    """A run that has ended, as slurmdbd has it."""
    found: list[JobRun] = []
    line = run_line(job, "COMPLETED", 0, 60, nodes, comment=comment).replace("@alice@", f"@{user}@")
    read_runs(T0, END, found.append, lines([line]))
    return found[0]


@pytest.mark.parametrize(
    ("comment", "named"),
    [
        ("hpcai:slow=c-1", ("c-1",)),
        ("x hpcai:slow=c-1,hpcai:slow=c-2", ("c-1", "c-2")),
        # No node of this run, no name of a node, or nearly all nodes.
        ("hpcai:slow=c-8", ()),
        ("hpcai:slow=ctl", ()),
        ("hpcai:slow=c-[0-7]", ()),
        ("hpcai:slow=$(reboot)", ()),
        (",".join(f"hpcai:slow=c-{number}" for number in range(5)), ()),
        ("slow=c-1", ()),
    ],
)
def test_only_a_few_nodes_of_the_own_run_can_be_named(comment: str, named: tuple[str, ...]) -> None:
    assert slow_nodes(ran(comment)) == named


def started(node: str, user: str = "alice", problem: str = "") -> dict[str, Any]:
    """An order in the log of decisions."""
    return {"action": "check", "node": node, "user": user, "problem": problem}


def test_a_node_is_checked_once_a_day() -> None:
    runs = [ran("hpcai:slow=c-1"), ran("hpcai:slow=c-1", job=8, user="bob")]
    assert [(one.job, one.node, one.refused) for one in orders(runs, [], 0, SlowChecks())] == [(7, "c-1", "")]
    assert orders(runs, [started("c-1")], 0, SlowChecks()) == []
    # One that could not be started does not count.
    assert len(orders(runs, [started("c-1", problem="sbatch failed")], 0, SlowChecks())) == 1


def test_checks_of_a_user_are_limited_and_others_have_their_own_limit() -> None:
    earlier = [started(f"c-{number}") for number in range(4, 8)]
    (mine,) = orders([ran("hpcai:slow=c-1")], earlier, 0, SlowChecks())
    assert mine.refused == "the jobs of alice caused 4 checks in 24 hours, the limit"
    (others,) = orders([ran("hpcai:slow=c-1", user="bob")], earlier, 0, SlowChecks())
    assert others.refused == ""


def test_few_checks_wait_at_a_time() -> None:
    found = orders([ran("hpcai:slow=c-1,hpcai:slow=c-2,hpcai:slow=c-3")], [], 1, SlowChecks())
    assert [one.refused for one in found] == ["", "2 checks wait or run, the limit", "2 checks wait or run, the limit"]


def test_a_node_that_is_out_already_is_not_checked() -> None:
    assert orders([ran("hpcai:slow=c-1")], [], 0, SlowChecks(), ["c-1"]) == []


class Slurmctld:
    """A slurmctld with one ended job, which accepts or refuses checks."""

    def __init__(self, state: str, refuses: bool = False, node: str = "IDLE") -> None:
        self.state, self.refuses, self.node = state, refuses, node
        self.changes: list[Sequence[str]] = []

    def __call__(self, words: Sequence[str]) -> Result:
        if words[0] == "squeue":
            shown = "" if "--user=root" in words else f"7|{self.state}|0|1|1000|7|N/A||\n"
            return Result(tuple(words), 0, shown, "")
        if "show" in words:
            return Result(tuple(words), 0, f"NodeName=c-1 State={self.node}\n", "")
        self.changes.append(words)
        refused = self.refuses and words[0] == "sbatch"
        return Result(tuple(words), 1 if refused else 0, "", "Invalid qos" if refused else "")


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "FAILED"])
def test_a_check_is_an_exclusive_job_and_nothing_else(tmp_path: pathlib.Path, state: str) -> None:
    """A note never drains a node, and neither starts nor stops a job."""
    slurmctld, handled = Slurmctld(state), set[tuple[int, int, bool]]()
    ask = lines([run_line(7, state, 0, 60, "c-[0-1]", comment="hpcai:slow=c-1")])
    (done,) = look(Root(str(tmp_path)), slurmctld, Settings(), END, handled, ask=ask)
    assert (done.job, done.action) == (7, "check")
    (command,) = slurmctld.changes
    assert (command[0], command[-1][:7]) == ("sbatch", "--wrap=")
    # A day, and the half hour that it may run: then slurmctld cancels one that waits.
    assert {
        "--parsable",
        "--deadline=now+88200",
        "--nodelist=c-1",
        "--exclusive",
        "--nodes=1",
        "--partition=gpu",
    } <= set(command)
    assert not look(Root(str(tmp_path)), slurmctld, Settings(), END, handled, ask=ask)
    # The log remembers it when the service restarts.
    assert not look(Root(str(tmp_path)), slurmctld, Settings(), END, set(), ask=ask)


@pytest.mark.parametrize(
    "node",
    [
        # Drained by a person, for example for maintenance, and by the retirement of its machine.
        "IDLE+DRAIN Reason=replace a fan [root@2026-01-01T00:00:00]",
        "MIXED+CLOUD+DRAIN Reason=hpcai: retire: [root@2026-01-01T00:00:00]",
        "DOWN",
        "IDLE+CLOUD+POWERED_DOWN",
        "IDLE+CLOUD+POWERING_UP",
    ],
)
def test_no_check_waits_for_a_node_that_takes_no_jobs(tmp_path: pathlib.Path, node: str) -> None:
    """Two checks that waited for drained nodes kept out the checks of all users."""
    slurmctld = Slurmctld("COMPLETED", node=node)
    ask = lines([run_line(7, "COMPLETED", 0, 60, "c-[0-1]", comment="hpcai:slow=c-1")])
    assert look(Root(str(tmp_path)), slurmctld, Settings(), END, set(), ask=ask) == []
    assert slurmctld.changes == []


def test_checks_can_be_turned_off(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld("COMPLETED")
    ask = lines([run_line(7, "COMPLETED", 0, 60, "c-[0-1]", comment="hpcai:slow=c-1")])
    settings = Settings(slow=SlowChecks(per_user=0))
    assert look(Root(str(tmp_path)), slurmctld, settings, END, set(), ask=ask) == []
    assert slurmctld.changes == []


def test_a_refused_check_is_reported(tmp_path: pathlib.Path) -> None:
    slurmctld = Slurmctld("COMPLETED", refuses=True)
    ask = lines([run_line(7, "COMPLETED", 0, 60, "c-[0-1]", comment="hpcai:slow=c-1")])
    (done,) = look(Root(str(tmp_path)), slurmctld, Settings(), END, set(), ask=ask)
    assert done.words.startswith("not done: job 7: check: ")
    assert done.problem == "Invalid qos"


def test_a_job_names_its_own_nodes_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "c-[0-1]")
    assert frame.main(["recover", "suspect", "c-2"]) == 3
    assert "c-2 is no node of this job" in capsys.readouterr().err
    words: list[Sequence[str]] = []

    def run(command: Sequence[str], _limit_s: float) -> Result:
        words.append(command)
        return Result(tuple(command), 0, "(null)\n", "")

    suspects.add_slow_nodes("7", ["c-1"], run)
    assert words[-1] == ["scontrol", "update", "JobId=7", "Comment=hpcai:slow=c-1"]


# Checkpoints without a store


def test_a_noted_checkpoint_is_read_back() -> None:
    words: list[Sequence[str]] = []

    def run(command: Sequence[str], _limit_s: float) -> Result:
        words.append(command)
        return Result(tuple(command), 0, "hpcai:saved=1.20.1000,hpcai:saved=0.10.500\n", "")

    add_saved({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}, 30, T0 + 40.25, run)
    comment = words[-1][-1].partition("=")[2]
    assert comment == f"hpcai:saved=0.10.500,hpcai:saved=1.30.{int(T0) * 1000 + 40250}"
    assert words_in(comment)[0] == "saved=0.10.500"
    assert ran(comment).saved[-1] == ("000000000030-7.1-w1", T0 + 40.25)


def test_the_watchdog_notes_complete_checkpoints_once(tmp_path: pathlib.Path) -> None:
    words: list[Sequence[str]] = []
    written: list[str] = []

    def run(command: Sequence[str], _limit_s: float) -> Result:
        words.append(command)
        return Result(tuple(command), 0, "(null)\n", "")

    saves = watch.Saves(str(tmp_path), {"SLURM_JOB_ID": "7"}, run, written.append)
    (tmp_path / "step10").mkdir()
    saves.look()
    assert words == []
    marker = tmp_path / "step10/.complete"
    marker.touch()
    os.utime(marker, (T0 + 5, T0 + 5))
    saves.look()
    saves.look()
    assert [command[-1] for command in words if command[0] == "scontrol"] == [
        f"Comment=hpcai:saved=0.10.{int(T0 + 5) * 1000}"
    ]
    assert written == []


# Progress


def test_a_repeated_step_is_no_progress(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(tmp_path))
    path = watch.progress_file(os.environ)
    assert watch.mark_of(path) is None
    marks = []
    for step in ("3", "3", "4"):
        assert frame.main(["train", "progress", step]) == 0
        marks.append(watch.mark_of(path))
    assert marks == [3, 3, 4]
    touched = tmp_path / "touched"
    touched.write_text("x")
    os.utime(touched, (1, 1))
    before = watch.mark_of(str(touched))
    os.utime(touched, (2, 2))
    assert watch.mark_of(str(touched)) not in (before, None)


def test_progress_outside_of_a_job_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert frame.main(["train", "progress", "3"]) == 3


# The job's own log

SOMEBODY = 64321


@pytest.fixture(name="home")
def made_home() -> Iterator[pathlib.Path]:
    """A folder of a user."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hpcai-test-"))
    os.chown(folder, SOMEBODY, SOMEBODY)
    yield folder
    shutil.rmtree(folder)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@as_root
def test_a_decision_is_in_the_jobs_log(home: pathlib.Path) -> None:
    log = home / "job.log"
    log.write_text("training\n")
    os.chown(log, SOMEBODY, SOMEBODY)
    assert job_log.append_as_user(str(log), SOMEBODY, "held") == ""
    assert log.read_text() == "training\nheld\n"


@as_root
@pytest.mark.parametrize("trick", ["link", "file of root", "pipe", "missing", "folder"])
def test_a_log_is_opened_with_the_rights_of_its_user_only(home: pathlib.Path, trick: str) -> None:
    secret = home / "secret"
    secret.write_text("untouched")
    secret.chmod(0o600)
    log = home / "job.log"
    if trick == "link":
        log.symlink_to(secret)
    elif trick == "file of root":
        log = secret
    elif trick == "pipe":
        os.mkfifo(log)
        os.chown(log, SOMEBODY, SOMEBODY)
    elif trick == "folder":
        log.mkdir()
    assert job_log.append_as_user(str(log), SOMEBODY, "held")
    assert secret.read_text() == "untouched"
    assert (trick == "missing") == (not os.path.lexists(log))


def test_nothing_is_written_for_root() -> None:
    assert job_log.append_as_user("/etc/hosts", 0, "x") == "root's files are not touched"


def test_the_path_of_the_log_comes_from_slurmctld() -> None:
    def run(words: Sequence[str]) -> Result:
        shown = (
            "JobId=7 JobName=x\n   StdOut=/tmp/planted\n   WorkDir=/home/azureuser\n   StdOut=/home/azureuser/7.log\n"
        )
        return Result(tuple(words), 0, shown, "")

    assert job_log.log_of("7", run) == "/home/azureuser/7.log"
    assert job_log.log_of("7", lambda words: Result(tuple(words), 1, "", "no")) == ""
