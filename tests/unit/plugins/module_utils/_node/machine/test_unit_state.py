# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a unit, as `systemctl show` prints it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.unit_state import (
    UnitState,
    read_unit,
    read_units,
)


@pytest.mark.parametrize(
    ("shown", "state", "is_active", "words"),
    [
        ("loaded active running success", UnitState("loaded", "active", "running", "success"), True, "active"),
        (
            "loaded failed failed exit-code",
            UnitState("loaded", "failed", "failed", "exit-code"),
            False,
            "failed (exit-code)",
        ),
        ("loaded activating start success", UnitState("loaded", "activating", "start", "success"), False, "activating"),
        (
            "not-found inactive dead success",
            UnitState("not-found", "inactive", "dead", "success"),
            False,
            "not installed",
        ),
        ("masked inactive dead success", UnitState("masked", "inactive", "dead", "success"), False, "masked"),
    ],
)
def test_a_units_state_has_a_description(shown: str, state: UnitState, is_active: bool, words: str) -> None:
    names = ("LoadState", "ActiveState", "SubState", "Result")

    def run(command: Sequence[str]) -> Result:
        assert list(command) == ["systemctl", "show", "sshd", f"--property={','.join(names)}"]
        lines = [f"{name}={value}\n" for name, value in zip(names, shown.split(), strict=True)]
        return Result(tuple(command), 0, "".join(lines), "")

    found = read_unit("sshd", run)
    assert found == state
    assert (found.is_active, found.words) == (is_active, words)


@pytest.mark.parametrize("rc", [0, 1, 127])
def test_without_systemd_the_state_is_unknown(rc: int) -> None:
    found = read_unit("sshd", lambda command: Result(tuple(command), rc, "", "System has not been booted with systemd"))
    assert (found.load, found.is_active, found.words) == ("unknown", False, "unknown")


def test_several_units_are_read_by_one_command() -> None:
    asked: list[str] = []
    runs = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\n"
    lacks = "LoadState=not-found\nActiveState=inactive\nSubState=dead\nResult=success\n"

    def run(command: Sequence[str]) -> Result:
        asked.append(" ".join(command))
        return Result(tuple(command), 0, f"{runs}\n{lacks}", "")

    found = read_units(["sshd", "munge"], run)
    assert {name: state.words for name, state in found.items()} == {"sshd": "active", "munge": "not installed"}
    assert asked == ["systemctl show sshd munge --property=LoadState,ActiveState,SubState,Result"]


def test_with_fewer_answers_than_units_all_are_unknown() -> None:
    stdout = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\n"
    found = read_units(["sshd", "munge"], lambda command: Result(tuple(command), 0, stdout, ""))
    assert {state.load for state in found.values()} == {"unknown"}
