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
    refuses: str = ""
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
        if verb == self.refuses:
            return Result(tuple(command), 1, "", "Job for munge.service failed.\n")
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
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The module's warnings. In this process Ansible prints warnings at once and does not return them."""
    warnings: list[str] = []
    monkeypatch.setattr(daemon.AnsibleModule, "warn", lambda _module, warning: warnings.append(warning))
    return warnings


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> Systemd:
    """A running and enabled service."""
    played = Systemd()
    monkeypatch.setattr(daemon, "run", played.run)
    return played


@pytest.fixture
def key(tmp_path: pathlib.Path) -> pathlib.Path:
    """A configuration file that is older than the service's start."""
    file = tmp_path / "munge.key"
    file.touch()
    os.utime(file, (5, 5))
    return file


def test_nothing_to_do_changes_nothing(
    systemd: Systemd, run_module: RunModule, key: pathlib.Path, slept: list[float]
) -> None:
    answer = run_module(daemon.main, name="munge", files=[str(key)])
    assert answer["_exit"] == 0
    assert (answer["changed"], answer["commands"], answer["reasons"], answer["diff"]) == (False, [], [], {})
    assert (systemd.verbs, slept) == ([], [])


def test_restarts_once_for_a_newer_file_and_gives_the_reason(
    systemd: Systemd, run_module: RunModule, key: pathlib.Path, slept: list[float]
) -> None:
    os.utime(key, (20, 20))
    first = run_module(daemon.main, name="munge", files=[str(key)], settle=0.5)
    assert (first["changed"], first["commands"]) == (True, ["restart"])
    assert first["reasons"] == [f"{key} is newer than the running process"]
    assert first["diff"]["after"] == (
        f"active: active\nenabled: True\nsystemctl restart\nbecause {key} is newer than the running process\n"
    )
    assert slept == [0.5]
    assert run_module(daemon.main, name="munge", files=[str(key)])["changed"] is False
    assert systemd.verbs == ["restart"]


def test_check_mode_predicts_all_commands_and_runs_none(
    systemd: Systemd, run_module: RunModule, slept: list[float]
) -> None:
    systemd.active, systemd.enabled, systemd.needs_daemon_reload = "inactive", "disabled", True
    answer = run_module(daemon.main, check_mode=True, name="munge")
    assert (answer["changed"], answer["commands"]) == (True, ["daemon-reload", "enable", "restart"])
    assert answer["diff"]["before"] == "active: inactive\nenabled: False\n"
    assert (systemd.verbs, slept) == ([], [])


def test_check_mode_predicts_a_restart_for_a_file_to_be_written(systemd: Systemd, run_module: RunModule) -> None:
    answer = run_module(daemon.main, check_mode=True, name="munge", pending=True)
    assert (answer["changed"], answer["commands"]) == (True, ["restart"])
    assert answer["reasons"] == ["one of its files would be written first"]
    assert run_module(daemon.main, name="munge", pending=True)["changed"] is False


def test_a_stopped_service_starts_and_is_enabled(systemd: Systemd, run_module: RunModule) -> None:
    systemd.active, systemd.enabled = "inactive", "disabled"
    assert run_module(daemon.main, name="munge")["commands"] == ["enable", "restart"]
    assert run_module(daemon.main, name="munge")["changed"] is False


def test_stopping_also_disables_unless_enabled_is_set(systemd: Systemd, run_module: RunModule) -> None:
    assert run_module(daemon.main, name="munge", state="stopped", enabled=True)["commands"] == ["stop"]
    assert run_module(daemon.main, name="munge", state="stopped")["commands"] == ["disable"]
    assert run_module(daemon.main, name="munge", state="stopped")["changed"] is False


def test_by_default_a_started_service_must_stay_up_for_a_second(
    systemd: Systemd, run_module: RunModule, slept: list[float]
) -> None:
    systemd.active = "inactive"
    run_module(daemon.main, name="munge")
    assert slept == [1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required arguments: name"),
        ({"name": "munge", "state": "started"}, "value of state must be one of: running, stopped, got: started"),
        ({"name": "munge", "enabled": "perhaps"}, "argument 'enabled' is of type"),
        ({"name": "munge", "settle": "long"}, "argument 'settle' is of type"),
    ],
)
def test_refuses_invalid_arguments(
    systemd: Systemd, run_module: RunModule, arguments: dict[str, Any], words: str
) -> None:
    answer = run_module(daemon.main, **arguments)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert systemd.verbs == []


def test_a_running_service_can_stay_disabled(systemd: Systemd, run_module: RunModule) -> None:
    systemd.active, systemd.enabled = "inactive", "disabled"
    assert run_module(daemon.main, name="munge", enabled=False)["commands"] == ["restart"]


def test_fails_with_the_last_log_line_if_the_service_does_not_stay_up(systemd: Systemd, run_module: RunModule) -> None:
    systemd.active, systemd.survives = "inactive", False
    answer = run_module(daemon.main, name="munge")
    assert answer["failed"] is True
    assert answer["_exit"] == 1
    assert answer["msg"] == "munge is failed: fatal: no such key"


def test_fails_if_systemctl_refuses(systemd: Systemd, run_module: RunModule) -> None:
    systemd.active, systemd.refuses = "failed", "restart"
    answer = run_module(daemon.main, name="munge")
    assert answer["failed"] is True
    assert answer["msg"] == "'systemctl restart munge' failed: fatal: no such key"


def test_does_not_wait_for_a_stopped_service_to_stay_up(
    systemd: Systemd, run_module: RunModule, slept: list[float]
) -> None:
    assert run_module(daemon.main, name="munge", state="stopped")["commands"] == ["disable", "stop"]
    assert slept == []


@pytest.mark.parametrize(("loaded", "check_mode"), [("not-found", False), ("masked", False), ("masked", True)])
def test_fails_for_a_unit_that_cannot_be_loaded(
    systemd: Systemd, run_module: RunModule, loaded: str, check_mode: bool
) -> None:
    systemd.loaded = loaded
    answer = run_module(daemon.main, check_mode=check_mode, name="munge")
    assert answer["failed"] is True
    assert f"systemd cannot load munge (LoadState={loaded})" in answer["msg"]
    assert systemd.verbs == []


def test_check_mode_predicts_the_start_of_a_unit_not_installed_yet(
    systemd: Systemd, run_module: RunModule, warned: list[str]
) -> None:
    systemd.loaded, systemd.active, systemd.enabled = "not-found", "inactive", ""
    answer = run_module(daemon.main, check_mode=True, name="munge")
    assert answer["_exit"] == 0
    assert (answer["changed"], answer["commands"]) == (True, ["enable", "restart"])
    assert answer["reasons"] == ["systemd does not know munge yet"]
    assert answer["diff"]["before"] == "active: inactive\nenabled: False\n"
    (warning,) = warned
    assert "systemd does not know munge. Check mode cannot tell" in warning
    assert systemd.verbs == []


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_missing_unit_that_must_be_stopped_changes_nothing(
    systemd: Systemd, run_module: RunModule, warned: list[str], check_mode: bool
) -> None:
    systemd.loaded, systemd.active, systemd.enabled = "not-found", "inactive", ""
    answer = run_module(daemon.main, check_mode=check_mode, name="munge", state="stopped")
    assert (answer["changed"], warned) == (False, [])
