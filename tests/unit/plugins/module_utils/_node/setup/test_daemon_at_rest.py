# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of an image at rest: no systemd runs there, and nothing may be started."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.daemon import DesiredState

RUNNING = DesiredState(running=True, enabled=True)
STOPPED = DesiredState(running=False, enabled=False)


class AtRest:
    """A fake systemctl that works on the files of a machine at rest; records the commands."""

    def __init__(self, state: str = "enabled") -> None:
        self.state = state
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str]) -> Result:
        self.commands.append(" ".join(command))
        if command[1] == "show":
            return Result(tuple(command), 1, "", "Failed to connect to bus: Host is down")
        if command[1] == "is-enabled":
            missing = "" if self.state else "Failed to get unit file state for munge.service: No such file or directory"
            return Result(tuple(command), 0 if self.state == "enabled" else 1, f"{self.state}\n", missing)
        return Result(tuple(command), 0, "", "")


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """No systemd runs here."""
    monkeypatch.setattr(daemon, "RUNNING", str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize(
    ("state", "desired", "verbs"),
    [
        ("enabled", STOPPED, ("disable",)),
        ("disabled", STOPPED, ()),
        ("enabled", RUNNING, ()),
        ("disabled", RUNNING, ("enable",)),
        ("static", STOPPED, ()),
        ("masked", STOPPED, ()),
    ],
)
def test_in_an_image_at_rest_services_are_enabled_and_not_started(
    state: str, desired: DesiredState, verbs: tuple[str, ...]
) -> None:
    facts = daemon.read_facts("munge", [], AtRest(state))
    assert facts.at_rest
    assert daemon.plan(facts, desired).verbs == verbs


@pytest.mark.usefixtures("at_rest")
def test_a_service_that_is_missing_in_an_image_at_rest_is_an_error() -> None:
    facts = daemon.read_facts("munge", [], AtRest(""))
    assert facts.unknown
    with pytest.raises(CommandFailed, match="install the package"):
        daemon.plan(facts, RUNNING)


def test_a_running_systemd_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "RUNNING", "/")
    with pytest.raises(CommandFailed, match="Host is down"):
        daemon.read_facts("munge", [], AtRest())
