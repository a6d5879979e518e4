# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replacing a version of the node tool while the tool starts, or while another run does the same."""

from __future__ import annotations

import fcntl
import os
import pathlib
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import only_one
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.daemon import newest
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk, layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.payload import ToolsError


def test_a_tool_that_starts_during_an_exchange_is_one_of_the_versions(machine: Any) -> None:
    machine.install("1.0")
    outputs: list[str] = []
    failures: list[str] = []
    done = threading.Event()

    def start() -> None:
        while not done.is_set():
            ran = subprocess.run([machine.path("/usr/bin/hpcnode")], capture_output=True, text=True, check=False)
            outputs.append(ran.stdout)
            failures.extend([ran.stderr] if ran.returncode else [])

    starting = threading.Thread(target=start)
    starting.start()
    number = 0
    # On a busy machine starts are slower than installations.
    while number < 60 or len(outputs) < 6:
        machine.install("2.0" if number % 2 == 0 else "1.0")
        number += 1
    done.set()
    starting.join()
    assert failures == []
    assert len(outputs) > 5, number
    assert set(outputs) <= {"1.0 1.0", "2.0 2.0"}


LATER = """\
import importlib, sys
def main():
    sys.stdout.write("started\\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(importlib.import_module("hpcai_node.about").TEXT)
    return 0
"""
"""A tool that loads a part of itself on request, as a command that runs for hours does."""


@pytest.fixture
def running(machine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A running tool of version 1.0."""
    names = machine.wanted.__globals__
    sources = names["sources"]
    monkeypatch.setitem(names, "sources", lambda version: {**sources(version), "cli/main.py": LATER.encode()})
    machine.install("1.0")
    command = [str(machine.path("/usr/bin/hpcnode"))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        yield process
        process.kill()


def trees(machine: Any) -> list[str]:
    """The versions on the disk."""
    return sorted(name.split("-")[1] for name in os.listdir(machine.path(layout.TREES)))


@pytest.mark.parametrize("then", [["2.0"], ["2.0", "1.0"], ["2.0", "1.0", "2.0"]])
def test_a_running_tool_continues_with_its_own_version(
    machine: Any, running: subprocess.Popen[str], then: list[str]
) -> None:
    for version in then:
        machine.install(version)
        assert not machine.plan(version).changed
    assert running.communicate("go on\n", timeout=60) == ("1.0 1.0", "")
    assert running.returncode == 0


def test_a_version_that_no_longer_runs_is_removed_by_the_next_upgrade(
    machine: Any, running: subprocess.Popen[str]
) -> None:
    """The second run after an upgrade changes nothing, although the first one has restarted the daemons."""
    made = machine.install("2.0")
    assert (made.remove, made.restored, trees(machine)) == ((), (), ["1.0", "2.0"])
    running.communicate("go on\n", timeout=60)
    assert not machine.install("2.0").changed
    made = machine.install("3.0")
    assert {path.rpartition("/")[2].split("-")[1] for path in made.remove} == {"1.0", "2.0"}
    assert trees(machine) == ["3.0"]


def test_at_most_two_unused_versions_stay(machine: Any) -> None:
    machine.install("2.0")
    for number in range(3):
        machine.path(f"{layout.TREES}/hpcai_node-1.{number}-0123456789ab").mkdir()
    assert len(machine.install("2.0").remove) == 1
    assert not machine.install("2.0").changed
    assert trees(machine) == ["1.0", "1.1", "2.0"]


def test_an_interrupted_build_does_not_stay(machine: Any) -> None:
    machine.install("2.0")
    aside = f"{layout.TREES}/.new-hpcai_node-1.0-0123456789ab"
    machine.path(aside).mkdir()
    assert machine.install("2.0").remove == (aside,)


def test_a_running_tool_keeps_its_wheel(machine: Any, running: subprocess.Popen[str]) -> None:
    """Version 0.1.0 imports it when it first queries the GPUs."""
    tree = machine.unpack_wheel()
    machine.install("2.0")
    assert (machine.path(layout.SITE) / "pynvml.py").exists()
    assert not machine.plan("2.0").changed
    running.communicate("go on\n", timeout=60)
    assert not machine.plan("2.0").changed
    assert {layout.SITE, f"{layout.TREES}/{tree.name}"} < set(machine.install("3.0").remove)
    assert (machine.path(layout.SITE).is_symlink(), trees(machine)) == (False, ["3.0"])


@pytest.mark.parametrize("then", [["2.0"], ["2.0", "1.0"]])
def test_a_daemon_of_another_version_is_detected_as_older(
    machine: Any, running: subprocess.Popen[str], then: list[str]
) -> None:
    """The module daemon then restarts it. A version that was kept does not become newer."""
    for version in then:
        for path in machine.path(layout.TREES).rglob("*"):
            os.utime(path, (1000, 1000))
        machine.install(version)
        found = newest([str(machine.path(layout.TOOL))])
        assert found
        assert found[1] > 1_000_000_000
    assert running.poll() is None


def test_a_version_that_was_kept_is_reused(machine: Any, running: subprocess.Popen[str]) -> None:
    before = machine.path(layout.TOOL).resolve().stat().st_ino
    machine.install("2.0")
    made = machine.install("1.0")
    assert (made.build, machine.path(layout.TOOL).resolve().stat().st_ino) == ((), before)
    assert running.poll() is None


def test_a_version_that_was_kept_and_changed_is_built_again(machine: Any, running: subprocess.Popen[str]) -> None:
    old = machine.path(layout.TOOL).resolve()
    machine.install("2.0")
    (old / "hpcai_node/about.py").write_text("TEXT = 'tampered'", encoding="utf-8")
    assert machine.install("1.0").build == (old.name,)
    assert running.communicate("go on\n", timeout=60)[0] == "1.0 1.0"


def test_absent_does_not_wait_for_running_tools(machine: Any, running: subprocess.Popen[str]) -> None:
    machine.remove()
    assert not machine.path(layout.HOME).exists()
    assert running.poll() is None


def test_a_start_that_locked_the_old_version_uses_the_new_one(machine: Any) -> None:
    """It waits for the lock while its version is removed, or is replaced and kept."""
    machine.install("1.0")
    old = machine.path(layout.TOOL).resolve()
    handle = os.open(old, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    command = [str(machine.path("/usr/bin/hpcnode"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as starting:
        while not any(os.path.realpath(entry) == str(old) for entry in _open_files(starting.pid)):
            assert starting.poll() is None
            time.sleep(0.001)
        machine.install("2.0")
        os.close(handle)
        assert starting.communicate(timeout=60) == ("2.0 2.0", "")


def test_a_user_who_locks_the_tool_does_not_stop_it(machine: Any) -> None:
    """All users can read the folders, and so can lock them, for ever."""
    machine.install("1.0")
    handles = [os.open(machine.path(folder), os.O_RDONLY) for folder in (layout.HOME, layout.TREES, layout.TOOL)]
    try:
        for handle in handles:
            fcntl.flock(handle, fcntl.LOCK_EX)
        assert machine.tool_output() == "1.0 1.0"
        machine.install("2.0")
        assert machine.tool_output() == "2.0 2.0"
    finally:
        for handle in handles:
            os.close(handle)
    assert stat.S_IMODE(machine.path(layout.LOCK).stat().st_mode) == 0o600


def test_a_run_that_does_not_finish_is_named(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("1.0")
    monkeypatch.setattr(disk, "_LOCK_S", 0)
    with only_one(str(machine.path(layout.LOCK)), 0), pytest.raises(ToolsError, match=f"process {os.getpid()} holds"):
        machine.install("2.0")


def _open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def test_a_start_without_any_version_reports_what_is_missing(machine: Any) -> None:
    machine.install("1.0")
    machine.path(layout.TOOL).unlink()
    command = [str(machine.path("/usr/bin/hpcnode"))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("FileNotFoundError: [Errno 2] No such file or directory: ")


def test_two_concurrent_runs_both_succeed(machine: Any) -> None:
    script = (
        "import sys; sys.path[:0] = sys.argv[2:];"
        "import importlib.util as u; s = u.spec_from_file_location('c', sys.argv[1]); c = u.module_from_spec(s);"
        f"s.loader.exec_module(c); import pathlib; m = c.Machine(pathlib.Path({str(machine.folder)!r}));"
        "[m.install(v) for v in ('1.0', '2.0') * 5]"
    )
    here = pathlib.Path(__file__).parent / "conftest.py"
    command = [sys.executable, "-c", script, str(here), *[path for path in sys.path if path]]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _run in range(2)]
    assert [(run.communicate(timeout=60)[1], run.returncode) for run in runs] == [("", 0)] * 2
    assert machine.tool_output() == "2.0 2.0"
    assert not machine.plan("2.0").changed
