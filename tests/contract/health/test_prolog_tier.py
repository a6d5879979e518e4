# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits for the cost of a prolog: processes, calls of the driver, seconds. And a prolog finds faults of a node."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from stand_ins.gpu_machine import GpuMachine
from stand_ins.played_node import REPOSITORY, PlayedNode

GPUS = 8
MAX_PROCESSES = 2
"""One for the checks, one for calls of the driver."""
MAX_CALLS = 40
"""Calls of NVML for each GPU."""

# Logs each start of a process by any code.
_COUNTING = """\
import os, subprocess, sys
sys.path.insert(0, sys.argv.pop(1))
log, fork, begin = os.environ["STARTED"], os.fork, subprocess.Popen.__init__

def note(what):
    with open(log, "a") as file:
        file.write(what + "\\n")

def noted_fork():
    note("fork")
    return fork()

def noted_begin(self, command, *given, **named):
    note("run " + " ".join(command))
    begin(self, command, *given, **named)

os.fork, subprocess.Popen.__init__ = noted_fork, noted_begin
from _node.cli.main import main
sys.exit(main())
"""


def run(node: PlayedNode, folder: pathlib.Path, *words: str) -> tuple[int, dict[str, Any], list[str]]:
    """Run a tier, and return the exit status, the document and the started processes."""
    log = folder / "started"
    log.unlink(missing_ok=True)
    core = str(REPOSITORY / "plugins/module_utils")
    command = [sys.executable, "-c", _COUNTING, core, "health", "run", *words, "--json"]
    done = node.run(*command, check=False, STARTED=str(log))
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout), log.read_text(encoding="utf-8").splitlines()


def result_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The result of a check."""
    (found,) = [check for check in document["checks"] if check["name"] == name]
    return dict(found)


def test_a_prolog_starts_few_processes_and_makes_few_calls(
    node: PlayedNode, gpus: GpuMachine, tmp_path: pathlib.Path
) -> None:
    gpus.calls()
    _status, document, started = run(node, tmp_path, "prolog")
    calls = gpus.calls()
    assert result_of(document, "gpu_count")["verdict"] == "pass"
    assert started.count("fork") <= MAX_PROCESSES
    assert 0 < len(calls) <= MAX_CALLS * GPUS, f"{len(calls)} calls"
    assert document["seconds"] < 2
    assert len(started) - started.count("fork") <= 6, "commands: each costs a job some milliseconds"


def test_the_periodic_tier_initializes_the_driver_once(
    node: PlayedNode, gpus: GpuMachine, tmp_path: pathlib.Path
) -> None:
    gpus.calls()
    _status, document, started = run(node, tmp_path, "periodic")
    assert started.count("fork") <= MAX_PROCESSES
    assert len([call for call in gpus.calls() if "nvmlInit" in call]) == 1
    assert document["seconds"] < 10


def test_a_lost_gpu_fails_the_prolog(node: PlayedNode, gpus: GpuMachine, tmp_path: pathlib.Path) -> None:
    node.tree.without("0003:00:00.0")
    gpus.play(gpus=7)
    status, document, _started = run(node, tmp_path, "prolog")
    check = result_of(document, "gpu_count")
    assert (status, document["verdict"], check["verdict"], check["fault"]) == (1, "fail", "fail", "NHC2009")
    assert "0003:00:00.0" in check["summary"]


@pytest.mark.parametrize("tier", ["prolog", "periodic"])
def test_the_record_equals_the_printed_document(node: PlayedNode, tmp_path: pathlib.Path, tier: str) -> None:
    _status, document, _started = run(node, tmp_path, tier)
    assert json.loads(node.text(f"/run/hpcai/health/{tier}.json") or "") == document


def test_a_hanging_driver_is_unknown_once_and_then_a_failure(
    node: PlayedNode, gpus: GpuMachine, tmp_path: pathlib.Path
) -> None:
    gpus.play(hang__nvmlDeviceGetCount_v2=600)
    for verdict, expected in (("unknown", 0), ("fail", 1)):
        status, document, _started = run(node, tmp_path, "prolog", "--only", "gpu_count")
        check = result_of(document, "gpu_count")
        assert (check["verdict"], status) == (verdict, expected), check["summary"]
        assert document["seconds"] < 14
