# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""benchmark.yml with a stand-in for hpcnode: the words that it gets, the page, and the status of the run."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]


def document(node: str, verdict: str) -> dict[str, Any]:
    """A node's results, as hpcnode bench prints them."""
    finding = {"verdict": verdict, "summary": "the rate of matrix products is low", "device": "", "hint": ""}
    check = {
        "name": "gemm",
        "verdict": verdict,
        "summary": "the rate of matrix products is low" if verdict != "pass" else "all good",
        "findings": [finding] if verdict != "pass" else [],
        "readings": [{"name": "gemm", "value": 250.0, "unit": "TFLOP/s", "device": "0001:00:00.0"}],
    }
    return {
        "schema": 1,
        "tier": "benchmark",
        "time": "2026-11-22T16:40:00Z",
        "verdict": verdict,
        "node": {"name": node},
        "checks": [check],
    }


@pytest.fixture
def play(tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook) -> Callable[..., Any]:
    """Run the playbook on an inventory of one controller and two nodes, one of which fails."""
    answer = {"schema": 1, "nodes": {"n-0": document("n-0", "pass"), "n-1": document("n-1", "fail")}}
    rows = [{"bytes": 8, "bus_gbps": 0.0004, "expected_gbps": None}]
    rows += [{"bytes": 1 << 33, "bus_gbps": 187.01, "expected_gbps": 174.2}]
    details = {"environment": {"topology file": "/etc/hpcai/nccl-topo.xml"}, "rows": rows}
    details["scaling"] = [{"nodes": 2, "bus_gbps": 187.01, "efficiency": 1.0}]
    answer |= {"runs": [{"name": "nccl_allreduce", "nodes": ["n-0", "n-1"], "details": details}, {"name": "gemm"}]}
    answer |= {"skipped": {"scratch": "there is none"}, "left_out": {"n-2": "it has a job"}}
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "answer").write_text(json.dumps(answer), encoding="utf-8")
    text = f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/words\ncat {tmp_path}/answer\nexit 1\n'
    (programs / "hpcnode").write_text(text, encoding="utf-8")
    (programs / "hpcnode").chmod(0o700)
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    nodes = {f"n-{number}": {"azure_vm_size": "Standard_ND96asr_v4", "azure_vm_id": f"v-{number}"} for number in (0, 1)}
    groups = {"hpcai_controller": {"hosts": {"ctl": here}}, "hpcai_compute": {"hosts": nodes}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}), encoding="utf-8")

    def run(*arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        extra = json.dumps({"hpcai_benchmark": "gemm,scratch", "hpcai_benchmark_nodes": "n-[0-1]", **variables})
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "ANSIBLE_ASYNC_DIR": str(tmp_path / "async")}
        words = ("-i", "hosts.yml", "hpcai.azure.benchmark", "-e", extra, *arguments)
        return ansible_playbook(tmp_path, *words, **environment)

    return run


def test_the_results_are_on_the_page_and_kept_for_the_health_report(
    play: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    done = play(hpcai_benchmark_scale=True, hpcai_benchmark_options=["--set", "size=1G"])
    assert done.returncode == 2, done.stdout + done.stderr
    words = (tmp_path / "words").read_text(encoding="utf-8").splitlines()
    assert words == [
        *("bench", "run", "gemm", "scratch", "--json", "--nodes", "n-[0-1]", "--scale"),
        *("--vm-size", "Standard_ND96asr_v4", "--set", "size=1G"),
    ]
    output = " ".join(done.stdout.split())
    assert "Health, tier benchmark, 2 nodes: 1 fail, 1 pass" in output, done.stdout
    assert "scratch: skipped: there is none" in output
    assert "n-2: not used: it has a job" in output
    # Ansible prints each line of the table as a string in JSON.
    lines = [line.strip().strip(",").strip('"') for line in done.stdout.splitlines()]
    begin = lines.index("nccl_allreduce on n-[0-1]:")
    assert [" ".join(line.split()) for line in lines[begin + 1 : begin + 5]] == [
        "topology file: /etc/hpcai/nccl-topo.xml",
        "8 B 0.000 GB/s",
        "8589934592 B 187.010 GB/s, expected about 174",
        "2 nodes: 187 GB/s, efficiency 100%",
    ]
    report = json.loads((tmp_path / "benchmark-report/report.json").read_text(encoding="utf-8"))
    assert {node["host_name"]: node["state"] for node in report["nodes"]} == {"n-0": "pass", "n-1": "fail"}
    kept = json.loads((tmp_path / "health-report/benchmarks.json").read_text(encoding="utf-8"))
    assert kept["hosts"]["n-1"]["vm_id"] == "v-1"


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"hpcai_benchmark_nodes": ""}, "Set hpcai_benchmark_nodes to the nodes"),
        ({"hpcai_benchmark": []}, "Set hpcai_benchmark to names"),
        ({"hpcai_benchmark_fail_on": "ever"}, "hpcai_benchmark_fail_on must be"),
    ],
)
def test_a_run_that_would_measure_nothing_is_refused(
    play: Callable[..., Any], tmp_path: pathlib.Path, variables: dict[str, Any], message: str
) -> None:
    done = play(**variables)
    assert done.returncode == 2
    assert message in " ".join(done.stdout.split())
    assert not (tmp_path / "words").exists()


@pytest.mark.thorough
def test_check_mode_starts_no_job(play: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    done = play("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "words").exists()
    assert not (tmp_path / "health-report").exists()
