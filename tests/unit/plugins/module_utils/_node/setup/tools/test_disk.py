# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installing the node tool on a disk: versions are replaced completely, and manual changes are reverted."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk, layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.payload import ToolsError

LIB = "/usr/lib/hpcai/lib/hpcai_node"
UNITS = "/usr/lib/systemd/system"


def test_the_installed_tool_runs(machine: Any) -> None:
    made = machine.install("1.0")
    assert machine.tool_output() == "1.0 1.0"
    assert made.changed
    assert made.restored == ()
    assert machine.path("/etc/hpcai").is_dir()
    assert machine.path("/var/lib/hpcai").is_dir()


def test_a_second_run_does_nothing(machine: Any) -> None:
    machine.install("1.0")
    assert not machine.plan("1.0").changed


@pytest.mark.parametrize(("before", "after"), [("1.0", "2.0"), ("2.0", "1.0")])
def test_any_version_replaces_any_other(machine: Any, before: str, after: str) -> None:
    machine.install(before)
    made = machine.install(after)
    assert machine.tool_output() == f"{after} {after}"
    assert made.restored == ()
    assert len(os.listdir(machine.path(layout.TREES))) == 1
    assert not machine.path(f"{LIB}/only_{before[0]}.py").exists()
    assert not machine.plan(after).changed


def test_the_same_version_with_other_sources_is_installed_again(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("1.0")
    os.utime(machine.path(f"{LIB}/about.py"), (1, 1))
    monkeypatch.setitem(
        machine.install.__globals__["sources"].__globals__, "INSIDE", "import sys; sys.stdout.write('x')"
    )
    made = machine.install("1.0")
    assert (made.build, made.restored) != ((), ())
    assert machine.tool_output() == "x"


@pytest.mark.parametrize("path", [f"{LIB}/about.py", "/usr/bin/hpcnode", f"{UNITS}/hpcai-scratch.service"])
@pytest.mark.parametrize("harm", ["edited", "removed", "mode"])
def test_manual_changes_are_reverted_and_reported(machine: Any, path: str, harm: str) -> None:
    machine.install("1.0")
    before, file = machine.files(), machine.path(path)
    if harm == "edited":
        file.write_text(f"#!/bin/false\n{layout.MARK}\n", encoding="utf-8")
    elif harm == "removed":
        file.unlink()
    else:
        file.chmod(0o777)
    made = machine.install("1.0")
    assert [restored.rpartition("/")[2] for restored in made.restored] == [file.name]
    assert (made.build, len(made.write)) == ((), 1)
    assert machine.files() == before
    assert file.stat().st_mode & 0o7777 == (0o755 if path.startswith("/usr/bin") else 0o644)
    assert machine.tool_output() == "1.0 1.0"


def test_an_edited_file_is_not_hidden_by_bytecode(machine: Any) -> None:
    """Otherwise edits for debugging have no effect, and a restored file still runs as the edited one."""
    machine.install("1.0")
    file = machine.path(f"{LIB}/about.py")
    old = file.stat()
    file.write_text(file.read_text(encoding="utf-8").replace("1.0", "9.9"), encoding="utf-8")
    os.utime(file, (old.st_atime, old.st_mtime))
    assert machine.tool_output() == "9.9 1.0"
    machine.install("1.0")
    assert machine.tool_output() == "1.0 1.0"


def test_foreign_files_among_ours_are_removed_and_reported(machine: Any) -> None:
    machine.install("1.0")
    machine.path(f"{LIB}/stray.py").write_text("", encoding="utf-8")
    machine.path(f"{LIB}/folder/deep").mkdir(parents=True)
    made = machine.install("1.0")
    assert {path.rpartition("/")[2] for path in made.remove} == {"stray.py", "folder"}
    assert set(made.restored) == set(made.remove)
    assert not machine.plan("1.0").changed


def test_a_folder_in_the_place_of_a_file_is_replaced(machine: Any) -> None:
    machine.install("1.0")
    machine.path(f"{LIB}/about.py").unlink()
    machine.path(f"{LIB}/about.py/inner").mkdir(parents=True)
    machine.install("1.0")
    assert machine.tool_output() == "1.0 1.0"
    assert not machine.plan("1.0").changed


def test_there_is_bytecode_for_each_source_and_for_nothing_else(machine: Any) -> None:
    """hpcnode itself writes none: this would change the installation, and ordinary users cannot do it."""
    machine.install("1.0")
    before = sorted(machine.folder.rglob("*.pyc"))
    assert len(before) == len(list(machine.folder.rglob("*.py")))
    for file in before:
        file.unlink()
    machine.tool_output()
    assert not list(machine.folder.rglob("*.pyc"))
    machine.install("1.0")
    assert sorted(machine.folder.rglob("*.pyc")) == before


def test_bytecode_of_another_python_is_replaced(machine: Any) -> None:
    machine.install("1.0")
    ours = next(iter(machine.path(LIB).glob("__pycache__/about.*.pyc")))
    ours.rename(ours.with_name("about.cpython-38.pyc"))
    made = machine.install("1.0")
    assert [path.rpartition("/")[2] for path in made.write] == [ours.name]
    assert [path.rpartition("/")[2] for path in made.remove] == ["about.cpython-38.pyc"]


@pytest.mark.parametrize("path", ["/usr/bin/hpcnode", f"{UNITS}/hpcai-boot.target"])
def test_foreign_files_are_not_overwritten_or_removed(machine: Any, path: str) -> None:
    machine.path(path).parent.mkdir(parents=True)
    machine.path(path).write_text("somebody's own", encoding="utf-8")
    with pytest.raises(ToolsError, match=f"{path} was not made by this module"):
        machine.install("1.0")
    assert machine.files().keys() == {path.lstrip("/"), layout.LOCK.lstrip("/")}
    machine.remove()
    assert machine.files() == {path.lstrip("/"): b"somebody's own"}


def test_a_folder_in_the_place_of_a_link_is_refused(machine: Any) -> None:
    machine.path(layout.TOOL).mkdir(parents=True)
    with pytest.raises(ToolsError, match=f"{layout.TOOL} is not the link"):
        machine.install("1.0")
    machine.remove()
    assert machine.path(layout.TOOL).is_dir()


def test_a_file_in_the_place_of_a_folder_is_refused(machine: Any) -> None:
    machine.path("/etc").mkdir()
    machine.path("/etc/hpcai").write_text("settings", encoding="utf-8")
    with pytest.raises(ToolsError, match="/etc/hpcai must be a folder"):
        machine.install("1.0")


def test_absent_removes_all_our_files_and_nothing_else(machine: Any) -> None:
    machine.install("1.0")
    machine.unpack_wheel()
    theirs = ["/etc/hpcai/node.json", "/var/lib/hpcai/clocks", f"{UNITS}/hpcai-site.service", "/usr/lib/hpcai/own"]
    for path in theirs:
        machine.path(path).write_text("theirs", encoding="utf-8")
    assert machine.remove().changed
    assert machine.files() == {path.lstrip("/"): b"theirs" for path in sorted(theirs)}
    assert not [path for path in machine.folder.rglob("*") if path.is_symlink()]
    assert not machine.remove().changed


def test_absent_from_a_clean_machine_changes_nothing(machine: Any) -> None:
    assert not machine.remove().changed


def test_the_wheel_of_an_older_version_is_removed_by_an_upgrade(machine: Any) -> None:
    machine.install("1.0")
    machine.unpack_wheel()
    made = machine.install("2.0")
    assert {layout.SITE, layout.WHEELS} < set(made.remove)
    assert made.restored == ()
    assert sorted(os.listdir(machine.path(layout.HOME))) == [".lock", "lib", "trees"]
    assert os.listdir(machine.path(layout.TREES)) == [machine.path(layout.TOOL).resolve().name]
    assert machine.tool_output() == "2.0 2.0"
    assert not machine.plan("2.0").changed


def test_a_foreign_folder_in_the_place_of_the_wheel_is_kept(machine: Any) -> None:
    machine.path(layout.SITE).mkdir(parents=True)
    machine.install("1.0")
    machine.remove()
    assert os.listdir(machine.path(layout.HOME)) == ["site"]


class Cut(Exception):
    """A power cut."""


@pytest.mark.parametrize("upgrade", [False, True])
def test_a_power_cut_at_any_moment_leaves_a_complete_tool(
    machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, upgrade: bool
) -> None:
    """Cut before each change of the disk in turn: an existing tool runs, and the next run repairs everything."""
    calls, moment = 0, 0
    outcomes: dict[Any, str] = {}

    def guard(function: Any) -> Any:
        def guarded(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == moment:
                raise Cut
            return function(*arguments, **options)

        return guarded

    real = {name: getattr(os, name) for name in ("rename", "replace", "symlink")}
    rmtree, compiled = shutil.rmtree, disk.py_compile.compile
    while True:
        moment += 1
        calls = 0
        machine.folder = tmp_path / f"cut-{moment}"
        machine.folder.mkdir()
        machine.root = type(machine.root)(str(machine.folder))
        if upgrade:
            machine.install("1.0")
        with monkeypatch.context() as patched:
            for name, function in real.items():
                patched.setattr(os, name, guard(function))
            patched.setattr(shutil, "rmtree", guard(rmtree))
            patched.setattr(disk.py_compile, "compile", guard(compiled))
            with contextlib.suppress(Cut):
                machine.install("2.0")
        complete = calls < moment
        launcher = machine.path("/usr/bin/hpcnode")
        state = (launcher.exists(), tuple(machine.files(machine.path(layout.TOOL).resolve()).items()))
        if state not in outcomes:
            outcomes[state] = machine.tool_output() if launcher.exists() else "none"
        machine.install("2.0")
        assert not machine.plan("2.0").changed
        # After a cut in the last step the old version can stay, unused, until the next upgrade.
        left = {name.split("-")[1] for name in os.listdir(machine.path(layout.TREES))}
        assert left in ({"2.0"}, {"1.0", "2.0"} if upgrade else set())
        shutil.rmtree(machine.folder)
        if complete:
            break
    assert moment > 10
    assert set(outcomes.values()) == ({"1.0 1.0", "2.0 2.0"} if upgrade else {"none", "2.0 2.0"})


def test_the_launcher_is_isolated_from_the_users_environment(machine: Any, tmp_path: pathlib.Path) -> None:
    machine.install("1.0")
    (tmp_path / "about.py").write_text("raise SystemExit('not mine')", encoding="utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit('not mine')", encoding="utf-8")
    (tmp_path / "os.py").write_text("raise SystemExit('not mine')", encoding="utf-8")
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    command = [machine.path("/usr/bin/hpcnode")]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "1.0 1.0")


def test_the_launcher_works_through_a_link(machine: Any, tmp_path: pathlib.Path) -> None:
    machine.install("1.0")
    (tmp_path / "link").symlink_to(machine.path("/usr/bin/hpcnode"))
    assert subprocess.run([tmp_path / "link"], capture_output=True, text=True, check=True).stdout == "1.0 1.0"


def test_everything_is_on_the_disk_before_it_is_used(machine: Any, synced: list[str]) -> None:
    """Otherwise a power cut after the exchange could leave empty files for the next boot."""
    machine.install("1.0")
    tree = os.readlink(machine.path(layout.TOOL)).rpartition("/")[2]
    aside = [path for path in synced if f".new-{tree}" in path]
    assert {path.rpartition("/")[2] for path in aside} >= {".about.py.new", ".main.py.new", "hpcai_node", "cli"}
    assert synced.index(str(machine.path(layout.HOME))) > max(synced.index(path) for path in aside)
