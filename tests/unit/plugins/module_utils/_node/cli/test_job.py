# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode job."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import job
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report import ask

from ..job.hooks.conftest import Node

Call = Callable[..., tuple[int, Any]]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node that this machine seems to be."""
    made = Node(tmp_path)
    made.root.__class__ = type("Root", (made.root.__class__,), {"is_this_machine": True})
    # Its paths are below the folder still.
    monkeypatch.setattr(made.root.__class__, "at", lambda self, path: f"{self.path}/{path.lstrip('/')}")
    monkeypatch.setattr(job, "Root", lambda _path: made.root)
    return made


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command and return its exit status and answer."""

    def run(*words: str) -> tuple[int, Any]:
        status = main(["job", *words, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return run


def test_run_answers_by_its_exit_status_and_names_the_cause(
    node: Node, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert call("run", "prolog")[0] == 0
    node.script("50-gpu", "echo GPU 3 is missing; exit 4")
    status, document = call("run", "prolog")
    assert (status, document["job"]) == (1, "17")
    assert document["reason"] == "hpcai: prolog: 50-gpu: GPU 3 is missing (job 17)"
    [script] = document["scripts"]
    assert (script["name"], script["cause"]) == ("50-gpu", "exit status 4")


def test_with_the_health_checks_a_script_that_fails_asks_the_arbiter(
    node: Node, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setattr(ask, "ask_for_script", partial(ask.ask_for_script, clock=iter(range(0, 900, 60)).__next__))
    node.file("/etc/hpcai/health_report.json", '{"schema": 1}')
    node.script("50-unmount", "echo cannot unmount; exit 4", "epilog")
    status, document = call("run", "epilog")
    assert (status, document["reason"]) == (0, None)
    words = "50-unmount: cannot unmount (job 17): the node stays in scheduling: no answer before the timeout"
    assert words in document["given_back"]


def test_status_tells_of_the_failure_until_a_run_passes(
    node: Node, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("status")[0] == 0
    node.script("50-gpu", "exit 4")
    node.run()
    status, document = call("status")
    assert (status, document["kinds"]["prolog"]["failure"]["cause"]) == (1, "exit status 4")
    assert main(["job", "status"]) == 1
    shown = capsys.readouterr().out
    assert "hpcai: prolog: 50-gpu: exit status 4 (job 17)" in shown
    assert "/var/log/hpcai/jobs/17.prolog.log" in shown
    node.script("50-gpu", "true")
    node.run()
    status, document = call("status")
    assert (status, bool(document["kinds"]["prolog"]["failure"]["passed"])) == (0, True)


def test_status_names_what_the_next_run_will_refuse(node: Node, call: Call) -> None:
    node.script("50-gpu", "true", "epilog", 0o777)
    status, document = call("status")
    assert status == 1
    assert "writable by group or others" in document["kinds"]["epilog"]["scripts"][0]["problem"]


def test_status_cannot_tell_with_settings_that_cannot_be_used(node: Node, call: Call) -> None:
    node.file("/etc/hpcai/job_hooks.json", "{")
    assert call("status")[0] == 2


def test_report_with_nothing_to_tell_is_good(node: Node, call: Call) -> None:
    status, document = call("report")
    assert (status, document["told"], node.waiting()) == (0, [], [])


def test_scratch_is_good_where_none_is_expected(node: Node, call: Call) -> None:
    assert call("scratch") == (0, {"schema": 1, "command": "job", "status": 0, "problem": ""})
    assert not node.path("/scratch").exists()


def test_scratch_is_left_to_the_health_checks_where_they_look_at_it(node: Node, call: Call) -> None:
    node.file("/proc/sys/kernel/random/boot_id", "one\n")
    record = {"boot_id": "one", "details": {"kind": "mount", "mountpoint": "/scratch"}}
    node.file("/run/hpcai/boot/directories.json", json.dumps(record))
    bad = (1, {"schema": 1, "command": "job", "status": 1, "problem": "the scratch /scratch is not mounted"})
    assert call("scratch", "--unless-checked") == bad
    node.script("30-health", "true")
    assert call("scratch") == bad, "a person who asks gets the answer"
    expected = {"schema": 1, "command": "job", "status": 0, "problem": "", "left_to": "30-health"}
    assert call("scratch", "--unless-checked") == (0, expected)


def test_hosts_writes_the_names_that_slurm_conf_has(node: Node, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu-0")
    monkeypatch.setenv("SLURM_CONF", "/spool/slurm.conf")
    node.file("/etc/hosts", "127.0.0.1 localhost\n")
    status, document = call("hosts")
    assert (status, document["problem"]) == (2, "no address is known for gpu-0")
    node.file("/spool/slurm.conf", "NodeName=gpu-0 NodeAddr=10.0.0.5\n")
    assert call("hosts")[0] == 0
    assert "10.0.0.5 gpu-0\n" in node.path("/etc/hosts").read_text(encoding="utf-8")
    node.file("/etc/hosts", "# BEGIN Slurm nodes, written by hpcnode job hosts\n")
    status, document = call("hosts")
    assert (status, "no line after it ends the block" in document["problem"]) == (2, True)


def test_unkillable_has_nothing_to_free_where_no_process_is(call: Call) -> None:
    status, document = call("unkillable")
    assert (status, document["freed"]) == (0, [])


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["hosts", "--root", "/tmp"],
        ["unkillable", "--root", "/tmp"],
        ["run", "proolog"],
        ["status", "prolog"],
        ["status", "--unless-checked"],
        ["run", "prolog", "--root", "/tmp"],
        ["fix"],
        [],
    ],
)
def test_wrong_usage_is_told_by_its_own_status(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", *words]) == 3
    assert capsys.readouterr().err.startswith("hpcnode")
