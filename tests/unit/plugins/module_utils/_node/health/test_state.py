# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is stored between runs: histories of checks, latched findings and their identity, and timeouts."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import engine, state
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    PASS,
    PERIODIC,
    PROLOG,
    UNKNOWN,
    Answer,
    CannotMeasure,
    Check,
    Context,
    Finding,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError

from .playing import BAD, GOOD, raising, sleep

CHECK = Check("gpu_xid", "x", "x", (), lambda _context: Answer(), action="reboot")
XID = Finding(FAIL, "Xid 95", "0001:00:00.0", action="reset_gpu", latch=True)
BOOT = "this"


def after(kept: tuple[state.Latched, ...], *findings: Finding, now: float = 1, released: tuple[str, ...] = ()) -> Any:
    """Return what is latched after these findings."""
    return state.latched_after(kept, CHECK, Answer(findings=findings, released=released), BOOT, now)


def test_only_findings_with_latch_are_latched() -> None:
    assert [one.finding for one in after((), XID, replace(XID, latch=False, summary="other"))] == [XID]


def test_a_repeated_finding_is_latched_once_with_its_first_time() -> None:
    kept = after(after((), XID), XID, now=9)
    assert [(one.finding, one.since) for one in kept] == [(XID, 1)]
    other = replace(XID, device="0002:00:00.0")
    assert [one.since for one in after(kept, other, now=9)] == [1, 9]


def test_a_reset_releases_only_findings_that_need_a_reset() -> None:
    graver = replace(XID, summary="Xid 79", action="reboot")
    by_check = replace(XID, summary="Xid 48", action=None)
    elsewhere = replace(XID, device="0002:00:00.0")
    kept = after(after((), XID, graver, by_check, elsewhere), released=("0001:00:00.0",))
    assert [one.finding for one in kept] == [graver, by_check, elsewhere]


def test_findings_after_the_reset_stay_latched() -> None:
    assert [one.finding for one in after(after((), XID), XID, released=("0001:00:00.0",))] == [XID]


def test_a_reboot_releases_everything() -> None:
    kept = after((), XID)
    assert state.latched_in_boot(kept, BOOT) == kept
    assert state.latched_in_boot(kept, "another") == ()
    assert state.latched_in_boot(kept, "") == kept


def test_a_latched_finding_that_is_found_again_is_reported_once() -> None:
    kept = after((), XID)
    assert state.not_found_again(kept, Answer()) == (XID,)
    assert state.not_found_again(kept, Answer(findings=(XID,))) == ()


def test_the_number_of_latched_findings_is_limited() -> None:
    many = [replace(XID, summary=f"Xid {number}") for number in range(1000)]
    kept = after((), *many)
    assert [one.finding for one in kept] == many[-state.MOST :]


PAUSE = f"63.{os.getpid()}"


def ask_a_tool(context: Context) -> Answer:
    """Run a tool as checks do: if it does not answer, the verdict is unknown."""
    result = context.run(["sleep", PAUSE])
    return Answer(findings=(Finding(UNKNOWN, f"the tool gave {result.rc}"),))


def test_a_tool_that_hangs_is_unknown_each_time(node: Any, make_check: Any) -> None:
    check = make_check(ask_a_tool, limit_s=0.2)
    for _time in range(3):
        result = node.one(check)
        assert (result.verdict, result.summary) == (UNKNOWN, "the tool gave 124")


def test_a_device_that_does_not_answer_twice_in_a_row_fails(node: Any, make_check: Any) -> None:
    check = make_check(ask_a_tool, limit_s=0.2, asks_device=True)
    assert node.one(check).verdict == UNKNOWN
    second = node.one(check)
    assert (second.verdict, second.action) == (FAIL, "reboot")
    assert second.summary == "the tool gave 124, 2 times in a row"
    assert node.one(check).summary == "the tool gave 124, 3 times in a row"


def test_a_check_that_hangs_in_a_device_twice_in_a_row_fails(node: Any, make_check: Any) -> None:
    check = make_check(sleep, limit_s=0.1, asks_device=True)
    assert [node.one(check).verdict for _time in range(2)] == [UNKNOWN, FAIL]


@pytest.mark.parametrize("what", [ask_a_tool, sleep])
def test_a_check_that_gets_too_little_time_says_nothing_about_its_device(
    node: Any, make_check: Any, monkeypatch: pytest.MonkeyPatch, what: Any
) -> None:
    """Slow earlier checks used up the time of the tier."""
    monkeypatch.setattr(engine, "LIMIT_S", {PROLOG: 0.3})
    check = make_check(what, limit_s=2, asks_device=True)
    assert [node.one(check, tier=PROLOG).verdict for _time in range(3)] == [UNKNOWN] * 3
    monkeypatch.undo()
    assert node.one(make_check(what, limit_s=0.2, asks_device=True)).verdict == UNKNOWN
    monkeypatch.setattr(engine, "LIMIT_S", {PROLOG: 0.3})
    node.one(check, tier=PROLOG)
    monkeypatch.undo()
    assert node.one(make_check(what, limit_s=0.2, asks_device=True)).verdict == FAIL


def test_a_driver_that_does_not_answer_twice_in_a_row_fails(node: Any, make_check: Any) -> None:
    check = make_check(raising(GpuError("no_answer", "the driver did not answer within 4 s")))
    assert [node.one(check).verdict for _time in range(2)] == [UNKNOWN, FAIL]


def test_an_answer_in_between_resets_the_count_of_timeouts(node: Any, make_check: Any) -> None:
    silent, good = make_check(raising(GpuError("no_answer", "x"))), make_check(GOOD)
    assert [node.one(check).verdict for check in (silent, good, silent, silent)] == [UNKNOWN, PASS, UNKNOWN, FAIL]


def test_a_timeout_before_a_reboot_does_not_count(node: Any, make_check: Any) -> None:
    check = make_check(raising(GpuError("no_answer", "x")))
    node.one(check)
    node.boot("99999999-2222-3333-4444-555555555555")
    assert node.one(check).verdict == UNKNOWN


def test_a_check_gets_its_history_in_the_next_run(node: Any, make_check: Any) -> None:
    def measure(context: Context) -> Answer:
        runs, ever = (context.history.get("runs") or 0) + 1, (context.history.get("ever") or 0) + 1
        context.history.keep("runs", runs)
        context.history.keep("ever", ever, for_good=True)
        return Answer(f"{runs} {ever}", readings=(Reading("runs", runs),))

    assert [node.one(make_check(measure)).summary for _time in range(2)] == ["1 1", "2 2"]
    assert node.one(make_check(measure, "other")).summary == "1 1"
    node.boot("99999999-2222-3333-4444-555555555555")
    assert node.one(make_check(measure)).summary == "1 3"


def test_the_history_is_stored_even_if_the_check_raises(node: Any, make_check: Any) -> None:
    def measure(context: Context) -> NoReturn:
        context.history.keep("seen", [1])
        raise CannotMeasure("x")

    node.one(make_check(measure))
    assert node.stored_state().history("demo").get("seen") == [1]


def test_a_latched_xid_fails_each_later_run(node: Any, make_check: Any) -> None:
    """Other health checks report it once, and then pass although the GPU is still broken."""
    answer = Answer(findings=(Finding(FAIL, "Xid 79", "0001:00:00.0", action="reboot", fault="NHC2001", latch=True),))
    assert node.one(make_check(answer)).latched is False
    for tier in (PERIODIC, PROLOG):
        later = node.one(make_check(GOOD), tier=tier)
        assert (later.verdict, later.summary, later.latched) == (FAIL, "Xid 79", True)
        assert (later.action, later.fault) == ("reboot", "NHC2001")
        assert [one.summary for one in later.answer.findings] == ["Xid 79"]
    assert node.one(make_check(GOOD, "other")).verdict == PASS
    assert node.one(make_check(raising(CannotMeasure("x")))).verdict == FAIL
    node.boot("99999999-2222-3333-4444-555555555555")
    assert node.one(make_check(GOOD)).verdict == PASS


def test_a_failure_without_latch_ends_with_the_next_pass(node: Any, make_check: Any) -> None:
    assert [node.one(make_check(answer)).verdict for answer in (BAD, GOOD)] == [FAIL, PASS]


def test_a_reset_gpu_is_released(node: Any, make_check: Any) -> None:
    found = [Finding(FAIL, "Xid 95", f"000{n}:00:00.0", action="reset_gpu", latch=True) for n in (1, 2)]
    node.one(make_check(Answer(findings=tuple(found))))
    reset = Answer("fine", readings=(Reading("n", 1),), released=("0001:00:00.0",))
    result = node.one(make_check(reset))
    assert [one.device for one in result.answer.findings] == ["0002:00:00.0"]
    assert [one.device for one in node.one(make_check(GOOD)).answer.findings] == ["0002:00:00.0"]


def test_a_state_that_cannot_be_saved_is_reported(node: Any, make_check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_arguments: Any, **_named: Any) -> NoReturn:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(state, "write_file", refuse)
    done = node.tier(make_check(BAD))
    assert done.verdict == FAIL
    (problem,) = done.problems
    assert "cannot save the state" in problem
    assert "No space left" in problem


def test_on_a_full_disk_a_finding_is_found_again(node: Any, make_check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The position in the log is on a tmpfs, and the latched findings on a disk that users may have filled."""

    def read_log(context: Context) -> Answer:
        if context.history.get("read_to"):
            return GOOD
        context.history.keep("read_to", 1)
        return Answer(findings=(replace(XID, action=None),))

    real = state.write_file

    def on_a_full_disk(path: str, *arguments: Any, **named: Any) -> None:
        if state.KEPT_FOLDER in path:
            raise OSError(28, "No space left on device", path)
        real(path, *arguments, **named)

    check = make_check(read_log)
    monkeypatch.setattr(state, "write_file", on_a_full_disk)
    assert [node.one(check).verdict for _time in range(3)] == [FAIL, FAIL, FAIL]
    monkeypatch.undo()
    assert [node.one(check).latched for _time in range(2)] == [False, True]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 9}', '{"schema": 1, "checks": []}'])
def test_a_broken_file_of_latched_findings_is_reported(node: Any, make_check: Any, text: str) -> None:
    node.write(state.LATCHED_FILE, text)
    (problem,) = node.tier(make_check(GOOD)).problems
    assert "latched.json cannot be read" in problem
    assert node.tier(make_check(GOOD)).problems == (), "the file was replaced"
