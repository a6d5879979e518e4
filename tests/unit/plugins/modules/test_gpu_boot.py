# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module gpu_boot: it saves what a node does with its GPUs at boot."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import clocks
from ansible_collections.hpcai.azure.plugins.modules import gpu_boot, gpu_clocks

RunModule = Callable[..., dict[str, Any]]
ALL: dict[str, Any] = {
    "min_driver": "550",
    "gpu_count": 8,
    "timeout": 20,
    "clocks": {"state": "max", "persistence": True, "timeout": 9},
}


class Node:
    """A machine's files, its persistence daemon, and the module."""

    def __init__(self, path: Path, run_module: RunModule) -> None:
        self.path, self.run_module = path, run_module
        self.daemon = "disabled"
        self.enabling = 0
        self.ran: list[str] = []

    def run(self, command: Sequence[str]) -> Result:
        """Respond as systemctl does."""
        line = " ".join(command)
        if line == "systemctl is-enabled nvidia-persistenced":
            return Result(tuple(command), int(self.daemon != "enabled"), f"{self.daemon}\n", "")
        self.ran.append(line)
        if not self.enabling:
            self.daemon = "enabled"
        return Result(tuple(command), self.enabling, "", "Read-only file system")

    def module(self, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        """Run the module."""
        return self.run_module(gpu_boot.main, check_mode=check_mode, **options)

    def file(self, name: str) -> str:
        """The text of a settings file, empty if it does not exist."""
        file = self.path / f"etc/hpcai/{name}.json"
        return file.read_text(encoding="utf-8") if file.exists() else ""


@pytest.fixture
def node(tmp_path: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A machine without any settings."""
    made = Node(tmp_path, run_module)
    monkeypatch.setattr(gpu_boot, "Root", lambda: Root(str(tmp_path)))
    monkeypatch.setattr(gpu_boot, "run", made.run)
    return made


def test_writes_the_settings_once(node: Node) -> None:
    checked = node.module(check_mode=True, **ALL)
    assert (checked["changed"], node.file("gpu"), node.ran) == (True, "", [])
    answer = node.module(**ALL)
    assert (answer["changed"], answer["diff"]) == (True, checked["diff"])
    assert json.loads(node.file("gpu")) == {"schema": 1, "min_driver": "550", "gpu_count": 8, "timeout": 20.0}
    assert json.loads(node.file("clocks"))["persistence"] is True
    assert node.ran == ["systemctl enable nvidia-persistenced"]
    again = node.module(**ALL)
    assert (again["changed"], again["diff"], len(node.ran)) == (False, [], 1)
    assert node.module(check_mode=True, **ALL)["changed"] is False


def test_defaults_need_no_file(node: Node) -> None:
    node.daemon = "enabled"
    assert node.module() == {**node.module(), "changed": False}
    assert (node.path / "etc").exists() is False
    node.module(min_driver="550")
    answer = node.module()
    assert (answer["changed"], node.file("gpu")) == (True, "")
    assert answer["settings"] == {"min_driver": None, "gpu_count": None, "timeout": 30.0}


def test_an_empty_file_is_removed_when_defaults_are_set(node: Node) -> None:
    """A power cut during a write may leave one, and the boot phase cannot read it."""
    node.daemon = "enabled"
    folder = node.path / "etc/hpcai"
    folder.mkdir(parents=True)
    for name in ("gpu", "clocks"):
        (folder / f"{name}.json").touch()
    options: dict[str, Any] = {"clocks": {"state": "default"}}
    assert len(node.module(check_mode=True, **options)["diff"]) == 2
    assert node.module(**options)["changed"] is True
    assert list(folder.iterdir()) == []
    assert node.module(**options)["changed"] is False


def test_clocks_stay_unchanged_if_the_option_is_not_set(node: Node) -> None:
    node.module(**ALL)
    before = node.file("clocks")
    node.module(min_driver="535")
    assert node.file("clocks") == before != ""


def test_absent_removes_both_files_and_nothing_else(node: Node) -> None:
    node.module(**ALL)
    (node.path / "etc/hpcai/node.json").touch()
    assert node.module(check_mode=True, state="absent")["changed"] is True
    assert node.module(state="absent")["changed"] is True
    assert [path.name for path in (node.path / "etc/hpcai").iterdir()] == ["node.json"]
    assert node.module(state="absent")["changed"] is False
    assert node.daemon == "enabled"


@pytest.mark.parametrize("state", ["static", "masked", "", "not-found", "enabled-runtime"])
def test_enables_the_daemon_only_if_it_is_disabled(node: Node, state: str) -> None:
    node.daemon = state
    assert node.module()["changed"] is False
    assert node.ran == []


def test_does_not_enable_the_daemon_if_persistence_daemon_is_off(node: Node) -> None:
    assert node.module(persistence_daemon=False)["changed"] is False
    assert node.daemon == "disabled"


def test_fails_if_the_daemon_cannot_be_enabled(node: Node) -> None:
    node.enabling = 1
    answer = node.module()
    assert (answer["failed"], "Read-only file system" in answer["msg"]) == (True, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_driver": "newest"}, "min_driver must be a version such as '535' or '550.54.15', not 'newest'"),
        ({"clocks": {"state": "explicit"}}, "state=explicit needs graphics_mhz or memory_mhz"),
        ({"gpu_count": -1}, "gpu_count must be a whole number of 0 or more, not -1"),
    ],
)
def test_refuses_invalid_options_before_writing(node: Node, options: dict[str, Any], words: str) -> None:
    answer = node.module(**{**ALL, **options})
    assert (answer["failed"], words in answer["msg"]) == (True, True)
    assert (node.path / "etc").exists() is False
    assert node.ran == []


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"state": "max", "persistence": True, "timeout": 9},
        {"state": "explicit", "graphics_mhz": 1095, "gpus": [0, "0001:00:00.0"], "method": "locked"},
        {"state": "default", "persistence": False, "on_unsupported": "warn"},
    ],
    ids=["defaults", "max", "explicit", "default"],
)
def test_writes_the_same_clocks_file_as_gpu_clocks(
    node: Node, run_module: RunModule, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """The role runs both modules. If they differed, each run would change the file."""
    node.module(clocks=options)
    root = node.path / "other"
    monkeypatch.setattr(gpu_clocks, "Root", lambda: Root(str(root)))
    monkeypatch.setattr(gpu_clocks, "connect", lambda *_: type("Driver", (), {"close": lambda _self: None})())
    outcome = clocks.Outcome("nvml", (), False, (), (), {})
    monkeypatch.setattr(gpu_clocks.clocks, "ensure", lambda *_: outcome)
    run_module(gpu_clocks.main, persistent=True, **options)
    assert (root / "etc/hpcai/clocks.json").read_text(encoding="utf-8") == node.file("clocks") != ""
