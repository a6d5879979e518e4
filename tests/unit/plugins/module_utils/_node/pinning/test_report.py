# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of a report: as data for programs, and as text for people."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.advise import AdviceError
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import PinningOptions, Report, check
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.finding import CODES
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.rank import GpuUse
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.report import as_data, as_text, refusal
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import Selection
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

ALL = Selection("xhpl|mpirun")


def report_on(tree: MachineTree, options: PinningOptions) -> Report:
    """Return the report on a tree."""
    return check(Root(str(tree.path)), options, lambda _root: None)


@pytest.fixture
def job(nd: MachineTree) -> MachineTree:
    """Two ranks that overlap, one of them far from its GPU, and their launcher."""
    nd.process(40, "0-95", "mpirun")
    nd.process(50, "24-35", environment={"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "0"}, command="./xhpl --key=s3cret")
    nd.process(51, "35-36", environment={"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "2"})
    return nd


def test_the_text_has_tables_findings_and_a_launch_line(job: MachineTree) -> None:
    text = as_text(report_on(job, PinningOptions(ALL)))
    lines = [line.split() for line in text.splitlines()]
    assert ["1", "24-47", "24-47", "0-1", "mlx5_ib0,mlx5_ib1"] in lines
    assert ["0", "50", "xhpl", "1", "24-35", "1", "0", "(assumed)", "error"] in lines
    assert ["1", "51", "xhpl", "1", "35-36", "1", "2", "(assumed)", "error"] in lines
    assert "Also matched, but not ranks: mpirun (40)" in text
    assert "ERROR overlap: Ranks 0-1 share CPUs 35. Start them with the recommended launch line." in text
    # The number of ranks is that of the ranks found.
    assert "srun --ntasks-per-node=2 --gpus-per-node=8 --cpu-bind=mask_cpu:" in text


def test_the_data_has_the_same_content_and_can_be_written_as_json(job: MachineTree) -> None:
    data = json.loads(json.dumps(as_data(report_on(job, PinningOptions(ALL)))))
    assert data["verdict"] == "bad"
    rank = data["ranks"][0]
    assert (rank["rank"], rank["cpus"], rank["mask"], rank["nodes"], rank["gpus"]) == (
        0,
        "24-35",
        "fff000000",
        [1],
        [0],
    )
    assert rank["threads_by_cpus"] == {"24-35": 1}
    assert data["findings"][0] == {
        "code": "overlap",
        "severity": "error",
        "text": "Ranks 0-1 share CPUs 35.",
        "action": "Start them with the recommended launch line.",
        "ranks": ["0", "1"],
        "pids": [50, 51],
        "cpus": "35",
        "nodes": [1],
        "gpus": [],
    }
    assert data["others"] == [{"pid": 40, "name": "mpirun", "threads": 1}]
    assert data["advice"]["ranks_per_node"] == 2
    assert data["machine"]["nodes"][1] == {
        "node": 1,
        "cpus": "24-47",
        "gpus": [0, 1],
        "hcas": ["mlx5_ib0", "mlx5_ib1"],
    }


def test_command_lines_are_not_in_the_output(job: MachineTree) -> None:
    report = report_on(job, PinningOptions(ALL))
    assert "s3cret" not in as_text(report) + json.dumps(as_data(report))


def test_without_processes_there_is_only_advice(nd: MachineTree) -> None:
    report = report_on(nd, PinningOptions())
    data = as_data(report)
    assert (data["verdict"], data["ranks"], data["findings"]) == ("unknown", [], [])
    assert data["advice"]["ranks_per_node"] == 8
    assert "RANK  GPUS  NODE  CPUS   MASK" in as_text(report)


def test_advice_for_a_size_needs_no_machine(tmp_path: Path) -> None:
    report = report_on(MachineTree(tmp_path), PinningOptions(size=find_size("nd96asr_v4")))
    data = as_data(report)
    assert (data["advice"]["vm_size"], data["machine"]["origin"]) == ("Standard_ND96asr_v4", "Standard_ND96asr_v4")
    assert data["verdict"] == "unknown"


def test_processes_are_judged_on_their_machine_with_advice_for_any_size(job: MachineTree) -> None:
    data = as_data(report_on(job, PinningOptions(ALL, size=find_size("ND96isr_H100_v5"), ranks_per_node=8)))
    assert data["machine"]["origin"] == "machine"
    assert data["advice"]["vm_size"] == "Standard_ND96isr_H100_v5"
    assert data["verdict"] == "bad"


def test_findings_are_reported_even_without_advice(job: MachineTree) -> None:
    report = report_on(job, PinningOptions(ALL, ranks_per_node=1000))
    data = as_data(report)
    assert data["advice"] is None
    assert "cannot have one core each" in data["no_advice"]
    assert "No advice: " in as_text(report)
    assert data["findings"]
    with pytest.raises(AdviceError):
        report_on(job, PinningOptions(ranks_per_node=1000))


@pytest.mark.parametrize(
    ("fail_on", "words"),
    [([], ""), (["shared_domain"], ""), (["overlap"], "[overlap] Ranks 0-1 share CPUs 35."), (["error"], "[overlap]")],
)
def test_fail_on_selects_by_code_and_severity_on_one_line(job: MachineTree, fail_on: list[str], words: str) -> None:
    message = refusal(report_on(job, PinningOptions(ALL)), fail_on)
    assert bool(message) == bool(words)
    assert words in message
    assert "\n" not in message


def test_fail_on_fails_if_no_process_was_judged(nd: MachineTree) -> None:
    report = report_on(nd, PinningOptions(ALL))
    assert "[no_process]" in refusal(report, ["shared_domain"])
    assert refusal(report, []) == ""


def test_the_driver_is_asked_only_with_processes_and_gpus(job: MachineTree, tmp_path: Path) -> None:
    asked: list[Root] = []

    def use(root: Root) -> GpuUse:
        asked.append(root)
        return {50: ("0003:00:00.0",)}

    root = Root(str(job.path))
    check(root, PinningOptions(), use)
    bare = MachineTree(tmp_path / "bare").cpus("0-1").node(0, "0-1").process(5, "0")
    check(Root(str(bare.path)), PinningOptions(ALL), use)
    assert asked == []
    # For a captured tree, too: the caller supplies the use of its GPUs.
    assert as_data(check(root, PinningOptions(ALL), use))["ranks"][0]["gpus"] == [2]
    assert asked == [root]


def test_ranks_with_the_same_number_have_their_own_verdicts(nd: MachineTree) -> None:
    nd.process(50, "0-11", environment={"LOCAL_RANK": "0"}).process(60, "20-30", environment={"LOCAL_RANK": "0"})
    nd.process(61, "48-59", environment={"LOCAL_RANK": "1"}).process(62, "72-83", environment={"LOCAL_RANK": "2"})
    assert [rank["verdict"] for rank in as_data(report_on(nd, PinningOptions(ALL)))["ranks"]] == [
        "good",
        "error",
        "good",
        "good",
    ]


def test_the_guide_lists_every_finding_with_its_severity() -> None:
    guide = (Path(__file__).parents[6] / "docs/docsite/rst/guide_pinning.rst").read_text(encoding="utf-8")
    listed = re.findall(r"\* - ``(\w+)``\n     - (\w+)\n", guide)
    assert dict(listed) == {code: severity for code, (severity, _meaning) in CODES.items()}
