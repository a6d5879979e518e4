# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The texts about a run, and about the checks."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import perform, text
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    PASS,
    SKIP,
    UNKNOWN,
    USER,
    WARN,
    Answer,
    Finding,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.measure import Machine
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import Settings

GOOD = Answer("8 GPUs", readings=(Reading("gpus", 8),))


def failing(words: str, **given: Any) -> Answer:
    """Return an answer that fails."""
    return Answer(findings=(Finding(FAIL, words, **given),))


def without_times(lines: Any) -> list[str]:
    """Return the lines, with their seconds replaced."""
    return [line.replace("(0.0 s)", "(T)") for line in lines]


def test_each_check_has_a_line_and_the_run_has_one(node: Any, make_check: Any) -> None:
    lost = failing("7 of 8 GPUs", hint="Replace it.", fault="NHC2009", latch=True)
    checks = [make_check(GOOD, "a"), make_check(lost, "b"), make_check(Answer(skipped="none"), "c")]
    lines = without_times(text.of_run(node.tier(*checks), {}))
    assert lines[:3] == [
        "a: pass (T): 8 GPUs.",
        "b: fail (T): 7 of 8 GPUs [NHC2009]. To do: Replace it.",
        "c: skip (T): none.",
    ]
    assert lines[3].startswith("periodic: fail: 3 checks, 1 fail (")
    later = without_times(text.of_run(node.tier(make_check(GOOD, "b")), {}))
    assert later[0] == (
        "b: fail (T): 7 of 8 GPUs [NHC2009]. Latched until the machine restarts or you run 'hpcnode health clear'. "
        "To do: Replace it."
    )
    assert later[1].startswith("periodic: fail: 1 check, 1 fail (")


def test_lines_for_the_journal_have_a_priority(node: Any, make_check: Any) -> None:
    checks = [make_check(GOOD, "a"), make_check(failing("x"), "b"), make_check(Answer(), "c")]
    lines = list(text.of_run(node.tier(*checks), text.LEVELS))
    assert [line[:3] for line in lines[:3]] == ["a: ", "<3>", "<3>"]


def test_the_drain_reason_names_the_first_failure_and_counts_others(node: Any, make_check: Any) -> None:
    users = failing("left behind", cause=USER)
    checks = [
        make_check(GOOD, "a"),
        make_check(users, "b"),
        make_check(failing("7 of 8"), "c"),
        make_check(failing("no link"), "d"),
    ]
    document = perform.as_document(node.tier(*checks), {})
    assert text.reason_of(document["checks"]) == "hpcai: health: c: 7 of 8 (and 2 more)"
    assert text.reason_of(document["checks"][:2]) == "hpcai: health: b: left behind"
    assert text.reason_of(document["checks"][:1]) == ""


@pytest.mark.parametrize(
    ("verdicts", "tier", "status"),
    [
        ((PASS,), "periodic", 0),
        ((PASS, WARN), "periodic", 0),
        ((PASS, UNKNOWN), "periodic", 2),
        ((FAIL, UNKNOWN), "periodic", 1),
        ((SKIP,), "periodic", 2),
        ((SKIP, PASS), "periodic", 0),
        ((SKIP,), "epilog", 2),
        ((UNKNOWN,), "prolog", 0),
        ((FAIL,), "prolog", 0),
        ((FAIL,), "epilog", 1),
    ],
)
def test_exit_status_of_a_run(node: Any, make_check: Any, verdicts: tuple[str, ...], tier: str, status: int) -> None:
    findings = {verdict: () if verdict in (PASS, SKIP) else (Finding(verdict, "x"),) for verdict in verdicts}
    answers = {
        verdict: Answer(skipped="none here") if verdict == SKIP else Answer("x", (Reading("n", 1),), found)
        for verdict, found in findings.items()
    }
    checks = [make_check(answer, verdict) for verdict, answer in answers.items()]
    assert perform.status_of(node.tier(*checks, tier=tier)) == status


def test_a_prolog_fails_if_a_blocking_check_fails(node: Any, make_check: Any) -> None:
    blocking = make_check(failing("7 of 8"), blocks_job=True)
    assert perform.status_of(node.tier(blocking, tier="prolog")) == 1
    node.settings = Settings(warn_only=("demo",))
    assert perform.status_of(node.tier(blocking, tier="prolog")) == 0


def test_the_list_shows_the_limit_on_this_machine_and_its_source(node: Any, make_check: Any) -> None:
    check = make_check(GOOD, thresholds=("gpu_host_bandwidth", "none_such"), fault="NHC2020", blocks_job=True)
    machine = Machine(node.root, lambda _command, _seconds: pytest.fail("no command"), node.size)
    lines = "\n".join(text.of_checks([check], machine))
    assert "demo: Checks demo\n    Measures. No limit.\n" in lines
    assert "limit gpu_host_bandwidth: at least 21 GB/s (azurehpc-health-checks, conf/<size>.conf)" in lines
    assert "limit none_such: none is known for this VM size" in lines
    assert "a failure blocks: jobs" in lines
    assert "NHC2020" in lines
    document = perform.of_check(check, machine)
    assert document["limits"]["gpu_host_bandwidth"]["limit"] == 21
    assert document["limits"]["none_such"] is None
    assert document["blocks_job"] is True


def test_the_list_shows_all_limits_and_options_that_a_site_can_set(node: Any, make_check: Any) -> None:
    check = make_check(
        GOOD, further_limits=("nvlinks", "own"), options={"zombies": 5, "paths": (), "folders": ["/a", "/b"]}
    )
    settings = Settings(limits={"own": 7}, options={"demo": {"zombies": 9}})
    machine = Machine(node.root, lambda _command, _seconds: pytest.fail("no command"), None, settings)
    lines = "\n".join(text.of_checks([check], machine))
    assert "limit nvlinks: as above, unless limits in /etc/hpcai/health.json sets it" in lines
    assert "limit own: at least 7 (/etc/hpcai/health.json)" in lines
    assert "option zombies: 9 (/etc/hpcai/health.json)" in lines
    assert "option paths: none\n" in lines
    assert "option folders: /a, /b\n" in lines
    document = perform.of_check(check, machine)
    assert document["limits"]["nvlinks"] is None
    assert document["options"] == {"zombies": 9, "paths": (), "folders": ["/a", "/b"]}


def test_the_list_shows_what_differs_on_this_node(node: Any, make_check: Any) -> None:
    settings = Settings(off=("a",), warn_only=("b",))
    machine = Machine(node.root, lambda _command, _seconds: pytest.fail("no command"), None, settings)
    names = {"a": "turned off", "b": "a failure is only a warning", "c": "skipped: none here"}
    for name, words in names.items():
        check = make_check(GOOD, name, applies=lambda _size, name=name: "none here" if name == "c" else "")
        assert f"on this node: {words}" in "\n".join(text.of_checks([check], machine))
    limited = make_check(GOOD, "d", thresholds=("gpu_host_bandwidth",))
    assert "not known, because the VM size is not known" in "\n".join(text.of_checks([limited], machine))
