# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever a step does, it ends within its time limit and with a verdict."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import engine, record
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome, StepFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import child
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError, read_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import Locked, only_one
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run, wait_until
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

# Unique to this test run, because another one may run at the same time.
PAUSE = f"61.{os.getpid()}"
PASSED = Outcome(PASS, "all is well", changes=("made it",), details={"disks": 8})


@pytest.mark.parametrize("verdict", [PASS, WARN, FAIL, UNKNOWN, SKIP])
@pytest.mark.parametrize("blocking", [True, False])
def test_a_steps_outcome_is_returned_and_recorded(machine: Any, make_step: Any, verdict: str, blocking: bool) -> None:
    outcome = Outcome(verdict, "so it is", "do this", ("made it",), {"disks": 8, "names": ["a", "b"]})
    ran = machine.perform(make_step(outcome, blocking=blocking))
    assert ran.outcome == outcome
    assert ran.problems == ()
    assert ran.bad is (verdict in (FAIL, UNKNOWN))
    assert ran.blocks is (blocking and verdict in (FAIL, UNKNOWN))
    stored = machine.stored()
    assert (stored["schema"], stored["step"], stored["verdict"]) == (1, "demo", verdict)
    assert (stored["summary"], stored["action"], stored["changes"]) == ("so it is", "do this", ["made it"])
    assert stored["details"] == {"disks": 8, "names": ["a", "b"]}
    assert (stored["boot_id"], stored["pid"]) == (machine.root.text("/proc/sys/kernel/random/boot_id"), os.getpid())
    assert 0 <= stored["seconds"] < 20


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ConfigError("node.json is not valid JSON"), UNKNOWN),
        (UnknownVmSize("no such size"), UNKNOWN),
        (StepFailed("seven of eight disks"), FAIL),
        (CommandFailed("mdadm failed"), FAIL),
        (Locked("process 7 holds it"), FAIL),
        (OSError(errno.ENOSPC, "No space left on device", "/var/lib/hpcai/x"), FAIL),
    ],
)
def test_errors_become_verdicts_in_one_line(machine: Any, make_step: Any, error: Exception, verdict: str) -> None:
    def perform(_context: Context) -> NoReturn:
        raise error

    outcome = machine.perform(make_step(perform)).outcome
    assert (outcome.verdict, outcome.summary) == (verdict, str(error))


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "df -h"), (errno.EROFS, "read-only"), (errno.EIO, "")])
def test_a_full_or_read_only_disk_is_reported_with_an_action(
    machine: Any, make_step: Any, number: int, words: str
) -> None:
    def perform(context: Context) -> NoReturn:
        raise OSError(number, os.strerror(number), context.root.at("/var/lib/hpcai/instance.json"))

    outcome = machine.perform(make_step(perform)).outcome
    assert outcome.verdict == FAIL
    assert "/var/lib/hpcai/instance.json" in outcome.summary
    assert (words in outcome.action, bool(outcome.action)) == (True, bool(words))


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(0), KeyboardInterrupt(), RecursionError("deep")])
def test_a_defect_is_unknown_and_its_traceback_is_recorded(machine: Any, make_step: Any, error: BaseException) -> None:
    def perform(_context: Context) -> NoReturn:
        raise error

    outcome = machine.perform(make_step(perform)).outcome
    assert outcome.verdict == UNKNOWN
    assert f"{type(error).__name__}: {error}: this is a defect of hpcnode" in outcome.summary
    assert "perform" in machine.stored()["details"]["traceback"]


@pytest.mark.parametrize(
    "wrong", [None, Outcome("good", "x"), Outcome(PASS, "x", details={"set": {1}}), {"verdict": PASS}]
)
def test_an_invalid_outcome_is_unknown(machine: Any, make_step: Any, wrong: Any) -> None:
    outcome = machine.perform(make_step(lambda _context: wrong)).outcome
    assert outcome.verdict == UNKNOWN
    assert "defect" in outcome.summary


def test_a_summary_is_one_line(machine: Any, make_step: Any) -> None:
    outcome = machine.perform(make_step(Outcome(FAIL, "one\n  two\n", "three\nfour"))).outcome
    assert (outcome.summary, outcome.action) == ("one two", "three four")


def sleep(_context: Context) -> NoReturn:
    while True:
        time.sleep(60)


def sleep_until_killed(_context: Context) -> NoReturn:
    """Ignore signals and exceptions: only SIGKILL ends it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


def sleep_in_c(_context: Context) -> Outcome:
    """Block in C code, as a driver's library does, so that no Python code runs."""
    ctypes.PyDLL(None).sleep(600)
    return PASSED


def sleepers() -> list[int]:
    """Return the processes of the command that the steps of this file wait for.

    On a busy host, a killed process is there until it is scheduled once more.
    """
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if entry.read_bytes() == f"sleep\0{PAUSE}\0".encode():
                found.append(int(entry.parent.name))
    return found


def wait_for_command(_context: Context) -> Outcome:
    run(["sleep", PAUSE])
    return PASSED


@pytest.mark.parametrize("hang", [sleep, sleep_until_killed, sleep_in_c, wait_for_command])
def test_a_step_that_hangs_is_ended_at_its_limit(machine: Any, make_step: Any, hang: Any) -> None:
    start = time.monotonic()
    ran = machine.perform(make_step(hang, limit_s=0.5))
    assert time.monotonic() - start < 15
    assert ran.outcome.verdict == FAIL
    assert ran.outcome.summary.startswith("it did not finish within 0.5 s")
    assert "hpcnode boot run demo" in ran.outcome.action
    assert machine.stored()["verdict"] == FAIL


def test_a_command_that_hangs_is_named_and_ended(machine: Any, make_step: Any) -> None:
    outcome = machine.perform(make_step(wait_for_command, limit_s=0.5)).outcome
    assert f"it was waiting for 'sleep {PAUSE}'" in outcome.summary
    assert wait_until(lambda: not sleepers(), 10, 0.05)


def test_a_process_that_cannot_be_killed_is_reported_and_left(
    machine: Any, make_step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a process hangs in a driver, the boot continues without it."""
    killed: list[int] = []
    monkeypatch.setattr(child, "_BURIAL_S", 0.2)
    monkeypatch.setattr(os, "killpg", lambda pid, number: killed.append(pid))
    outcome = machine.perform(make_step(sleep, limit_s=0.2)).outcome
    monkeypatch.undo()
    os.killpg(killed[0], signal.SIGKILL)
    os.waitpid(killed[0], 0)
    assert "it cannot be killed: it hangs in the kernel" in outcome.summary


def test_a_step_that_hangs_holds_no_file_and_no_lock(
    machine: Any, make_step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the reader of our output and the next run would wait for it."""
    killed: list[int] = []
    monkeypatch.setattr(child, "_BURIAL_S", 0.2)
    monkeypatch.setattr(os, "killpg", lambda pid, number: killed.append(pid))
    machine.perform(make_step(sleep, limit_s=0.2))
    monkeypatch.undo()
    held = {os.readlink(entry) for entry in pathlib.Path(f"/proc/{killed[0]}/fd").iterdir()}
    os.killpg(killed[0], signal.SIGKILL)
    os.waitpid(killed[0], 0)
    assert len([path for path in held if path.startswith("pipe:")]) == 1
    assert {path for path in held if not path.startswith("pipe:")} == {os.devnull}


@pytest.mark.parametrize(
    ("how", "words"), [(lambda: os._exit(3), "status 3"), (lambda: os.kill(os.getpid(), 11), "signal 11")]
)
def test_a_step_whose_process_dies_is_unknown(machine: Any, make_step: Any, how: Any, words: str) -> None:
    """A driver's library may end the process that calls it."""
    start = time.monotonic()
    outcome = machine.perform(make_step(lambda _context: how())).outcome
    assert time.monotonic() - start < 15
    assert outcome.verdict == UNKNOWN
    assert f"its process ended without an answer ({words})" in outcome.summary


def test_a_process_that_a_step_leaves_behind_is_not_waited_for(machine: Any, make_step: Any) -> None:
    def perform(_context: Context) -> Outcome:
        if os.fork() == 0:
            # It holds the pipe that the outcome is sent through.
            time.sleep(12)
            os._exit(0)
        return PASSED

    start = time.monotonic()
    assert machine.perform(make_step(perform)).outcome.verdict == PASS
    assert time.monotonic() - start < 10


def test_a_large_outcome_is_complete(machine: Any, make_step: Any) -> None:
    details = {"lines": ["x" * 1000] * 1000}
    assert machine.perform(make_step(Outcome(PASS, "much", details=details))).outcome.details == details


def test_a_step_gets_its_time_limit(machine: Any, make_step: Any) -> None:
    outcome = machine.perform(make_step(lambda context: Outcome(PASS, f"{context.seconds:.0f}"), limit_s=7)).outcome
    assert outcome.summary == "7"


def test_check_mode_is_passed_on_and_writes_nothing(machine: Any, make_step: Any) -> None:
    before = sorted(machine.folder.rglob("*"))
    ran = machine.perform(make_step(lambda context: Outcome(PASS, str(context.check), changes=("it",))), check=True)
    assert (ran.outcome.summary, ran.outcome.changes) == ("True", ("it",))
    assert sorted(machine.folder.rglob("*")) == before


def test_steps_after_a_failed_step_run(machine: Any, make_step: Any) -> None:
    steps = [make_step(Outcome(verdict, "x"), name) for name, verdict in (("a", FAIL), ("b", UNKNOWN), ("c", PASS))]
    ran = engine.perform_all(steps, machine.root, lambda _command: pytest.fail("no command"))
    assert [(one.step.name, one.outcome.verdict) for one in ran] == [("a", FAIL), ("b", UNKNOWN), ("c", PASS)]


@pytest.mark.parametrize("what", ["full", "read-only"])
def test_a_step_runs_even_if_its_record_cannot_be_written(
    machine: Any, make_step: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A full or read-only /run is reported, but the node must still get its scratch."""
    number = errno.ENOSPC if what == "full" else errno.EROFS

    def refuse(path: str, *_arguments: Any, **_named: Any) -> NoReturn:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(record, "write_file", refuse)
    if what == "read-only":
        monkeypatch.setattr(os, "makedirs", refuse)
    done = machine.folder / "done"
    ran = machine.perform(make_step(lambda _context: Outcome(PASS, str(done.touch()))))
    assert ran.outcome.verdict == PASS
    assert done.exists()
    assert len(ran.problems) == 1
    assert "/run/hpcai/boot/demo.json (" in ran.problems[0]
    assert os.strerror(number) in ran.problems[0]


def test_an_old_record_is_removed_if_the_new_one_cannot_be_written(
    machine: Any, make_step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.perform(make_step(PASSED))

    def full(path: str, _text: str) -> None:
        raise OSError(28, "full", path)

    monkeypatch.setattr(record, "write_file", full)
    machine.perform(make_step(Outcome(FAIL, "broken")))
    assert machine.read() is None


def test_waits_for_another_run_of_the_same_step(machine: Any, make_step: Any) -> None:
    order: list[str] = []
    lock = f"{machine.folder}/run/hpcai/boot/demo.lock"
    began = threading.Event()

    def hold() -> None:
        with only_one(lock, 0):
            began.set()
            time.sleep(0.5)
            order.append("first")

    other = threading.Thread(target=hold)
    other.start()
    began.wait(5)
    assert machine.perform(make_step(PASSED)).outcome.verdict == PASS
    other.join()
    assert order == ["first"]


def test_another_run_that_does_not_end_is_reported(machine: Any, make_step: Any) -> None:
    with only_one(f"{machine.folder}/run/hpcai/boot/demo.lock", 0):
        ran = machine.perform(make_step(PASSED, limit_s=0.3))
    assert ran.blocks
    assert f"process {os.getpid()} holds" in ran.outcome.summary
    assert machine.read() is None, "the record belongs to the other run"


def test_a_step_that_is_turned_off_is_skipped(machine: Any, make_step: Any) -> None:
    machine.write("/etc/hpcai/node.json", '{"schema": 1, "boot_skip": ["demo"]}')
    outcome = machine.perform(make_step(Outcome(FAIL, "broken"))).outcome
    assert (outcome.verdict, "boot_skip" in outcome.summary) == (SKIP, True)
    assert machine.perform(make_step(PASSED, "other")).outcome.verdict == PASS


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1, "boot_skip": "demo"}', '{"schema": 1, "boot_skip": [[]]}']
)
def test_broken_settings_turn_no_step_off(machine: Any, make_step: Any, text: str) -> None:
    machine.write("/etc/hpcai/node.json", text)
    assert machine.perform(make_step(PASSED)).outcome.verdict == PASS


@pytest.mark.parametrize("text", ["", "{", '{"schema": 99}'])
def test_a_step_that_cannot_read_its_settings_is_unknown(machine: Any, make_step: Any, text: str) -> None:
    machine.write("/etc/hpcai/node.json", text)

    def perform(context: Context) -> Outcome:
        return Outcome(PASS, str(read_config(context.root, "node")))

    ran = machine.perform(make_step(perform))
    assert (ran.outcome.verdict, ran.blocks) == (UNKNOWN, True)
    assert "/etc/hpcai/node.json" in ran.outcome.summary


PROGRAM = """\
import sys, time
sys.path.insert(0, {collections!r})
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import engine
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Outcome, Step
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run

def perform(context):
    sys.stdout.write("a step's own words")
    open({mark!r}, "w").close()
    run(["sleep", {pause!r}])
    return Outcome("pass", "late")

engine.perform(Step("demo", "demo", True, 60, perform), Root({root!r}), run)
"""


@pytest.mark.parametrize(
    ("number", "recorded"), [(signal.SIGTERM, True), (signal.SIGINT, True), (signal.SIGKILL, False)]
)
def test_an_interrupted_step_is_unknown(machine: Any, number: int, recorded: bool) -> None:
    """Causes are systemd's timeout, a shutdown, and the kernel's OOM killer."""
    mark = machine.folder / "begun"
    collections = pathlib.Path(__file__).resolve().parents[6] / ".collections"
    text = PROGRAM.format(collections=str(collections), mark=str(mark), root=str(machine.folder), pause=PAUSE)
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    # Between the two, the command is being started, and nothing knows its process yet.
    assert wait_until(lambda: mark.exists() and bool(sleepers()), 30, 0.02)
    machine.process(process.pid)
    assert machine.stored()["verdict"] == record.RUNNING
    machine.write(f"/proc/{process.pid}/stat", pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8"))
    process.send_signal(number)
    output = process.communicate(timeout=20)[0]
    known = machine.read()
    if recorded:
        assert (known.verdict, "interrupted by a signal" in known.summary) == (UNKNOWN, True)
        assert wait_until(lambda: not sleepers(), 10, 0.05)
    else:
        for pid in sleepers():
            os.kill(pid, signal.SIGKILL)
        (machine.folder / f"proc/{process.pid}/stat").unlink()
        known = machine.read()
        assert (known.verdict, "interrupted" in known.summary) == (UNKNOWN, True)
    assert output == b"", "a step's output must not get into a module's answer"


def test_a_step_whose_process_cannot_start_is_unknown(
    machine: Any, make_step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> NoReturn:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(child.os, "fork", refuse)
    outcome = machine.perform(make_step(PASSED)).outcome
    assert (outcome.verdict, "could not be started" in outcome.summary) == (UNKNOWN, True)
