# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A step of the checks that did not run all its tests has not passed."""

from __future__ import annotations

import pathlib
import signal
import threading
import time

import pytest
import run_checks
from steps import Step


def test_pytest_without_a_summary_has_not_passed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_checks, "REPOSITORY", tmp_path)
    monkeypatch.setattr(run_checks, "LOGS", tmp_path / "logs")
    (outcome,) = run_checks.run_all([Step("nodes", ("sh", "-c", "echo test_a.py ......", "pytest"), needs=())])
    assert (outcome.verdict, outcome.remark) == ("failed", "ended without a summary of pytest")


def test_a_step_that_ends_because_the_run_is_interrupted_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    recorded: list[run_checks.Outcome] = []

    class Kept(run_checks.Earlier):
        def __init__(self) -> None:
            """Keeps nothing in files."""

        def keep(self, name: str, _outcome: object) -> None:
            kept.append(name)

    def run(step: Step) -> run_checks.Outcome:
        if step.name == "early":
            return run_checks.Outcome(step.name, "passed")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(1)
        return run_checks.Outcome(step.name, "passed")

    monkeypatch.setattr(run_checks, "run", run)

    def record(outcomes: dict[str, run_checks.Outcome], outcome: run_checks.Outcome, shown: bool) -> None:
        outcomes[outcome.name] = outcome
        recorded.append(outcome)

    monkeypatch.setattr(run_checks, "record", record)
    with pytest.raises(KeyboardInterrupt):
        run_checks.run_all([Step("early", (), needs=()), Step("long", (), needs=("early",))], earlier=Kept())
    deadline = time.monotonic() + 30
    while len(recorded) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [(one.name, one.verdict) for one in recorded] == [("early", "passed"), ("long", "failed")]
    assert kept == ["early"]
