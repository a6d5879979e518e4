# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watchdog of a job: a hang is found within its limit, a slow step never is one."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import stat
import threading
import time
from collections.abc import Sequence

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run as run_command
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import watch
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.watch import Limits, Progress

from ..machine.test_own_files import plant

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can create files of another user")
LIMITS = Limits(hang_s=100, start_s=1000, settle_s=5)


def first_hang(changes: Sequence[float], until: float, limits: Limits = LIMITS) -> float | None:
    """When the watchdog finds a hang, for a file that changes at these times; None if it does not."""
    progress = Progress(limits, 0.0)
    for second in range(int(until)):
        mark = max((when for when in changes if when <= second), default=None)
        if progress.hangs(mark, float(second)) is not None:
            return float(second)
    return None


def test_a_hang_is_found_within_its_limit() -> None:
    changes = [float(second) for second in range(50, 500, 5)]
    assert first_hang(changes, 2000) == pytest.approx(495 + 100, abs=2)


def test_a_slow_step_is_never_a_hang() -> None:
    # Steps of 90 s, and one of 800 s for a checkpoint or an evaluation: less than ten times the longest before.
    changes = [50.0, *(50.0 + 90 * number for number in range(1, 10)), 50.0 + 90 * 9 + 800, 50.0 + 90 * 9 + 1600]
    assert first_hang(changes, int(changes[-1]) + 850) is None


def test_the_first_step_may_take_long_but_not_forever() -> None:
    assert first_hang([900.0, 990.0], 1050) is None
    assert first_hang([], 2000) == pytest.approx(1000, abs=2)
    # One change is not yet a pause between two.
    assert first_hang([10.0], 2000) == pytest.approx(1010, abs=2)


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def watched(tmp_path: pathlib.Path, comment: str, answers: bool = True, node: int = 0) -> tuple[list[str], list[str]]:
    """The commands and the lines of a watchdog of a job that never makes progress.

    :param comment: what slurmctld shows; slurmdbd has no comment of a job that still runs.
    :param node: the number of the node in the job.
    """
    commands: list[str] = []
    written: list[str] = []
    clock = Clock()

    def run(words: Sequence[str], _limit_s: float) -> Result:
        if words[:2] == ["squeue", "--steps"]:
            return Result(tuple(words), 0, "7.batch\n7.extern\n7.0\n7.1\n7.2\n", "")
        if words[0] == "squeue":
            return Result(tuple(words), 0 if answers else 1, f"{comment}\n", "Unable to contact slurm controller")
        commands.append(" ".join(words))
        return Result(tuple(words), 0, "", "")

    environment = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2", "SLURM_STEP_ID": "1", "SLURM_NODEID": str(node)}
    assert watch.watch(
        str(tmp_path / "progress"), LIMITS, environment, run, written.append, clock=clock, pause=clock.pause
    )
    return [one for one in commands if "py-spy" not in one], written


@as_root
@pytest.mark.parametrize("kind", ["file", "closed file", "link", "pipe", "folder"])
def test_a_file_of_another_user_ends_no_job(tmp_path: pathlib.Path, kind: str) -> None:
    """In a folder with the sticky bit, the job cannot replace it, so it never changes."""
    path, mine = tmp_path / "progress", tmp_path / "mine"
    mine.write_text("x")
    plant(path, kind, mine)
    clock, written = Clock(), list[str]()

    removed = 20 * LIMITS.start_s

    def pause(seconds: float) -> None:
        clock.pause(seconds)
        if clock.now > removed and os.path.lexists(path):
            shutil.rmtree(path) if kind == "folder" else path.unlink()

    assert not watch.watch(
        str(path),
        LIMITS,
        {"SLURM_JOB_ID": "7"},
        lambda words, _limit_s: Result(tuple(words), 0, "", ""),
        written.append,
        # When it is removed, the training gets its time.
        lambda: clock.now > removed + LIMITS.start_s - 10,
        clock=clock,
        pause=pause,
    )
    assert written == [
        f"a hang would not be noticed: {path} belongs to user 64321, not to you: have it removed, or submit the job "
        "from a folder that only you can write to"
    ]


def test_a_hang_counts_from_when_progress_can_be_seen_again() -> None:
    progress = Progress(LIMITS, 0.0)
    progress.hangs(1, 1.0)
    progress.hangs(2, 2.0)
    progress.cannot_see(500.0)
    assert progress.hangs(2, 600.0) is None
    assert progress.hangs(2, 601.0) == 101.0


def test_a_hang_ends_the_steps_and_not_the_job_and_is_noted_in_the_comment(tmp_path: pathlib.Path) -> None:
    commands, written = watched(tmp_path, "mine hpcai:recover")
    assert commands == [
        "scontrol update JobId=7 Comment=mine hpcai:recover,hpcai:hang=2",
        "scancel --signal=KILL 7.0 7.2",
    ]
    assert "has not changed for" in written[0]
    assert written[-1] == "ended 7.0, 7.2"


def test_a_job_without_a_comment_gets_one(tmp_path: pathlib.Path) -> None:
    """Its partition may recover all jobs."""
    assert watched(tmp_path, "(null)")[0][0] == "scontrol update JobId=7 Comment=hpcai:hang=2"


def test_without_slurmctlds_answer_the_job_is_ended_nevertheless(tmp_path: pathlib.Path) -> None:
    commands, written = watched(tmp_path, "", answers=False)
    assert commands == ["scancel --signal=KILL 7.0 7.2"]
    assert "the hang is not in the job's comment" in written[-2]


def test_stacks_of_each_node_and_one_report_of_nccl_are_in_the_jobs_log_before_the_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "stacks", lambda _run, _uid: ["process 11: all_reduce", "process 12: all_reduce"])
    monkeypatch.setattr(watch, "ras_status", lambda: ["NCCL RAS: rank 3 is behind"])
    first, second = (watched(tmp_path, "hpcai:recover", node=node)[1] for node in (0, 1))
    stacks = ["process 11: all_reduce", "process 12: all_reduce"]
    # NCCL's report is about all ranks, so one node writes it.
    assert first[1:] == [*stacks, "NCCL RAS: rank 3 is behind", "ended 7.0, 7.2"]
    assert second[1:] == [*stacks, "ended 7.0, 7.2"]


def test_stacks_of_own_python_processes_are_taken(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one with another name, as PyTorch 2.4 gives to each process that imports it."""
    program = tmp_path / "py-spy"
    program.write_text('#!/bin/sh\necho "stack of $4"\n')
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # This machine may have more processes of this user.
    monkeypatch.setattr(watch, "_MOST_PROCESSES", 10_000)
    import subprocess
    import sys

    text = "import time; open('/proc/self/comm', 'w').write('pt_main_thread'); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", text]) as child:
        try:
            deadline = time.monotonic() + 60
            comm = pathlib.Path(f"/proc/{child.pid}/comm")
            while comm.read_text() != "pt_main_thread\n" and time.monotonic() < deadline:
                time.sleep(0.05)
            found = watch.stacks(run_command, os.geteuid())
        finally:
            child.kill()
    assert any(f"stack of {child.pid}" in one for one in found)
    assert not any(f"process {os.getpid()}:" in one for one in found)


@pytest.mark.timeout(30)
def test_processes_of_other_users_are_not_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They decide how long that takes; here it never ends, and the job would not be ended either."""
    monkeypatch.setenv("PATH", "/nonexistent")
    tree = MachineTree(tmp_path).process(100, "0", "python3")
    (tmp_path / "proc/100/exe").symlink_to("/usr/bin/python3")
    (tmp_path / "proc/100/cmdline").unlink()
    os.mkfifo(tmp_path / "proc/100/cmdline")
    assert watch.stacks(run_command, os.geteuid() + 1, Root(str(tree.path)))[0].endswith("Python processes: none")


class Ras(threading.Thread):
    """NCCL's RAS as the watchdog sees it: answers one client, or never."""

    def __init__(self, answer: bytes, hangs: bool = False) -> None:
        super().__init__(daemon=True)
        self._answer, self._hangs = answer, hangs
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.asked = b""

    def run(self) -> None:
        """Answer."""
        connection, _address = self._socket.accept()
        with connection:
            self.asked = connection.recv(100)
            with contextlib.suppress(OSError):
                connection.sendall(self._answer)
            if self._hangs:
                time.sleep(5)


def test_nccls_report_about_all_ranks_is_taken() -> None:
    ras = Ras(b"Job summary\n\n  #0-0 (MISMATCH) rank 3 is behind\x1b[31m\n")
    ras.start()
    assert watch.ras_status(ras.port) == [
        "NCCL RAS: Job summary",
        "NCCL RAS:   #0-0 (MISMATCH) rank 3 is behind [31m",
    ]
    assert ras.asked == b"verbose status\n"


def test_an_endless_or_silent_report_is_cut() -> None:
    endless = Ras(b"x\n" * 200000)
    endless.start()
    assert len(watch.ras_status(endless.port)) <= 32768
    silent = Ras(b"first\n", hangs=True)
    silent.start()
    began = time.monotonic()
    assert watch.ras_status(silent.port, limit_s=0.5) == ["NCCL RAS: first"]
    assert time.monotonic() - began < 4


def test_without_nccl_there_is_no_report() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    assert watch.ras_status(port) == []


def test_without_the_tool_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "py-spy is not installed" in watch.stacks(run_command, os.geteuid())[0]


def test_an_ended_training_ends_the_watchdog(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    words = ["recover", "watch", "--file", str(tmp_path / "x"), "--end", str(tmp_path)]
    assert frame.main(words) == 0
    assert "the training has ended" in capsys.readouterr().out
    monkeypatch.delenv("SLURM_JOB_ID")
    assert frame.main(words) == 3


def test_without_settings_no_job_is_recovered(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["recover", "status", "--root", str(tmp_path)]) == 0
    assert "no decisions" in capsys.readouterr().out
    assert frame.main(["recover", "look", "--root", str(tmp_path)]) == 3
