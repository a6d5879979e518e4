# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_boot: which verdicts fail a run, which only warn, and what check mode reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog, engine
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Outcome, Step
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.modules import node_boot

RunModule = Callable[..., dict[str, Any]]
FakeSteps = Callable[..., list[tuple[str, bool]]]


@pytest.fixture
def fake_steps(monkeypatch: pytest.MonkeyPatch) -> FakeSteps:
    """Replace the boot's steps by these: name, verdict, whether it blocks, changes.

    Returns a list of the steps that ran, each with whether it ran in check mode.
    """
    performed: list[tuple[str, bool]] = []

    def install(*steps: tuple[str, str, bool, tuple[str, ...]]) -> list[tuple[str, bool]]:
        made = {
            name: engine.StepRun(
                Step(name, "", blocking, 5, lambda _context: Outcome(PASS, "")),
                Outcome(verdict, f"{name} is so", "mend it" if verdict in (FAIL, UNKNOWN) else "", changes, {"n": 1}),
                0.5,
            )
            for name, verdict, blocking, changes in steps
        }

        def perform(step: Step, _root: Any, _run: Any, check: bool = False) -> engine.StepRun:
            performed.append((step.name, check))
            return made[step.name]

        monkeypatch.setattr(catalog, "NAMES", tuple(made))
        monkeypatch.setattr(catalog, "load", lambda name: made[name].step)
        monkeypatch.setattr(engine, "perform", perform)
        return performed

    return install


def test_passes_unchanged_if_every_step_passes(fake_steps: FakeSteps, run_module: RunModule) -> None:
    performed = fake_steps(("gpu", PASS, True, ()), ("clocks", SKIP, False, ()), ("join", PASS, True, ()))
    answer = run_module(node_boot.main)
    assert (answer["changed"], answer.get("failed", False), answer["blocking"]) == (False, False, [])
    assert answer["diff"] == {"prepared": ""}
    assert performed == [("gpu", False), ("clocks", False)]
    assert answer["steps"][0] == {
        "name": "gpu",
        "blocking": True,
        "verdict": PASS,
        "summary": "gpu is so",
        "action": "",
        "changes": [],
        "details": {"n": 1},
        "seconds": 0.5,
    }


@pytest.mark.parametrize("verdict", [FAIL, UNKNOWN])
def test_failed_blocking_steps_fail_the_task_and_are_all_listed(
    fake_steps: FakeSteps, run_module: RunModule, warned: list[str], verdict: str
) -> None:
    fake_steps(("gpu", verdict, True, ()), ("scratch", verdict, True, ("made it",)), ("clocks", FAIL, False, ()))
    answer = run_module(node_boot.main)
    assert answer["failed"] is True
    assert answer["msg"] == "gpu: gpu is so. To do: mend it. scratch: scratch is so. To do: mend it."
    assert answer["blocking"] == ["gpu", "scratch"]
    assert len(answer["steps"]) == 3
    assert answer["changed"] is True
    assert warned == ["clocks: clocks is so. To do: mend it."]


@pytest.mark.parametrize(("verdict", "blocking"), [(WARN, True), (WARN, False), (FAIL, False), (UNKNOWN, False)])
def test_a_verdict_that_does_not_block_is_a_warning(
    fake_steps: FakeSteps, run_module: RunModule, warned: list[str], verdict: str, blocking: bool
) -> None:
    fake_steps(("demo", verdict, blocking, ()))
    answer = run_module(node_boot.main)
    assert answer.get("failed", False) is False
    assert len(warned) == 1
    assert warned[0].startswith("demo: demo is so.")


def test_changes_are_listed_per_step(fake_steps: FakeSteps, run_module: RunModule) -> None:
    fake_steps(("gpu", PASS, True, ("load it",)), ("scratch", WARN, True, ("make it", "mount it")))
    answer = run_module(node_boot.main)
    assert answer["changed"] is True
    assert answer["diff"] == {"prepared": "gpu: load it\nscratch: make it\nscratch: mount it\n"}


def test_check_mode_changes_nothing_and_warns_of_blocking_steps(
    fake_steps: FakeSteps, run_module: RunModule, warned: list[str]
) -> None:
    performed = fake_steps(("gpu", FAIL, True, ("load it",)))
    answer = run_module(node_boot.main, check_mode=True)
    assert performed == [("gpu", True)]
    assert (answer["changed"], answer.get("failed", False), answer["blocking"]) == (True, False, ["gpu"])
    assert "slurmd would not start" in warned[0]


def test_steps_always_run_in_the_order_of_the_boot(fake_steps: FakeSteps, run_module: RunModule) -> None:
    performed = fake_steps(("gpu", PASS, True, ()), ("scratch", PASS, True, ()), ("clocks", PASS, False, ()))
    run_module(node_boot.main, steps=["clocks", "gpu"])
    assert [name for name, _check in performed] == ["gpu", "clocks"]


def test_refuses_an_unknown_step_before_running_any(fake_steps: FakeSteps, run_module: RunModule) -> None:
    performed = fake_steps(("gpu", PASS, True, ()))
    answer = run_module(node_boot.main, steps=["gpu", "gpus"])
    assert (answer["failed"], answer["msg"]) == (True, "there is no step gpus: the steps are gpu")
    assert performed == []
