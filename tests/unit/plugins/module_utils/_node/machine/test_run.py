# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command runner: what a command gets, and what is returned."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import run as runner
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import (
    CommandFailed,
    Result,
    feed,
    must,
    run,
    wait_until,
)


def test_exit_status_and_output_are_returned() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    command = (sys.executable, "-c", code)
    assert run(command) == Result(command, 3, "out\n", "err\n")


def test_a_text_reaches_only_the_standard_input() -> None:
    shown = feed(["sh", "-c", "cat; tr '\\0' ' ' < /proc/$$/cmdline"], "secret\n")
    assert shown.stdout.startswith("secret\n")
    assert shown.stdout.count("secret") == 1


def test_arguments_are_not_interpreted_by_a_shell(tmp_path: pathlib.Path) -> None:
    hostile = f"$(touch {tmp_path}/made); `touch {tmp_path}/made` | * {{{{ 7*6 }}}}"
    assert run(["printf", "%s", hostile]).stdout == hostile
    assert list(tmp_path.iterdir()) == []


def test_commands_run_in_english_and_utc_whatever_the_users_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "SLURM_CONF": "/x"}.items():
        monkeypatch.setenv(name, value)
    shown = dict(line.split("=", 1) for line in run(["env"]).stdout.splitlines() if "=" in line)
    assert (shown["LC_ALL"], shown["LANG"], shown["TZ"], shown["SLURM_CONF"]) == ("C", "C", "UTC", "/x")
    assert os.environ["TZ"] == "Asia/Tokyo"


def test_a_missing_command_has_status_127() -> None:
    result = run(["nosuchcommand", "--help"])
    assert (result.rc, result.stderr) == (127, "nosuchcommand: command not found")


def test_a_file_that_cannot_be_executed_has_status_126(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plain"
    path.touch(mode=0o600)
    result = run([str(path)])
    assert (result.rc, result.stderr) == (126, f"{path}: Permission denied")


def test_commands_of_several_threads_can_be_stopped_and_no_more_start() -> None:
    commands = runner.Stoppable()
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(commands, ["sleep", "60"], 60) for _number in range(2)]
        assert wait_until(lambda: len(commands._running) == 2, 10, 0.01)
        commands.stop()
        assert [one.result(timeout=10).rc for one in running] == [-signal.SIGTERM, -signal.SIGTERM]
    assert commands(["true"], 10) == Result(("true",), 143, "", "stopped")


def test_a_stoppable_command_returns_the_same_as_any_other() -> None:
    commands = runner.Stoppable()
    assert commands(["sh", "-c", "echo out; echo err >&2; exit 3"], 10) == Result(
        ("sh", "-c", "echo out; echo err >&2; exit 3"), 3, "out\n", "err\n"
    )
    assert commands(["sleep", "20"], 0.1).rc == 124


def test_a_stoppable_command_can_clean_up_at_its_timeout_and_its_output_is_kept() -> None:
    words = ["sh", "-c", "trap 'echo released; exit 0' TERM; echo allocated; while :; do sleep 0.05; done"]
    result = runner.Stoppable()(words, 1)
    assert (result.rc, result.stdout, result.stderr) == (124, "allocated\nreleased\n", "no answer within 1 s")
    deaf = ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]
    start = time.monotonic()
    assert runner.Stoppable(term_s=0.2)(deaf, 1).rc == 124
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("has_setpriv", [True, False])
def test_without_util_linux_commands_run_all_the_same(monkeypatch: pytest.MonkeyPatch, has_setpriv: bool) -> None:
    if not has_setpriv:
        monkeypatch.setattr(runner.shutil, "which", lambda _name: None)
    assert bool(runner.bound_to_this_process("KILL")) == has_setpriv
    assert runner.Stoppable()(["printf", "x"], 10).stdout == "x"
    if not has_setpriv:
        assert runner.Stoppable()(["nosuchcommand"], 10) == Result(
            ("nosuchcommand",), 127, "", "nosuchcommand: command not found"
        )


def test_a_command_that_times_out_is_killed_and_has_status_124() -> None:
    start = time.monotonic()
    result = run(["sleep", "20"], timeout_s=0.1)
    assert (result.rc, result.stderr) == (124, "no answer within 0.1 s")
    assert time.monotonic() - start < 10


def test_a_command_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def survive(process: subprocess.Popen[bytes]) -> None:
        """A process that hangs in a driver does not end on SIGKILL."""
        started.append(process)

    monkeypatch.setattr(subprocess.Popen, "kill", survive)
    start = time.monotonic()
    assert run(["sleep", "20"], timeout_s=0.1).rc == 124
    assert time.monotonic() - start < 10
    monkeypatch.undo()
    started[0].kill()
    started[0].wait()


def test_a_command_that_reads_input_gets_none() -> None:
    reader, writer = os.pipe()
    kept = os.dup(0)
    try:
        os.dup2(reader, 0)
        os.write(writer, b"yes\n")
        assert run(["cat"], timeout_s=5) == Result(("cat",), 0, "", "")
    finally:
        os.dup2(kept, 0)
        for descriptor in (reader, writer, kept):
            os.close(descriptor)


def test_output_that_is_not_text_is_no_error() -> None:
    result = run(["printf", r"a\377b"])
    assert result.rc == 0
    assert result.stdout.startswith("a")
    assert result.stdout.endswith("b")


def test_a_command_that_prints_more_than_64_mib_is_killed_and_its_output_is_not_used(tmp_path: pathlib.Path) -> None:
    command = ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec yes"]
    result = run(command, timeout_s=60)
    assert result == Result(tuple(command), 125, "", "it was killed because it printed more than 64 MiB")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text("ascii")), 0)
    with pytest.raises(CommandFailed, match="it was killed because it printed more than 64 MiB"):
        must(result)


@pytest.mark.parametrize("start", [run, lambda words: feed(words, "x"), lambda words: runner.Stoppable()(words, 20)])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_each_output_may_be_as_long_as_the_limit(monkeypatch: pytest.MonkeyPatch, start: Any, stream: str) -> None:
    monkeypatch.setattr(runner, "_MOST_BYTES", 100_000)
    script = f"head -c $1 /dev/zero >&{1 if stream == 'stdout' else 2}"
    at_limit = start(["sh", "-c", script, "sh", "100000"])
    assert (at_limit.rc, len(getattr(at_limit, stream))) == (0, 100_000)
    # It has already ended with 0, but its output is not complete.
    over_limit = start(["sh", "-c", script, "sh", "100001"])
    assert (over_limit.rc, over_limit.stdout) == (runner.TOO_LONG, "")


def test_commands_stay_in_the_process_group_so_that_slurmd_can_end_them_with_their_prolog() -> None:
    shown = run([sys.executable, "-c", "import os; print(os.getpgid(0), os.getsid(0))"]).stdout.split()
    assert shown == [str(os.getpgid(0)), str(os.getsid(0))]


def test_a_long_input_is_written_while_the_output_is_read() -> None:
    text = "0123456789abcde\n" * (1 << 16)
    assert feed(["cat"], text).stdout == text
    assert feed(["true"], text).rc == 0
    assert feed(["cat"], "").stdout == ""


def test_line_ends_of_windows_become_newlines() -> None:
    assert run(["printf", r"a\r\nb\rc\n"]).stdout == "a\nb\nc\n"


def test_a_command_that_closes_its_outputs_is_waited_for() -> None:
    closes = "exec >&- 2>&-; sleep"
    assert run(["sh", "-c", f"{closes} 0.3; exit 4"]).rc == 4
    assert run(["sh", "-c", f"{closes} 20"], timeout_s=0.3).rc == 124


def test_must_returns_a_successful_result() -> None:
    result = Result(("true",), 0, "out", "a warning")
    assert must(result) is result


@pytest.mark.parametrize(
    ("stdout", "stderr", "message"),
    [
        ("out\n", "first\nlast\n\n", "last"),
        ("out\n", "  \n", "out"),
        ("out\n", "bad\n#----\n  \n", "bad"),
        ("\n#\n", "", "nothing was printed"),
        ("", "", "nothing was printed"),
    ],
)
def test_a_failure_names_the_command_and_its_last_line(stdout: str, stderr: str, message: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        must(Result(("scontrol", "ping"), 2, stdout, stderr))
    assert str(caught.value) == f"'scontrol ping' failed (exit status 2): {message}"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The lengths of the sleeps; time passes only in sleeps."""
    naps: list[float] = []
    # Only in this module: threads of other tests may sleep meanwhile.
    monkeypatch.setattr(runner, "time", SimpleNamespace(sleep=naps.append, monotonic=lambda: sum(naps)))
    return naps


def test_a_condition_that_holds_is_not_waited_for(slept: list[float]) -> None:
    assert runner.wait_until(lambda: True, 0) is True
    assert slept == []


def test_the_condition_is_checked_once_more_at_the_limit(slept: list[float]) -> None:
    assert runner.wait_until(lambda: sum(slept) >= 2.5, 2.5, pause_s=1) is True
    assert slept == [1, 1, 0.5]


def test_the_wait_ends_at_the_limit(slept: list[float]) -> None:
    assert runner.wait_until(lambda: False, 3, pause_s=2) is False
    assert slept == [2, 1]


def followed(script: str, chunks: list[bytes], limit_s: float = 20, **named: Any) -> runner.Ended:
    """Follow a shell script; it makes progress when it writes "moved"."""

    def on_output(chunk: bytes) -> bool:
        chunks.append(chunk)
        return b"moved" in chunk

    return runner.follow(["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, on_output, limit_s, **named)


def test_a_followed_command_passes_on_its_output_and_exit_status(tmp_path: pathlib.Path) -> None:
    chunks: list[bytes] = []
    ended = followed("pwd; echo err >&2; exit 3", chunks, cwd=str(tmp_path))
    assert (ended.rc, ended.cut) == (3, "")
    assert b"".join(chunks) == f"{tmp_path}\nerr\n".encode()
    assert followed("kill -9 $$", chunks).rc == -9
    with pytest.raises(FileNotFoundError):
        runner.follow(["/no/such/command"], {}, bool, 1)


def test_background_processes_of_a_followed_command_are_not_waited_for() -> None:
    chunks: list[bytes] = []
    ended = followed("sleep 60 & echo $!", chunks, limit_s=30)
    pid = int(b"".join(chunks))
    assert (ended.rc, ended.cut) == (0, "")
    assert ended.seconds < 25
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("limits", "cut"), [({"limit_s": 0.5}, "limit"), ({"limit_s": 30, "stall_s": 0.5}, "stall")], ids=str
)
def test_a_followed_command_over_its_limit_is_killed_with_its_group(limits: dict[str, float], cut: str) -> None:
    chunks: list[bytes] = []
    ended = followed(
        "trap '' TERM; sleep 60 & echo $!; while :; do echo still; sleep 0.05; done", chunks, grace_s=0.2, **limits
    )
    assert (ended.rc, ended.cut) == (-9, cut)
    pid = int(b"".join(chunks).split()[0])
    state = pathlib.Path(f"/proc/{pid}/stat")

    def is_gone() -> bool:
        # A killed orphan is gone, or waits for init to reap it.
        return not state.exists() or state.read_text(encoding="ascii").split()[2] == "Z"

    assert runner.wait_until(is_gone, 20, 0.05)


def test_a_command_that_makes_progress_is_not_stalled() -> None:
    ended = followed("for i in 1 2 3 4 5 6; do echo moved; sleep 0.5; done", [], stall_s=2.5)
    assert (ended.rc, ended.cut) == (0, "")


def test_an_error_of_the_reader_kills_the_group() -> None:
    def fail(chunk: bytes) -> bool:
        raise ValueError(chunk.decode())

    with pytest.raises(ValueError, match=r"^\d+$") as caught:
        runner.follow(["/bin/sh", "-c", "echo $$; exec sleep 60"], {"PATH": os.environ["PATH"]}, fail, 30)
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(caught.value)), 0)
