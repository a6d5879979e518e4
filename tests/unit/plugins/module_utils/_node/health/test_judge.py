# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worst finding decides the result of a check."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    PASS,
    SKIP,
    UNKNOWN,
    USER,
    WARN,
    Answer,
    Check,
    Finding,
    Reading,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.judge import CURES, judge
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings

CHECK = Check("demo", "x", "x", (), lambda _context: Answer(), action="replace", fault="NHC2009")


def judged(*findings: Finding, latched_findings: Any = ()) -> Result:
    """Return the result of these findings."""
    return judge(CHECK, Answer("fine", (Reading("n", 1),), findings), Settings(), latched_findings)


def test_without_findings_a_check_passes() -> None:
    assert (judged().verdict, judged().summary, judged().details) == (PASS, "fine", {})
    passed = judge(CHECK, Answer(readings=(Reading("n", 1),)), Settings(), details={"size": 8})
    assert (passed.verdict, passed.summary, passed.details) == (PASS, "no problem found", {"size": 8})


def test_the_worst_finding_is_the_summary() -> None:
    result = judged(Finding(WARN, "odd"), Finding(FAIL, "lost", "a", "pray"), Finding(UNKNOWN, "x"), Finding(FAIL, "b"))
    assert (result.verdict, result.summary, result.hint) == (FAIL, "lost (and 1 more)", "pray")
    assert (result.action, result.fault, result.cause) == ("replace", "NHC2009", "node")
    assert len(result.answer.findings) == 4


def test_the_most_severe_action_of_the_worst_findings_wins() -> None:
    assert judged(Finding(FAIL, "a", action="reboot"), Finding(FAIL, "b", action="reset_gpu")).action == "reboot"
    assert judged(Finding(FAIL, "a", action="reset_gpu"), Finding(WARN, "b", action="replace")).action == "reset_gpu"


def test_without_a_failure_the_action_is_observe() -> None:
    for verdict in (WARN, UNKNOWN):
        result = judged(Finding(verdict, "x"))
        assert (result.action, result.fault, result.hint) == ("observe", "", "")


def test_warnings_and_failures_of_users_have_no_hint() -> None:
    assert judged(Finding(WARN, "x", action="replace")).hint == ""
    assert judged(Finding(FAIL, "x", action="replace", cause=USER)).hint == ""


def test_the_fault_code_of_the_finding_wins() -> None:
    assert judged(Finding(FAIL, "x", fault="NHC2001")).fault == "NHC2001"
    assert judged(Finding(FAIL, "x", fault="")).fault == ""
    assert judged(Finding(WARN, "x", fault="NHC2017")).fault == "NHC2017"


def test_a_failure_without_a_hint_gets_that_of_its_action() -> None:
    assert (judged(Finding(FAIL, "x")).hint, judged(Finding(FAIL, "x")).summary) == (CURES["replace"], "x")
    assert judged(Finding(FAIL, "x", action="observe")).hint == ""


def test_an_answer_without_readings_is_unknown() -> None:
    result = judge(CHECK, Answer("fine"), Settings())
    assert (result.verdict, result.summary) == (UNKNOWN, "it measured nothing, which is a defect of this check")
    found = judge(CHECK, Answer("fine", findings=(Finding(WARN, "odd"),)), Settings())
    assert (found.verdict, found.summary) == (WARN, "odd")


@pytest.mark.parametrize(("device", "whose"), [("", ""), ("a", " of a")])
def test_a_reading_that_is_not_a_number_is_unknown(device: str, whose: str) -> None:
    readings = (Reading("state", "clean"), Reading("rate", float("nan"), device=device), Reading("n", 1))
    result = judge(CHECK, Answer("fine", readings), Settings())
    assert (result.verdict, result.summary) == (
        UNKNOWN,
        f"rate{whose} could not be measured: the value is not a number",
    )
    assert [one.name for one in result.answer.readings] == ["state", "n"]


def test_warn_only_turns_a_failure_into_a_warning_with_a_hint() -> None:
    mild = Settings(warn_only=("demo",))
    readings = (Reading("n", 1),)
    result = judge(CHECK, Answer("fine", readings, (Finding(FAIL, "lost"),)), mild)
    assert (result.verdict, result.fault) == (WARN, "")
    assert result.hint.startswith("Only a warning, because of warn_only in ")
    assert judge(CHECK, Answer("fine", readings, (Finding(FAIL, "lost", hint="pray"),)), mild).hint == "pray"
    assert judge(CHECK, Answer("fine", readings, (Finding(UNKNOWN, "odd"),)), mild).verdict == UNKNOWN
    assert judge(CHECK, Answer("fine", readings, (Finding(FAIL, "x"),)), Settings(warn_only=("other",))).verdict == FAIL


def test_a_failure_caused_by_a_user_is_no_fault_of_the_node() -> None:
    users = Finding(FAIL, "left behind", cause=USER)
    result = judged(users)
    assert (result.cause, result.action, result.fault, result.hint) == (USER, "nothing", "", "")
    both = judged(users, Finding(FAIL, "lost"))
    assert (both.cause, both.summary, both.action) == ("node", "lost (and 1 more)", "replace")


def test_latched_findings_count_and_are_marked() -> None:
    latched_findings = (Finding(FAIL, "Xid 79", latch=True),)
    result = judged(latched_findings=latched_findings)
    assert (result.verdict, result.latched, result.answer.findings) == (FAIL, True, latched_findings)
    fresh = judged(Finding(FAIL, "Xid 48", latch=True), latched_findings=latched_findings)
    assert (fresh.summary, fresh.latched) == ("Xid 48 (and 1 more)", False)
    warned = judge(CHECK, Answer(skipped="none here"), Settings(), latched_findings)
    assert warned.verdict == FAIL


def test_a_skipped_check_is_skip_unless_something_was_found() -> None:
    assert judge(CHECK, Answer(skipped="none here"), Settings()).verdict == SKIP
    found = judge(CHECK, Answer(skipped="none here", findings=(Finding(FAIL, "x"),)), Settings())
    assert found.verdict == FAIL
