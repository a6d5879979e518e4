# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""health_check.yml on nodes with recorded results: the report contains all nodes, and the run fails for bad ones.

The nodes' Python is a script that only prints the recorded result of the module.
"""

from __future__ import annotations

import json
import pathlib
import shlex
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from stand_ins.health_results import cluster

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]
Play = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def play(tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook) -> Play:
    """Run the playbook on nodes 6 to 9 of a simulated cluster. Their states: no answer, a lost GPU, healthy, slow."""
    hosts: dict[str, Any] = {}
    for one in cluster(12)[6:10]:
        hosts[one["host"]] = {**one["inventory"], "ansible_connection": "local"}
        if "health" not in one["result"]:
            hosts[one["host"]].update(ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)
            continue
        python = tmp_path / f"python-of-{one['host']}"
        python.write_text(f"#!/bin/sh\nprintf '%s' {shlex.quote(json.dumps(one['result']))}\n", encoding="utf-8")
        python.chmod(stat.S_IRWXU)
        hosts[one["host"]]["ansible_python_interpreter"] = str(python)
    children = {
        "hpcai_controller": {"hosts": {"ctl": {"ansible_connection": "local"}}},
        "hpcai_compute": {"hosts": hosts},
    }
    inventory = {"all": {"children": children, "vars": {"ansible_become": False}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")

    def run(*arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        extra = json.dumps({"hpcai_health_tier": "deep", **variables})
        return ansible_playbook(tmp_path, "-i", "hosts.yml", "hpcai.azure.health_check", "-e", extra, *arguments)

    return run


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a run, on one line."""
    return " ".join(done.stdout.split())


def test_the_report_has_all_nodes_and_the_run_fails_for_bad_ones(play: Play, tmp_path: pathlib.Path) -> None:
    done = play()

    assert done.returncode == 2, done.stdout + done.stderr
    report = json.loads((tmp_path / "health-report/report.json").read_text(encoding="utf-8"))
    assert {node["host_name"]: node["state"] for node in report["nodes"]} == {
        "compute-6": "no_answer",
        "compute-7": "fail",
        "compute-8": "pass",
        "compute-9": "fail",
    }
    assert report["nodes"][0]["vm_size"] == "Standard_ND96asr_v4"
    assert "could not be reached" in report["nodes"][0]["problem"]
    page = tmp_path / "health-report/report.html"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [stat.S_IMODE(file.stat().st_mode) for file in page.parent.iterdir()] == [0o644, 0o644]
    output = output_of(done)
    assert "Health, tier deep, 4 nodes: 2 fail, 1 no answer, 1 pass" in output
    assert "gpu_count: 7 of 8 GPUs" in output
    assert str(page) in output
    # In the recap, exactly the bad nodes have failed.
    recap = {
        line.split()[0]: "failed=1" in line for line in done.stdout.partition("PLAY RECAP")[2].splitlines()[1:] if line
    }
    assert recap == {"compute-6": True, "compute-7": True, "compute-8": False, "compute-9": True, "ctl": False}


@pytest.mark.daily(2)
@pytest.mark.parametrize(
    ("limit", "fail_on", "status"),
    [
        ("compute-8", "fail", 0),
        ("compute-8", "unknown", 0),
        ("compute-7,compute-8", "fail", 2),
        ("compute-7,compute-8", "never", 0),
        ("compute-6", "fail", 2),
        ("compute-6", "never", 0),
    ],
)
def test_a_limit_is_respected_and_reported(
    play: Play, tmp_path: pathlib.Path, limit: str, fail_on: str, status: int
) -> None:
    done = play("--limit", limit, hpcai_health_fail_on=fail_on, hpcai_health_report="out")

    assert done.returncode == status, done.stdout + done.stderr
    report = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))
    assert [node["host_name"] for node in report["nodes"]] == limit.split(",")
    assert report["limit"] == limit
    assert f"limited to {limit}" in output_of(done)


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (("--limit", "ctl"), {}, "No compute node is selected"),
        ((), {"hpcai_health_fail_on": "sometimes"}, "hpcai_health_fail_on must be never, fail or unknown"),
        ((), {"hpcai_health_tier": "depth"}, "must be boot, prolog, epilog, periodic or deep."),
    ],
)
def test_a_run_that_would_check_nothing_is_refused(
    play: Play, tmp_path: pathlib.Path, arguments: tuple[str, ...], variables: dict[str, str], message: str
) -> None:
    done = play(*arguments, **variables)

    assert done.returncode == 2
    assert message in output_of(done)
    assert not (tmp_path / "health-report").exists()


@pytest.mark.thorough
def test_an_unchanged_report_is_no_change_and_check_mode_writes_nothing(play: Play, tmp_path: pathlib.Path) -> None:
    alone = ("--limit", "compute-8")
    checked = play(*alone, "--check", "--diff")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "changed=1" in checked.stdout
    assert "+Health, tier deep, 1 node, limited to compute-8: 1 pass" in checked.stdout
    assert not (tmp_path / "health-report").exists()

    assert "changed=1" in play(*alone).stdout
    again = play(*alone)
    assert "changed=1" not in again.stdout
    (tmp_path / "health-report/report.html").chmod(0o600)
    assert "changed=1" in play(*alone).stdout
    assert stat.S_IMODE((tmp_path / "health-report/report.html").stat().st_mode) == 0o644


@pytest.mark.thorough
def test_a_folder_that_cannot_be_created_is_reported(play: Play, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    done = play("--limit", "compute-8", hpcai_health_report="file/report")
    assert done.returncode == 2
    assert "path: the report cannot be written" in output_of(done)


def test_a_search_without_nodes_is_refused(tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook) -> None:
    inventory = {"all": {"children": {"hpcai_controller": {"hosts": {"ctl": {"ansible_connection": "local"}}}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    done = ansible_playbook(tmp_path, "-i", "hosts.yml", "hpcai.azure.health_pairs")
    assert done.returncode == 2
    assert "Set hpcai_pairs to the nodes in question" in output_of(done)


@pytest.mark.daily(1)
@pytest.mark.parametrize("limit", ["compute-0", "localhost,compute-0"])
def test_a_search_without_a_controller_is_refused(
    tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook, limit: str
) -> None:
    groups = {"hpcai_controller": {"hosts": {"ctl": None}}, "hpcai_compute": {"hosts": {"compute-0": None}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}), encoding="utf-8")
    options = ("-i", "hosts.yml", "-e", "hpcai_pairs=compute-[0-1]", "--limit", limit)
    done = ansible_playbook(tmp_path, "hpcai.azure.health_pairs", *options)
    assert done.returncode == 2
    assert "No host can start the search" in output_of(done)


@pytest.mark.daily(1)
@pytest.mark.parametrize(("bad", "status"), [([], 0), (["n-2"], 2)])
def test_a_search_reports_all_runs_and_fails_for_a_bad_node(
    tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook, bad: list[str], status: int
) -> None:
    found: dict[str, Any] = {"links": [], "groups_failing": [], "unclear": []}
    found |= {"changed": False, "bad": bad, "words": "so it is", "left_out": {"n-9": "jobs are there"}}
    python = tmp_path / "python"
    answer = json.dumps({**found, "lines": ["n-[0-1]: pass, 187.3 GB/s"]})
    python.write_text(f"#!/bin/sh\nprintf '%s' {shlex.quote(answer)}\n", encoding="utf-8")
    python.chmod(stat.S_IRWXU)
    variables = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
    inventory = {"all": {"children": {"hpcai_controller": {"hosts": {"ctl": variables}}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")

    done = ansible_playbook(tmp_path, "-i", "hosts.yml", "hpcai.azure.health_pairs", "-e", "hpcai_pairs=n-[0-9]")

    assert done.returncode == status, done.stdout + done.stderr
    for line in ("so it is", "n-[0-1]: pass, 187.3 GB/s", "n-9, not measured: jobs are there"):
        assert line in done.stdout
