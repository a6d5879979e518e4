# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode pins, from its words to its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, nd_a100_v4

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN, USAGE
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.pins import COMMAND


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    """An ND A100 v4 with two ranks that share a CPU, and one that does not."""
    tree = nd_a100_v4(tmp_path).cgroup("jobs", [50, 51, 52])
    for rank, cpus in enumerate(("0-11", "11-12", "24-35")):
        tree.process(50 + rank, cpus, environment={"LOCAL_RANK": str(rank), "SLURM_JOB_ID": "7"})
    return tree


def run(tree: MachineTree, *words: str) -> int:
    """The exit status of hpcnode."""
    return main(["--root", str(tree.path), "pins", *words], (COMMAND,))


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ([], GOOD),
        (["--vm-size", "nd96asr_v4", "--launcher", "openmpi", "--masks", "whole_domain"], GOOD),
        (["--processes", "xhpl"], BAD),
        (["--job", "7"], BAD),
        (["--cgroup", "jobs"], BAD),
        (["--pids", "50,52"], GOOD),
        (["--pids", "50,52", "--fail-on", "info"], BAD),
        (["--processes", "xhpl", "--fail-on", "unpinned"], GOOD),
        (["--processes", "nothing"], UNKNOWN),
        (["--processes", "nothing", "--fail-on", "unpinned"], UNKNOWN),
        (["--pids", "50,9999"], UNKNOWN),
        (["--job", "8"], UNKNOWN),
        (["--processes", "("], USAGE),
        (["--pids", "x"], USAGE),
        (["--pids", "1", "--job", "2"], USAGE),
        (["--fail-on", "nonsense"], USAGE),
        (["--ranks", "1000"], USAGE),
        (["--ranks", "0"], USAGE),
        (["--processes", "xhpl", "--ranks", "0"], USAGE),
        (["--processes", "xhpl", "--threads", "-1"], USAGE),
        (["--fail-on", "error"], USAGE),
        (["--cgroup", ""], USAGE),
        (["--cgroup", "/sys/fs/cgroup/"], USAGE),
        # As the module calls them.
        (["--slurm-job-id", "7", "--ranks-per-node", "8", "--threads-per-rank", "4"], BAD),
        (["--masks", "other"], USAGE),
    ],
)
def test_the_exit_status_says_how_it_is(tree: MachineTree, words: list[str], status: int) -> None:
    assert run(tree, *words) == status


def test_a_folder_that_is_no_machine_cannot_be_judged(tmp_path: Path) -> None:
    assert run(MachineTree(tmp_path), "--processes", "xhpl") == UNKNOWN


def test_json_holds_findings_and_advice(tree: MachineTree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, "--processes", "xhpl", "--json", "--threads", "4") == BAD
    answer = json.loads(capsys.readouterr().out)
    text = json.dumps(answer)
    assert '"code": "overlap"' in text
    assert '"threads_per_rank": 4' in text


def test_text_is_a_table_with_findings_and_the_line(tree: MachineTree, capsys: pytest.CaptureFixture[str]) -> None:
    run(tree, "--processes", "xhpl", "--memory", "--ranks", "8")
    out = capsys.readouterr().out
    assert "RANK  PID  NAME  THREADS  CPUS   NODES  GPUS  VERDICT" in out
    assert "ERROR overlap: Ranks 0-1 share CPUs 11." in out
    assert "srun --ntasks-per-node=8" in out


def test_sizes_described_by_hand_are_known(tree: MachineTree, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"Standard_Mine": {"numa_nodes": [{"id": 0, "cpus": "0-1"}, {"id": 1, "cpus": "2-3"}]}}
    tree.write("/etc/hpcai/node.json", json.dumps({"schema": 1, "vm_sizes": sizes}))
    assert run(tree, "--vm-size", "standard_mine") == GOOD
    assert "--cpu-bind=mask_cpu:3,c" in capsys.readouterr().out


def test_a_size_that_nobody_knows_is_no_success(tree: MachineTree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, "--vm-size", "nd96asr_v5") not in (GOOD, BAD)
    assert "nearest" in capsys.readouterr().err


def test_settings_that_cannot_be_read_cannot_be_judged(tree: MachineTree) -> None:
    tree.write("/etc/hpcai/node.json", "{")
    assert run(tree) == UNKNOWN


def test_a_script_gets_only_the_line(tree: MachineTree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, "--vm-size", "nd96asr_v4", "--launcher", "cpu-bind", "--bare") == GOOD
    shown = capsys.readouterr().out
    assert shown.startswith("--cpu-bind=mask_cpu:fff000000,fff000000000,fff,")
    assert shown.count("\n") == 1
    assert shown.split() == [shown.strip()]


def test_a_script_gets_an_error_instead_of_an_empty_line(tree: MachineTree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, "--processes", "xhpl", "--ranks", "0", "--bare") == USAGE
    assert run(tree, "--job", "7", "--vm-size", "nc24ads_a100_v4", "--threads", "1000", "--bare") == USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "no advice: 1000 threads per rank do not fit" in said.err
