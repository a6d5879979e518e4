# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_tools, in this process."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.layout import LOCK
from ansible_collections.hpcai.azure.plugins.modules import node_tools

RunModule = Callable[..., dict[str, Any]]
FEW = ("__init__.py", "cli/__init__.py", "cli/main.py")


@pytest.fixture(autouse=True)
def few_sources(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool of three files, because each installation compiles all of them. One test installs the complete tool."""
    if "every_source" not in request.fixturenames:
        every = disk.read_sources()
        monkeypatch.setattr(disk, "read_sources", lambda: {path: every[path] for path in FEW})


@pytest.fixture
def every_source() -> dict[str, bytes]:
    """The sources of the complete tool."""
    return disk.read_sources()


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """The root of an empty machine."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def commands_run(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the module ran."""
    commands: list[list[str]] = []

    def run(command: Sequence[str]) -> Result:
        commands.append(list(command))
        return Result(tuple(command), 0, "", "")

    monkeypatch.setattr(node_tools, "run", run)
    return commands


def paths(root: pathlib.Path) -> set[str]:
    """All paths below the root."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_check_mode_returns_the_same_diff_and_writes_nothing(root: pathlib.Path, run_module: RunModule) -> None:
    would = run_module(node_tools.main, check_mode=True, root=str(root))
    assert paths(root) == set()
    did = run_module(node_tools.main, root=str(root))
    assert would["changed"] is did["changed"] is True
    assert (would["written"], would["diff"]) == (did["written"], did["diff"])
    again = run_module(node_tools.main, root=str(root))
    assert (again["changed"], again["written"], again["removed"]) == (False, [], [])
    assert again["diff"] == {"before": "", "after": ""}


def test_restores_and_reports_an_edited_file(root: pathlib.Path, run_module: RunModule) -> None:
    run_module(node_tools.main, root=str(root))
    edited = (root / "usr/lib/hpcai/lib/hpcai_node/cli/main.py").resolve()
    original = edited.read_bytes()
    edited.write_bytes(original + b"# mine\n")
    answer = run_module(node_tools.main, root=str(root))
    shown = f"/{edited.relative_to(root)}"
    assert (answer["changed"], answer["restored"], answer["written"]) == (True, [shown], [shown])
    assert shown in answer["diff"]["before"]
    assert edited.read_bytes() == original


def test_absent_removes_everything_and_present_installs_again(root: pathlib.Path, run_module: RunModule) -> None:
    run_module(node_tools.main, root=str(root))
    gone = run_module(node_tools.main, root=str(root), state="absent")
    assert (gone["changed"], gone["written"]) == (True, [])
    assert "/usr/bin/hpcnode" in gone["removed"]
    assert not (root / "usr/lib/hpcai").exists()
    assert run_module(node_tools.main, root=str(root), state="absent")["changed"] is False
    assert run_module(node_tools.main, root=str(root))["restored"] == []


def test_launcher_runs_on_the_given_interpreter(root: pathlib.Path, run_module: RunModule) -> None:
    answer = run_module(node_tools.main, root=str(root), interpreter="/opt/python/bin/python3")
    assert answer["interpreter"] == "/opt/python/bin/python3"
    first = (root / "usr/bin/hpcnode").read_text(encoding="utf-8").splitlines()[0]
    assert first == "#!/opt/python/bin/python3 -I"
    answer = run_module(node_tools.main, root=str(root), interpreter="/usr/bin/python3")
    assert answer["written"] == ["/usr/bin/hpcnode"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"interpreter": "/opt/my python"}, "'/opt/my python' cannot run hpcnode"),
        ({"state": "latest"}, "value of state must be one of: present, absent"),
    ],
)
def test_refuses_invalid_options_and_changes_nothing(
    root: pathlib.Path, run_module: RunModule, arguments: dict[str, Any], words: str
) -> None:
    answer = run_module(node_tools.main, root=str(root), **arguments)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert paths(root) == set()


def test_refuses_to_replace_a_file_that_it_did_not_write(root: pathlib.Path, run_module: RunModule) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/hpcnode").write_text("mine", encoding="utf-8")
    answer = run_module(node_tools.main, root=str(root))
    assert answer["msg"] == "/usr/bin/hpcnode was not made by this module. Move it away"


def test_a_full_disk_is_an_error_in_one_line(
    root: pathlib.Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device", "/usr/lib/hpcai")

    monkeypatch.setattr(node_tools.disk, "apply", full)
    answer = run_module(node_tools.main, root=str(root))
    assert answer["msg"] == "[Errno 28] No space left on device: '/usr/lib/hpcai'"


def test_does_not_call_systemd_for_another_root(
    root: pathlib.Path, run_module: RunModule, commands_run: list[list[str]]
) -> None:
    run_module(node_tools.main, root=str(root))
    assert commands_run == []


@pytest.mark.parametrize(("booted", "commands"), [(True, [["systemctl", "daemon-reload"]]), (False, [])])
def test_reloads_a_running_systemd_once_after_a_change(
    root: pathlib.Path,
    run_module: RunModule,
    commands_run: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    booted: bool,
    commands: list[list[str]],
) -> None:
    if booted:
        (root / "run/systemd/system").mkdir(parents=True)

    class ThisMachine(Root):
        @property
        def is_this_machine(self) -> bool:
            return True

        def at(self, path: str) -> str:
            return str(root / path.lstrip("/"))

    monkeypatch.setattr(node_tools, "existing_root", ThisMachine)
    run_module(node_tools.main, check_mode=True)
    assert commands_run == []
    run_module(node_tools.main)
    assert commands_run == commands
    run_module(node_tools.main)
    assert commands_run == commands


def test_installed_files_are_complete_and_readable_by_all_users(
    root: pathlib.Path, run_module: RunModule, every_source: dict[str, bytes]
) -> None:
    before = os.umask(0o077)
    try:
        run_module(node_tools.main, root=str(root))
    finally:
        os.umask(before)
    package = root / "usr/lib/hpcai/lib/hpcai_node"
    assert {str(path.relative_to(package)) for path in package.rglob("*.py")} == set(every_source)
    for path in (root / "usr/lib/hpcai").rglob("*"):
        if not path.is_symlink() and path != root / LOCK.lstrip("/"):
            assert path.stat().st_mode & 0o7777 == (0o755 if path.is_dir() else 0o644), path
    assert (root / "usr/bin/hpcnode").stat().st_mode & 0o7777 == 0o755


def test_a_missing_root_is_refused(run_module: RunModule) -> None:
    answer = run_module(node_tools.main, root="/there/is/none")
    assert answer["msg"] == "root /there/is/none: there is no such folder"
