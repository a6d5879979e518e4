# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever a check does, its tier ends in time, and with a verdict for each check."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import engine, perform
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    DEEP,
    FAIL,
    PASS,
    PERIODIC,
    PROLOG,
    SKIP,
    UNKNOWN,
    WARN,
    Answer,
    CannotMeasure,
    Context,
    Finding,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import child
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

from .playing import BAD, GOOD, raising, sleep

PAUSE = f"62.{os.getpid()}"


def test_each_check_gets_its_verdict_in_order(node: Any, make_check: Any) -> None:
    answers = {
        "a": (GOOD, PASS),
        "b": (Answer(findings=(Finding(WARN, "odd"),)), WARN),
        "c": (BAD, FAIL),
        "d": (Answer(findings=(Finding(UNKNOWN, "no tool"),)), UNKNOWN),
        "e": (Answer(skipped="none here"), SKIP),
    }
    done = node.tier(*(make_check(answer, name) for name, (answer, _verdict) in answers.items()))
    assert [(one.name, one.verdict) for one in done.results] == [(name, two) for name, (_one, two) in answers.items()]
    assert [one.summary for one in done.results] == ["all is well", "odd", "7 of 8", "no tool", "none here"]
    assert done.results[2].answer.readings == BAD.readings
    assert done.verdict == FAIL
    assert done.problems == ()


def test_a_run_without_checks_is_an_error(node: Any) -> None:
    with pytest.raises(ValueError, match="no checks"):
        node.tier()


def test_an_answer_without_readings_does_not_pass(node: Any, make_check: Any) -> None:
    """If a tool prints nothing, no value is below its limit, and other health checks pass."""
    result = node.one(make_check(Answer("all is well")))
    assert (result.verdict, result.summary) == (UNKNOWN, "it measured nothing, which is a defect of this check")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_a_number_is_unknown(node: Any, make_check: Any, value: float) -> None:
    result = node.one(make_check(Answer("fast", readings=(Reading("rate", value, device="mlx5_ib0", limit=180.0),))))
    assert (result.verdict, result.answer.readings) == (UNKNOWN, ())
    assert result.summary == "rate of mlx5_ib0 could not be measured: the value is not a number"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (CannotMeasure("no file there"), "no file there"),
        (ConfigError("health.json\nis not valid JSON"), "health.json is not valid JSON"),
        (CommandFailed("mdadm failed"), "mdadm failed"),
        (PermissionError(13, "Permission denied", "/dev/kmsg"), "/dev/kmsg"),
        (KeyError("x"), "KeyError: 'x': this is a defect of hpcnode"),
        (SystemExit(0), "SystemExit: 0: this is a defect"),
        (RecursionError("deep"), "this is a defect"),
    ],
)
def test_a_check_that_raises_is_unknown(node: Any, make_check: Any, error: BaseException, words: str) -> None:
    first, second = node.tier(make_check(raising(error)), make_check(GOOD, "next")).results
    assert first.verdict == UNKNOWN
    assert words in first.summary
    assert second.verdict == PASS, "the other checks still run"


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"verdict": "pass"},
        Answer(findings=(Finding(PASS, "fine"),)),
        Answer(findings=(Finding(FAIL, "x", action="pray"),)),
        Answer(findings=(Finding(FAIL, "x", cause="moon"),)),
        Answer(readings=(Reading("count", None),)),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_answer_is_unknown(node: Any, make_check: Any, wrong: Any) -> None:
    result = node.one(make_check(lambda _context: wrong))
    assert result.verdict == UNKNOWN
    assert "defect" in result.summary
    assert "InvalidAnswer" in result.details["traceback"]


def test_names_from_users_cannot_control_a_terminal(node: Any, make_check: Any) -> None:
    name = os.fsdecode(b"x\x1b[2K\rcpu: pass\n\xff")
    result = node.one(make_check(Answer(findings=(Finding(FAIL, f"process 7 ({name})", latch=True),))))
    assert result.summary == "process 7 (x?[2K cpu: pass ?)"
    assert node.one(make_check(GOOD)).summary == result.summary


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("library_not_found", UNKNOWN),
        ("no_permission", UNKNOWN),
        ("not_supported", UNKNOWN),
        ("no_answer", UNKNOWN),
        ("driver_not_loaded", FAIL),
        ("lib_rm_version_mismatch", FAIL),
        ("gpu_is_lost", FAIL),
    ],
)
def test_a_missing_tool_is_unknown_and_a_broken_driver_fails(
    node: Any, make_check: Any, kind: str, verdict: str
) -> None:
    result = node.one(make_check(raising(GpuError(kind, "so it says"))))
    assert (result.verdict, result.summary) == (verdict, "so it says")
    assert result.action == ("reboot" if verdict == FAIL else "observe")


def test_a_broken_driver_is_unknown_on_an_unknown_size(node: Any, make_check: Any) -> None:
    node.unsized = True
    assert node.one(make_check(raising(GpuError("driver_not_loaded", "x")))).verdict == UNKNOWN


def test_a_check_that_hangs_is_ended_and_the_others_run(node: Any, make_check: Any) -> None:
    start = time.monotonic()
    checks = [make_check(GOOD, "a"), make_check(sleep, "b", limit_s=0.3), make_check(GOOD, "c"), make_check(BAD, "d")]
    done = node.tier(*checks)
    assert time.monotonic() - start < 10
    assert [one.verdict for one in done.results] == [PASS, UNKNOWN, PASS, FAIL]
    assert done.results[1].summary.startswith("it did not finish within 0.3 s")


@pytest.mark.parametrize("how", [lambda: os._exit(0), lambda: os.kill(os.getpid(), signal.SIGSEGV)])
def test_a_check_whose_process_dies_is_unknown_and_the_others_run(node: Any, make_check: Any, how: Any) -> None:
    checks = [make_check(lambda _context: how(), "a"), make_check(GOOD, "b")]
    first, second = node.tier(*checks).results
    assert (first.verdict, second.verdict) == (UNKNOWN, PASS)
    assert "ended without an answer" in first.summary


def test_a_good_run_starts_one_process(node: Any, make_check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    real = os.fork

    def fork() -> int:
        started.append(1)
        return real()

    monkeypatch.setattr(child.os, "fork", fork)
    node.tier(*(make_check(GOOD, name) for name in "abcdefgh"), tier=PROLOG)
    assert len(started) == 1


def test_commands_get_the_time_limit_of_their_check(node: Any, make_check: Any) -> None:
    given: list[float] = []

    def run(command: Sequence[str], timeout_s: float) -> Any:
        given.append(timeout_s)
        raise CommandFailed(f"{timeout_s:.1f}")

    from ansible_collections.hpcai.azure.plugins.module_utils._node.health.measure import Machine

    machine = Machine(node.root, run, node.size, gpus=node.gpus)
    check = make_check(lambda context: context.run(["x"]), limit_s=1.5)
    (result,) = engine.run_tier(PERIODIC, [check], machine).results
    assert result.summary == "1.5"


def test_a_tier_ends_at_its_limit_and_reports_what_did_not_run(
    node: Any, make_check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LIMIT_S", {PROLOG: 0.3})
    start = time.monotonic()
    done = node.tier(make_check(sleep, "a"), make_check(GOOD, "b"), make_check(BAD, "c"), tier=PROLOG)
    assert time.monotonic() - start < 8
    assert [one.verdict for one in done.results] == [UNKNOWN] * 3
    # The remaining time of the tier; on a busy machine it is less.
    assert re.match(r"it did not finish within 0\.[0-3]\d? s", done.results[0].summary)
    assert done.results[1].summary == "not run: tier prolog reached its timeout of 0.3 s"


def test_the_deep_tier_has_no_time_limit() -> None:
    assert DEEP not in engine.LIMIT_S
    assert engine.LIMIT_S[PROLOG] == 10
    assert engine.LIMIT_S[PERIODIC] == 38


def test_a_tier_above_its_target_reports_the_slowest_check(
    node: Any, make_check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TARGET_S", {PROLOG: 0.2})

    def measure(_context: Context) -> Answer:
        time.sleep(0.5)
        return GOOD

    slow = make_check(measure, "slow")
    (problem,) = node.tier(slow, make_check(GOOD, "quick"), tier=PROLOG).problems
    assert "more than its target of 0.2 s: slow took 0." in problem
    assert node.tier(slow).problems == ()


def test_a_check_that_is_turned_off_is_skipped_and_not_run(node: Any, make_check: Any) -> None:
    node.settings = Settings(off=("demo",))
    result = node.one(make_check(raising(AssertionError("it was run"))))
    assert (result.verdict, "health.json" in result.summary) == (SKIP, True)


def test_warn_only_turns_a_failure_into_a_warning(node: Any, make_check: Any) -> None:
    node.settings = Settings(warn_only=("demo",))
    done = node.tier(make_check(BAD), make_check(BAD, "other"))
    assert [one.verdict for one in done.results] == [WARN, FAIL]
    assert "warn_only" in done.results[0].hint
    unknown = make_check(raising(CannotMeasure("x")))
    assert node.one(unknown).verdict == UNKNOWN


def test_a_check_that_does_not_apply_to_the_size_is_skipped(node: Any, make_check: Any) -> None:
    check = make_check(BAD, applies=lambda size: "" if size is None else f"{size.name} has none")
    assert (node.one(check).verdict, node.one(check).summary) == (SKIP, "Standard_ND96asr_v4 has none")


def test_without_a_size_checks_that_need_it_are_unknown(node: Any, make_check: Any) -> None:
    """Other health checks pass on an unknown size."""
    node.unsized = True
    limited = make_check(raising(AssertionError("it was run")), thresholds=("gpu_host_bandwidth",))
    needy = make_check(lambda context: Answer(str(context.known_size)), "needy")
    careless = make_check(lambda context: Answer(context.size.name), "careless")
    done = node.tier(limited, needy, careless, make_check(GOOD, "other"))
    assert [one.verdict for one in done.results] == [UNKNOWN, UNKNOWN, UNKNOWN, PASS]
    assert done.verdict == UNKNOWN
    assert done.results[0].summary == "its limit gpu_host_bandwidth is not known: nobody says which size it has"
    assert "size of this machine is not known" in done.results[1].summary
    assert "nobody says which size it has" in done.results[2].summary


def test_a_limit_of_the_site_needs_no_size(node: Any, make_check: Any) -> None:
    node.unsized, node.settings = True, Settings(limits={"gpu_host_bandwidth": 20.0})
    assert node.one(make_check(GOOD, thresholds=("gpu_host_bandwidth",))).verdict == PASS


def test_a_defect_in_applies_is_unknown(node: Any, make_check: Any) -> None:
    result = node.one(make_check(GOOD, applies=lambda size: size.no_such_field))
    assert (result.verdict, "defect" in result.summary) == (UNKNOWN, True)


UNUSABLE = [
    "{",
    '{"schema": 9}',
    '{"schema": 1, "off": ["no_such"]}',
    '{"schema": 1, "limits": {"gpu_host_bandwith": 1}}',
    '{"schema": 1, "options": {"load": {"zombis": 1}}}',
]


@pytest.mark.parametrize("text", UNUSABLE)
def test_with_invalid_settings_all_checks_are_unknown(node: Any, make_check: Any, text: str) -> None:
    node.write("/etc/hpcai/health.json", text)
    node.write("/etc/hpcai/node.json", '{"schema": 1, "vm_size": "Standard_ND96asr_v4"}')
    machine = engine.machine_of(node.root, lambda _command, _seconds: pytest.fail("no command"))
    (result,) = engine.run_tier(PERIODIC, [make_check(BAD)], machine).results
    assert result.verdict == UNKNOWN
    assert "/etc/hpcai/health.json" in result.summary


@pytest.mark.parametrize("text", UNUSABLE)
def test_with_invalid_settings_no_job_is_blocked(node: Any, make_check: Any, text: str) -> None:
    node.write("/etc/hpcai/health.json", text)
    machine = engine.machine_of(node.root, lambda _command, _seconds: pytest.fail("no command"))
    done = engine.run_tier(PROLOG, [make_check(BAD, blocks_job=True, blocks_boot=True)], machine)
    assert (done.verdict, done.blocks_job, perform.status_of(done)) == (UNKNOWN, False, perform.GOOD)
    assert done.problems == (machine.settings_problem,)


def test_only_a_failed_blocking_check_blocks_a_job(node: Any, make_check: Any) -> None:
    blocking = make_check(BAD, blocks_job=True)
    assert node.tier(make_check(GOOD), blocking, tier=PROLOG).blocks_job
    assert not node.tier(make_check(BAD), tier=PROLOG).blocks_job
    unknown = make_check(raising(CannotMeasure("x")), blocks_job=True)
    assert not node.tier(unknown, tier=PROLOG).blocks_job


def test_checks_whose_process_cannot_start_are_unknown(
    node: Any, make_check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> NoReturn:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(child.os, "fork", refuse)
    done = node.tier(make_check(GOOD), make_check(GOOD, "b"))
    assert [one.verdict for one in done.results] == [UNKNOWN, UNKNOWN]
    assert "could not be started" in done.results[0].summary


PROGRAM = """\
import sys, time
sys.path.insert(0, {collections!r})
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import engine
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import TIERS, Check
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.measure import Machine
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run

def measure(context):
    open({mark!r}, "w").close()
    context.run(["sleep", {pause!r}])

engine.run_tier("deep", [Check("demo", "x", "x", TIERS, measure, limit_s=60)], Machine(Root({root!r}), run, None))
"""


def test_after_sigterm_no_command_is_left_running(node: Any) -> None:
    """Slurm ends a HealthCheckProgram that takes too long."""
    mark = node.folder / "begun"
    collections = pathlib.Path(__file__).resolve().parents[6] / ".collections"
    text = PROGRAM.format(collections=str(collections), mark=str(mark), root=str(node.folder), pause=PAUSE)
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert mark.exists()
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    running = [one for one in pathlib.Path("/proc").glob("[0-9]*/cmdline") if PAUSE.encode() in _bytes(one)]
    assert process.returncode != 0
    assert running == []


def _bytes(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
