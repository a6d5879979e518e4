# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Slurm calls for each job, and the units that tell it why one failed."""

from __future__ import annotations

import pathlib
import subprocess
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks import kinds, record, report
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import layout, services, units

PROLOG = f"{services.LIBEXEC}/prolog"


def below(folder: pathlib.Path, text: str) -> str:
    """The program with its paths below a folder, and something to see in hpcnode's place."""
    text = text.replace("/usr/bin/hpcnode", f"echo PATH=$PATH {folder}").replace("exec echo", "echo")
    return text.replace("/etc/hpcai", f"{folder}/etc/hpcai").replace("/run/hpcai", f"{folder}/run/hpcai")


def call(folder: pathlib.Path) -> str:
    """Call the prolog as slurmd does, without a PATH, and return what it printed."""
    command = ["/bin/sh", "-c", below(folder, services.HOOKS[PROLOG])]
    done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0
    return done.stdout


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A node without scripts."""
    for kind in kinds.KINDS:
        (tmp_path / kinds.folder(kind).lstrip("/")).mkdir(parents=True)
    (tmp_path / record.FOLDER.lstrip("/")).mkdir(parents=True)
    return tmp_path


def test_programs_and_folders_are_those_of_the_kinds() -> None:
    assert list(services.HOOKS) == [f"{services.LIBEXEC}/{kind}" for kind in kinds.KINDS]
    assert set(services.HOOK_FOLDERS) == {services.LIBEXEC, *(kinds.folder(kind) for kind in kinds.KINDS)}
    for kind, text in zip(kinds.KINDS, services.HOOKS.values(), strict=True):
        assert text.startswith(f"#!/bin/sh\n{layout.MARK}\n")
        assert text.endswith(f"exec /usr/bin/hpcnode job run {kind}\n")


def test_without_scripts_no_python_is_started(folder: pathlib.Path) -> None:
    assert call(folder) == ""


@pytest.mark.parametrize("name", ["50-gpu", "README"])
def test_with_anything_in_the_folder_hpcnode_is_called_with_a_full_path(folder: pathlib.Path, name: str) -> None:
    (folder / "etc/hpcai/prolog.d" / name).write_text("", encoding="utf-8")
    said = call(folder)
    assert said.endswith("job run prolog\n")
    assert said.startswith("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ")


def test_a_dangling_link_is_something_too(folder: pathlib.Path) -> None:
    (folder / "etc/hpcai/prolog.d/50-gpu").symlink_to("/no/such/file")
    assert call(folder).endswith("job run prolog\n")


def test_after_a_failure_a_run_without_scripts_is_noted(folder: pathlib.Path) -> None:
    (folder / record.FOLDER.lstrip("/") / "prolog.json").write_text("{}", encoding="utf-8")
    assert call(folder).endswith("job run prolog\n")


def test_they_come_and_go_with_the_tool(machine: Any) -> None:
    machine.install("1.0")
    program = machine.path(PROLOG)
    assert program.read_text(encoding="utf-8") == services.HOOKS[PROLOG]
    assert program.stat().st_mode & 0o7777 == 0o755
    assert machine.path("/etc/hpcai/health.d").is_dir()
    program.chmod(0o644)
    assert machine.plan("1.0").restored == (PROLOG,)
    own = machine.path("/etc/hpcai/prolog.d/50-own")
    own.write_text("mine", encoding="utf-8")
    machine.remove()
    assert not machine.path(services.LIBEXEC).exists()
    assert own.read_text(encoding="utf-8") == "mine"


def test_the_unit_watches_what_the_runner_leaves_and_has_time_for_all_of_it() -> None:
    assert f"PathExistsGlob={record.TO_REPORT}/*.json" in units.UNITS[services.HOOK_REPORT_PATH].splitlines()
    [limit] = [line for line in units.UNITS[services.HOOK_REPORT].splitlines() if line.startswith("TimeoutStartSec=")]
    assert int(limit.partition("=")[2]) > len(kinds.SLURMS_REASONS) * (report.LIMIT_S + 15)
    assert services.HOOK_REPORT_PATH in units.ENABLED["slurmd.service.wants"]
