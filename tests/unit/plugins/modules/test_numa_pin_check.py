# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module numa_pin_check on a recorded machine's files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_ins.machine_tree import MachineTree, nd_a100_v4

from ansible_collections.hpcai.azure.plugins.modules import numa_pin_check

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """An ND A100 v4 with two ranks that share a CPU."""
    tree = nd_a100_v4(tmp_path)
    for rank, cpus in enumerate(("0-11", "11-12")):
        tree.process(50 + rank, cpus, environment={"LOCAL_RANK": str(rank)})
    return tree


@pytest.mark.parametrize("check_mode", [False, True])
def test_reports_findings_and_changes_nothing(run_module: RunModule, tree: MachineTree, check_mode: bool) -> None:
    before = {file: file.stat().st_mtime_ns for file in tree.path.rglob("*") if file.is_file()}
    answer = run_module(numa_pin_check.main, check_mode, root=str(tree.path), processes="xhpl")
    assert (answer["_exit"], answer["changed"], answer["verdict"]) == (0, False, "bad")
    assert [rank["pids"] for rank in answer["ranks"]] == [[50], [51]]
    assert answer["findings"][0]["code"] == "overlap"
    assert answer["advice"]["line"].startswith("srun --ntasks-per-node=2 ")
    assert {file: file.stat().st_mtime_ns for file in tree.path.rglob("*") if file.is_file()} == before


def test_fails_on_a_selected_code_in_one_line_with_all_findings(run_module: RunModule, tree: MachineTree) -> None:
    answer = run_module(numa_pin_check.main, root=str(tree.path), processes="xhpl", fail_on=["overlap"])
    assert answer["_exit"] == 1
    assert answer["msg"] == (
        "The pinning has problems. [overlap] Ranks 0-1 share CPUs 11. Start them with the recommended launch line."
    )
    assert answer["findings"][0]["pids"] == [50, 51]


def test_does_not_fail_on_codes_that_are_not_selected(run_module: RunModule, tree: MachineTree) -> None:
    assert run_module(numa_pin_check.main, root=str(tree.path), processes="xhpl", fail_on=["unpinned"])["_exit"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fail_on": ["error"]}, "fail_on judges processes, but none are selected: set processes, pids,"),
        ({"fail_on": ["error"], "pids": []}, "fail_on judges processes, but none are selected"),
        ({"cgroup": ""}, "cgroup '' would select every process"),
        ({"cgroup": "/"}, "cgroup '/' would select every process"),
        ({"cgroup": "jobs/.."}, "cgroup 'jobs/..' would select every process"),
        ({"cgroup": "/sys/fs/cgroup"}, "cgroup '/sys/fs/cgroup' would select every process"),
        ({"ranks_per_node": 0}, "ranks_per_node must be at least 1, not 0."),
        ({"ranks_per_node": 0, "processes": "xhpl"}, "ranks_per_node must be at least 1, not 0."),
        ({"threads_per_rank": 0, "processes": "xhpl"}, "threads_per_rank must be at least 1, not 0."),
    ],
)
def test_refuses_fail_on_without_processes_and_counts_of_zero(
    run_module: RunModule, tree: MachineTree, options: dict[str, Any], words: str
) -> None:
    tree.cgroup("", [50, 51])
    answer = run_module(numa_pin_check.main, root=str(tree.path), **options)
    assert answer["failed"] is True
    assert answer["msg"].startswith(words)


def test_the_verdict_is_unknown_without_processes(run_module: RunModule, tree: MachineTree) -> None:
    answer = run_module(numa_pin_check.main, root=str(tree.path))
    assert (answer["verdict"], answer["advice"]["ranks_per_node"]) == ("unknown", 8)


def test_a_missing_process_is_never_a_pass(run_module: RunModule, tree: MachineTree) -> None:
    asked = {"root": str(tree.path), "processes": "nothing"}
    assert run_module(numa_pin_check.main, **asked)["verdict"] == "unknown"
    assert "[no_process]" in run_module(numa_pin_check.main, **asked, fail_on=["unpinned"])["msg"]


def test_recommends_masks_of_whole_domains_for_a_size(run_module: RunModule, tree: MachineTree) -> None:
    answer = run_module(
        numa_pin_check.main, root=str(tree.path), vm_size="nd96asr_v4", ranks_per_node=8, masks="whole_domain"
    )
    assert (
        "--cpu-bind=mask_cpu:ffffff000000,ffffff000000,ffffff,ffffff,ffffff000000000000000000,"
        "ffffff000000000000000000,ffffff000000000000,ffffff000000000000 "
    ) in answer["advice"]["line"]
    assert [rank["gpus"] for rank in answer["advice"]["ranks"]] == [[index] for index in range(8)]


def test_accepts_a_size_that_the_user_describes(run_module: RunModule, tmp_path: Path) -> None:
    sizes = {"Standard_Mine": {"numa_nodes": [{"id": 0, "cpus": "0-1"}, {"id": 1, "cpus": "2-3"}]}}
    answer = run_module(
        numa_pin_check.main, root=str(tmp_path), vm_size="mine", vm_sizes=sizes, launcher="openmpi", threads_per_rank=2
    )
    assert answer["advice"]["line"] == "mpirun -np 2 --map-by ppr:1:numa:pe=2 --bind-to core -x OMP_NUM_THREADS=2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vm_size": "nd96asr_v5"}, "nearest known sizes"),
        ({"fail_on": ["unpined"]}, "unpined is neither a finding's code nor a severity"),
        ({"processes": "("}, "not a valid regular expression"),
        ({"pids": [1], "slurm_job_id": 2}, "Set only one of"),
        ({"ranks_per_node": 1000}, "cannot have one core each"),
    ],
)
def test_invalid_options_fail_in_one_line(
    run_module: RunModule, tree: MachineTree, options: dict[str, Any], message: str
) -> None:
    answer = run_module(numa_pin_check.main, root=str(tree.path), **options)
    assert answer["_exit"] == 1
    assert message in answer["msg"]
    assert "\n" not in answer["msg"]


def test_a_root_without_cpus_is_an_error(run_module: RunModule, tmp_path: Path) -> None:
    assert "lists no CPU" in run_module(numa_pin_check.main, root=str(tmp_path))["msg"]


def test_takes_the_used_gpus_from_the_driver(
    run_module: RunModule, tree: MachineTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = {50: ("0001:00:00.0",), 51: ("0003:00:00.0",)}
    monkeypatch.setattr(numa_pin_check, "compute_processes", lambda _root: use)
    answer = run_module(numa_pin_check.main, root=str(tree.path), processes="xhpl")
    assert [rank["gpus"] for rank in answer["ranks"]] == [[0], [2]]
    assert "far_from_gpu" in {finding["code"] for finding in answer["findings"]}


def test_a_missing_root_is_refused(run_module: RunModule) -> None:
    answer = run_module(numa_pin_check.main, root="/there/is/none")
    assert answer["msg"] == "root /there/is/none: there is no such folder"
