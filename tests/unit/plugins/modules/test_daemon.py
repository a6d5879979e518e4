# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module daemon with a fake systemd."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import daemon

RunModule = Callable[..., dict[str, Any]]


@dataclasses.dataclass
class Systemd:
    """One service. Its start time changes only when it is restarted. Records the verbs of systemctl."""

    active: str = "active"
    enabled: str = "enabled"
    loaded: str = "loaded"
    needs_daemon_reload: bool = False
    # Seconds of 1 January 1970.
    started: int = 10
    survives: bool = True
    verbs: list[str] = dataclasses.field(default_factory=list)

    def run(self, command: Sequence[str]) -> Result:
        """Replace the command runner."""
        if command[0] == "journalctl":
            return Result(tuple(command), 0, "fatal: no such key\n", "")
        verb = command[1]
        if verb == "show":
            return Result(tuple(command), 0, self._shown(), "")
        if verb == "is-active":
            return Result(tuple(command), 0, f"{self.active}\n", "")
        self.verbs.append(verb)
        if verb == "restart":
            self.active, self.started = ("active" if self.survives else "failed"), 50
        elif verb == "stop":
            self.active = "inactive"
        elif verb == "daemon-reload":
            self.needs_daemon_reload = False
        else:
            self.enabled = f"{verb}d"
        return Result(tuple(command), 0, "", "")

    def _shown(self) -> str:
        started = f"Thu 1970-01-01 00:00:{self.started:02}.000000 UTC" if self.active == "active" else ""
        return (
            f"LoadState={self.loaded}\nActiveState={self.active}\nSubState=running\nUnitFileState={self.enabled}\n"
            f"ExecMainStartTimestamp={started}\nNeedDaemonReload={'yes' if self.needs_daemon_reload else 'no'}\n"
        )


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The module's pauses in seconds. They take no time in the tests."""
    times: list[float] = []
    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=times.append))
    return times


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> Systemd:
    """A running and enabled service."""
    played = Systemd()
    monkeypatch.setattr(daemon, "run", played.run)
    return played


@pytest.fixture
def key(tmp_path: pathlib.Path) -> pathlib.Path:
    """A configuration file that is newer than the service's start, and older than its next start."""
    file = tmp_path / "munge.key"
    file.touch()
    os.utime(file, (20, 20))
    return file


def test_restarts_once_for_a_newer_file_and_gives_the_reason(
    systemd: Systemd, run_module: RunModule, key: pathlib.Path, slept: list[float]
) -> None:
    first = run_module(daemon.main, name="munge", files=[str(key)], settle=0.5)
    assert (first["_exit"], first["changed"], first["commands"]) == (0, True, ["restart"])
    assert first["reasons"] == [f"{key} is newer than the running process"]
    assert first["diff"]["after"] == (
        f"active: active\nenabled: True\nsystemctl restart\nbecause {key} is newer than the running process\n"
    )
    again = run_module(daemon.main, name="munge", files=[str(key)])
    assert (again["changed"], again["commands"], again["reasons"], again["diff"]) == (False, [], [], {})
    assert (systemd.verbs, slept) == (["restart"], [0.5])


def test_check_mode_predicts_all_commands_and_runs_none(
    systemd: Systemd, run_module: RunModule, slept: list[float]
) -> None:
    systemd.active, systemd.enabled, systemd.needs_daemon_reload = "inactive", "disabled", True
    answer = run_module(daemon.main, check_mode=True, name="munge")
    assert (answer["changed"], answer["commands"]) == (True, ["daemon-reload", "enable", "restart"])
    assert answer["diff"]["before"] == "active: inactive\nenabled: False\n"
    assert (systemd.verbs, slept) == ([], [])


def test_only_check_mode_predicts_a_restart_for_a_file_to_be_written(systemd: Systemd, run_module: RunModule) -> None:
    assert run_module(daemon.main, check_mode=True, name="munge", pending=True)["commands"] == ["restart"]
    assert run_module(daemon.main, name="munge", pending=True)["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "commands", "pauses"),
    [
        ({}, ["enable", "restart"], [1]),
        ({"enabled": False}, ["restart"], [1]),
        ({"state": "stopped"}, ["disable", "stop"], []),
        ({"state": "stopped", "enabled": True}, ["stop"], []),
    ],
)
def test_by_default_a_running_service_is_enabled_and_must_stay_up_for_a_second(
    systemd: Systemd,
    run_module: RunModule,
    slept: list[float],
    arguments: dict[str, Any],
    commands: list[str],
    pauses: list[float],
) -> None:
    if "state" not in arguments:
        systemd.active, systemd.enabled = "inactive", "disabled"
    assert run_module(daemon.main, name="munge", **arguments)["commands"] == commands
    assert (systemd.verbs, slept) == (commands, pauses)
    assert run_module(daemon.main, name="munge", **arguments)["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required arguments: name"),
        ({"name": "munge", "state": "started"}, "value of state must be one of: running, stopped, got: started"),
        ({"name": "munge", "enabled": "perhaps"}, "argument 'enabled' is of type"),
        ({"name": "munge", "settle": "long"}, "argument 'settle' is of type"),
        ({"name": "munge", "settle": -1}, "settle must be seconds from 0"),
    ],
)
def test_refuses_invalid_arguments(
    systemd: Systemd, run_module: RunModule, arguments: dict[str, Any], words: str
) -> None:
    answer = run_module(daemon.main, **arguments)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert systemd.verbs == []


def test_fails_with_the_last_log_line_if_the_service_does_not_stay_up(systemd: Systemd, run_module: RunModule) -> None:
    systemd.active, systemd.survives = "inactive", False
    answer = run_module(daemon.main, name="munge")
    assert answer["failed"] is True
    assert answer["_exit"] == 1
    assert answer["msg"] == "munge is failed: fatal: no such key"


def test_only_check_mode_predicts_the_start_of_a_unit_not_installed_yet(
    systemd: Systemd, run_module: RunModule, warned: list[str]
) -> None:
    systemd.loaded, systemd.active, systemd.enabled = "not-found", "inactive", ""
    assert run_module(daemon.main, check_mode=True, name="munge", state="stopped")["changed"] is False
    assert warned == []
    answer = run_module(daemon.main, check_mode=True, name="munge")
    assert (answer["_exit"], answer["changed"], answer["commands"]) == (0, True, ["enable", "restart"])
    assert answer["diff"]["before"] == "active: inactive\nenabled: False\n"
    (warning,) = warned
    assert "systemd does not know munge. Check mode cannot tell" in warning
    answer = run_module(daemon.main, name="munge")
    assert "systemd cannot load munge (LoadState=not-found)" in answer["msg"]
    assert systemd.verbs == []
