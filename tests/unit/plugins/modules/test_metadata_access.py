# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module metadata_access: its result, check mode, a second run, and state absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.modules import metadata_access

from ..module_utils._node.setup.metadata.machine import Machine
from .conftest import RunModule

MAIN = metadata_access.main


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that the module treats as the running one."""
    played = Machine(tmp_path)
    monkeypatch.setattr(metadata_access, "Root", lambda _path: Root(str(tmp_path)))
    monkeypatch.setattr(metadata_access, "run", played.run)
    return played


def test_check_mode_predicts_the_run_and_a_second_run_changes_nothing(
    machine: Machine, run_module: RunModule, warned: list[str]
) -> None:
    foreseen = run_module(MAIN, check_mode=True, users=["telegraf"])
    assert (machine.loaded, machine.commands) == (None, [])
    done = run_module(MAIN, users=["telegraf"])
    for key in ("changed", "files", "commands", "diff"):
        assert done[key] == foreseen[key], key
    assert done["changed"] is True
    assert "meta skuid { 0, 998 } accept" in str(machine.loaded)
    again = run_module(MAIN, users=["telegraf"])
    assert (again["changed"], again["files"], again["commands"], again["diff"]) == (False, [], [], [])
    assert warned == []


def test_missing_rules_are_loaded_again(machine: Machine, run_module: RunModule) -> None:
    run_module(MAIN)
    machine.loaded = None
    foreseen, done = run_module(MAIN, check_mode=True), run_module(MAIN)
    assert foreseen["commands"] == done["commands"] == ["reload"]
    assert done["reasons"] == ["the kernel has no table inet hpcai_metadata"]
    assert run_module(MAIN)["changed"] is False


def test_absent_warns_each_time_and_changes_once(machine: Machine, run_module: RunModule, warned: list[str]) -> None:
    run_module(MAIN)
    foreseen, done = run_module(MAIN, check_mode=True, state="absent"), run_module(MAIN, state="absent")
    assert (foreseen["files"], done["changed"], machine.loaded) == (done["files"], True, None)
    assert run_module(MAIN, state="absent")["changed"] is False
    assert len(warned) == 3
    assert "a job can take the node's identity" in warned[2]


def test_absent_does_not_warn_if_azure_enforces_access_control(
    machine: Machine, run_module: RunModule, warned: list[str]
) -> None:
    machine.file("etc/azure/proxy-agent.json", "{}")
    status = '{"keyLatchStatus": {"states": {"secureChannelState": "Wireserver Enforce - IMDS Enforce"}}}'
    machine.file("var/log/azure-proxy-agent/status.json", status)
    done = run_module(MAIN, state="absent")
    assert done["security_protocol"] == "Wireserver Enforce - IMDS Enforce"
    assert warned == []


def test_an_unknown_user_fails_in_one_line(machine: Machine, run_module: RunModule) -> None:
    failed = run_module(MAIN, users=["nobody-here"])
    assert failed["msg"].startswith("user 'nobody-here' does not exist on this machine. Create it first")
    assert machine.loaded is None
