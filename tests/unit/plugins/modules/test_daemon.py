# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module daemon against a systemd that is played here."""

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
    """One service, started at a time that only moves when it is restarted; remembers what was asked of it."""

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
        """Stand in for the runner."""
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
    """How long the module slept, which takes no time here."""
    times: list[float] = []
    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=times.append))
    return times


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the module warned of. In a test's process Ansible shows a warning at once and does not return it."""
    warnings: list[str] = []
    monkeypatch.setattr(daemon.AnsibleModule, "warn", lambda _module, warning: warnings.append(warning))
    return warnings


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> Systemd:
    """A service that runs and is enabled."""
    played = Systemd()
    monkeypatch.setattr(daemon, "run", played.run)
    return played


@pytest.fixture
def key(tmp_path: pathlib.Path) -> pathlib.Path:
    """A configuration file from before the service was started."""
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


def test_restarts_once_for_a_younger_file_and_says_why(
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


def test_check_mode_tells_the_same_and_does_nothing(
    systemd: Systemd, run_module: RunModule, slept: list[float]
) -> None:
    systemd.active, systemd.enabled, systemd.needs_daemon_reload = "inactive", "disabled", True
    answer = run_module(daemon.main, check_mode=True, name="munge")
    assert (answer["changed"], answer["commands"]) == (True, ["daemon-reload", "enable", "restart"])
    assert answer["diff"]["before"] == "active: inactive\nenabled: False\n"
    assert (systemd.verbs, slept) == ([], [])


def test_check_mode_foresees_a_restart_for_a_file_that_would_be_written(
    systemd: Systemd, run_module: RunModule
) -> None:
    answer = run_module(daemon.main, check_mode=True, name="munge", pending=True)
    assert (answer["changed"], answer["commands"]) == (True, ["restart"])
    assert answer["reasons"] == ["one of its files would be written first"]
    assert run_module(daemon.main, name="munge", pending=True)["changed"] is False


def test_a_stopped_service_starts_and_is_enabled(systemd: Systemd, run_module: RunModule) -> None:
    systemd.active, systemd.enabled = "inactive", "disabled"
    assert run_module(daemon.main, name="munge")["commands"] == ["enable", "restart"]
    assert run_module(daemon.main, name="munge")["changed"] is False


def test_stopping_disables_unless_told_otherwise(systemd: Systemd, run_module: RunModule) -> None:
    assert run_module(daemon.main, name="munge", state="stopped", enabled=True)["commands"] == ["stop"]
    assert run_module(daemon.main, name="munge", state="stopped")["commands"] == ["disable"]
    assert run_module(daemon.main, name="munge", state="stopped")["changed"] is False


def test_a_started_service_must_stay_up_for_a_second_by_itself(
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
def test_refuses_arguments_it_does_not_know(
    systemd: Systemd, run_module: RunModule, arguments: dict[str, Any], words: str
) -> None:
    answer = run_module(daemon.main, **arguments)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert systemd.verbs == []


def test_running_can_be_left_disabled(systemd: Systemd, run_module: RunModule) -> None:
    systemd.active, systemd.enabled = "inactive", "disabled"
    assert run_module(daemon.main, name="munge", enabled=False)["commands"] == ["restart"]


def test_fails_with_the_services_last_words_if_it_does_not_stay_up(systemd: Systemd, run_module: RunModule) -> None:
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


def test_does_not_ask_whether_a_stopped_service_is_up(
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


def test_check_mode_says_that_it_would_start_what_a_package_may_bring(
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
def test_a_unit_that_is_not_there_and_shall_not_run_is_nothing_to_speak_of(
    systemd: Systemd, run_module: RunModule, warned: list[str], check_mode: bool
) -> None:
    systemd.loaded, systemd.active, systemd.enabled = "not-found", "inactive", ""
    answer = run_module(daemon.main, check_mode=check_mode, name="munge", state="stopped")
    assert (answer["changed"], warned) == (False, [])
