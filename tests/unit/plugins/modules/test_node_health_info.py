# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_health_info: it returns the results of the checks, and fails only if fail_on requires it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    SKIP,
    TIERS,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Finding,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.modules import node_health_info

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def fake_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Callable[..., None]:
    """Replace the checks by ones with these verdicts, on an empty machine."""
    monkeypatch.setattr(node_health_info, "Root", lambda: Root(str(tmp_path)))

    def install(*verdicts: str) -> None:
        def check(name: str) -> Check:
            found = () if name in ("pass", SKIP) else (Finding(name, f"it is {name}"),)
            answer = Answer("it is well", (Reading("n", 1),), found)
            if name == SKIP:
                answer = Answer(skipped="not on this machine")
            return Check(name, name, name, TIERS, lambda _context: answer)

        monkeypatch.setattr(catalog, "NAMES", verdicts)
        monkeypatch.setattr(catalog, "PROLOG_NAMES", frozenset(verdicts))
        monkeypatch.setattr(catalog, "load", check)

    return install


@pytest.mark.parametrize("check_mode", [False, True])
def test_returns_the_results_and_changes_nothing(fake_checks: Any, run_module: RunModule, check_mode: bool) -> None:
    fake_checks("pass", FAIL, UNKNOWN)
    answer = run_module(node_health_info.main, check_mode=check_mode)
    assert (answer["changed"], answer.get("failed", False)) == (False, False)
    health = answer["health"]
    assert (health["schema"], health["command"], health["status"]) == (1, "health", 1)
    assert (health["tier"], health["verdict"]) == ("periodic", FAIL)
    assert [check["verdict"] for check in health["checks"]] == ["pass", FAIL, UNKNOWN]
    assert health["node"]["collection"]
    assert json.loads(json.dumps(health)) == health


@pytest.mark.parametrize(
    ("fail_on", "failing"),
    [("never", ()), ("fail", (FAIL,)), ("unknown", (FAIL, UNKNOWN)), ("warn", (FAIL, UNKNOWN, WARN))],
)
@pytest.mark.parametrize("verdict", ["pass", WARN, UNKNOWN, FAIL])
def test_fails_for_fail_on_and_worse_verdicts(
    fake_checks: Any, run_module: RunModule, fail_on: str, failing: tuple[str, ...], verdict: str
) -> None:
    fake_checks("pass", verdict) if verdict != "pass" else fake_checks("pass")
    answer = run_module(node_health_info.main, fail_on=fail_on)
    assert answer.get("failed", False) is (verdict in failing)
    if verdict in failing:
        assert answer["msg"] == f"{verdict}: {verdict}: it is {verdict}"
    assert answer["health"]["verdict"] == verdict


@pytest.mark.parametrize(("fail_on", "fails"), [("never", False), ("fail", False), ("unknown", True), ("warn", True)])
def test_a_tier_in_which_every_check_skips_counts_as_unknown(
    fake_checks: Any, run_module: RunModule, fail_on: str, fails: bool
) -> None:
    fake_checks(SKIP)
    answer = run_module(node_health_info.main, fail_on=fail_on)
    assert (answer.get("failed", False), answer["health"]["status"]) == (fails, 2)


def test_only_runs_the_selected_checks(fake_checks: Any, run_module: RunModule) -> None:
    fake_checks("pass", FAIL, WARN)
    answer = run_module(node_health_info.main, tier="prolog", only=[WARN])
    assert [check["name"] for check in answer["health"]["checks"]] == [WARN]


def test_refuses_an_unknown_check(fake_checks: Any, run_module: RunModule) -> None:
    fake_checks("pass")
    answer = run_module(node_health_info.main, only=["gpu_cont"])
    assert answer["failed"] is True
    assert "there is no check gpu_cont" in answer["msg"]


def test_the_action_can_read_how_far_it_is(
    fake_checks: Any, run_module: RunModule, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_checks("pass", WARN)
    folder = tmp_path / "progress"
    lines: list[str] = []

    class Recorded(progress.ProgressFolder):
        def report(self, words: str) -> None:
            super().report(words)
            lines.append((folder / progress.PROGRESS).read_text(encoding="utf-8"))

    monkeypatch.setattr(progress, "ProgressFolder", Recorded)
    answer = run_module(node_health_info.main, tier="deep", progress=str(folder))
    assert answer["health"]["verdict"] == WARN
    assert lines == ["check 1 of 2: pass\n", f"check 2 of 2: {WARN}\n"]
    assert not folder.exists()


def test_no_further_check_starts_when_nobody_waits_any_more(
    fake_checks: Any, run_module: RunModule, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_checks("pass", WARN)
    monkeypatch.setattr(progress, "ABANDONED_S", -1.0)
    answer = run_module(node_health_info.main, tier="deep", progress=str(tmp_path / "progress"))
    assert answer["failed"] is True
    assert "Ansible does not wait for the result any more" in answer["msg"]
    assert not (tmp_path / "progress").exists()
