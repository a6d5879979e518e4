# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each finding about several ranks, or about ranks and the machine: when it is reported, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import ND_A100_GPUS, ND_A100_NODES, MachineTree, smt_siblings

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cpuset import CpuSet
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import Inspection
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.finding import (
    CODES,
    SEVERITIES,
    check_names,
    matching,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import Selection

from .conftest import Look

BUSIDS = [f"{domain:04x}:00:00.0" for domain in (1, 2, 3, 4, 0xB, 0xC, 0xD, 0xE)]
GOOD = ("24-35", "36-47", "0-11", "12-23", "72-83", "84-95", "48-59", "60-71")
"""A rank for each GPU, each on its own CPUs."""


def start(tree: MachineTree, masks: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """Start a rank for each mask; return the use of GPUs if each rank uses the GPU of its number."""
    for rank, cpus in enumerate(masks):
        tree.process(50 + rank, cpus, environment={"LOCAL_RANK": str(rank)})
    return {50 + rank: (BUSIDS[rank],) for rank in range(min(len(masks), 8))}


def codes(found: Inspection) -> list[str]:
    """Return the codes of the findings, the worst first."""
    return [finding.code for finding in found.findings]


def test_a_well_pinned_job_has_no_findings(nd: MachineTree, look: Look) -> None:
    use = start(nd, GOOD)
    found = look(nd, use)
    assert found.findings == ()
    assert found.verdict == "good"


def test_ranks_that_share_a_whole_domain_are_good(nd: MachineTree, look: Look) -> None:
    use = start(nd, tuple(ND_A100_NODES[node] for node in ND_A100_GPUS))
    found = look(nd, use)
    assert codes(found) == ["shared_domain"] * 4
    assert {finding.ranks for finding in found.findings} == {("0", "1"), ("2", "3"), ("4", "5"), ("6", "7")}
    assert {finding.severity for finding in found.findings} == {"info"}
    assert found.verdict == "good"


def test_equal_masks_smaller_than_a_domain_overlap(nd: MachineTree, look: Look) -> None:
    start(nd, ("0", "0", "0", "24"))
    finding = look(nd).findings[0]
    assert (finding.code, finding.severity, finding.ranks, finding.cpus) == (
        "overlap",
        "error",
        ("0", "1", "2"),
        CpuSet({0}),
    )


def test_partly_equal_masks_overlap(nd: MachineTree, look: Look) -> None:
    use = start(nd, ("24-36", *GOOD[1:]))
    found = look(nd, use)
    assert codes(found) == ["overlap"]
    assert found.findings[0].cpus == CpuSet({36})
    assert found.findings[0].text == "Ranks 0-1 share CPUs 36."
    assert found.verdict == "bad"


def test_a_rank_within_the_domain_of_others_overlaps(nd: MachineTree, look: Look) -> None:
    start(nd, ("0-23", "0-23", "4"))
    assert "overlap" in codes(look(nd))


def test_unpinned_ranks_are_reported_once_each_and_not_as_overlap(nd: MachineTree, look: Look) -> None:
    start(nd, ("0-95",) * 8)
    assert set(codes(look(nd))) == {"unpinned", "use_unknown"}


def test_a_pinned_and_an_unpinned_rank_do_not_overlap(nd: MachineTree, look: Look) -> None:
    start(nd, ("0-11", "0-95"))
    assert "overlap" not in codes(look(nd))


@pytest.mark.parametrize(("second", "shared"), [("4-7", True), ("2-3,6-7", False)])
def test_shared_core(tmp_path: Path, look: Look, second: str, shared: bool) -> None:
    tree = MachineTree(tmp_path).cpus("0-7", smt_siblings(4)).node(0, "0-7")
    start(tree, ("0-3" if shared else "0-1,4-5", second))
    found = look(tree)
    assert ("shared_core" in codes(found)) == shared
    assert "overlap" not in codes(found)


def test_an_overlap_is_not_also_reported_as_shared_core(tmp_path: Path, look: Look) -> None:
    tree = MachineTree(tmp_path).cpus("0-7", smt_siblings(4)).node(0, "0-7")
    start(tree, ("0,4", "0,4", "1,5"))
    assert codes(look(tree)) == ["overlap"]


def test_idle_node_with_gpus(nd: MachineTree, look: Look) -> None:
    start(nd, ("24-35", "36-47", "0-11", "12-23", "72-83", "84-95"))
    finding = next(finding for finding in look(nd).findings if finding.code == "idle_node")
    assert (finding.severity, finding.nodes, finding.gpus, finding.cpus.as_list()) == (
        "warning",
        CpuSet({2}),
        CpuSet({6, 7}),
        "48-71",
    )


def test_with_fewer_ranks_than_numa_nodes_none_is_idle(nd: MachineTree, look: Look) -> None:
    start(nd, ("0-11", "24-35"))
    assert not {"idle_node", "uneven_spread"} & set(codes(look(nd)))


@pytest.mark.parametrize(
    ("masks", "uneven"),
    [
        (("0-3", "4-7", "8-11", "24-27", "48-51", "72-75"), True),
        (("0-3", "4-7", "24-27", "28-31", "48-51", "72-75"), False),
    ],
)
def test_uneven_spread_over_cpus(nd: MachineTree, look: Look, masks: tuple[str, ...], uneven: bool) -> None:
    start(nd, masks)
    assert ("uneven_spread" in codes(look(nd))) == uneven


def test_ranks_near_unevenly_spread_gpus_are_no_uneven_spread(tmp_path: Path, look: Look) -> None:
    tree = MachineTree(tmp_path).cpus("0-7").node(0, "0-3").node(1, "4-7")
    for index, node in enumerate((0, 0, 0, 1)):
        tree.gpu(f"000{index + 1}:00:00.0", node)
    start(tree, ("0", "1", "2", "4"))
    assert "uneven_spread" not in codes(look(tree))
    start(tree, ("0", "1", "5", "4"))
    assert "uneven_spread" in codes(look(tree))


def test_gpu_idle(nd: MachineTree, look: Look) -> None:
    use = start(nd, GOOD)
    del use[57]
    found = look(nd, use)
    assert codes(found) == ["gpu_idle", "rank_without_gpu"]
    assert found.findings[0].gpus == CpuSet({7})
    assert found.findings[1].ranks == ("7",)
    # A process outside the job uses it.
    assert codes(look(nd, {**use, 99: (BUSIDS[7],)})) == ["rank_without_gpu"]


def test_a_job_without_gpus_leaves_none_idle(nd: MachineTree, look: Look) -> None:
    start(nd, GOOD)
    assert codes(look(nd, {})) == []


def test_without_an_answer_of_the_driver_gpu_use_is_unknown(nd: MachineTree, look: Look) -> None:
    start(nd, GOOD)
    found = look(nd, None)
    assert codes(found) == ["use_unknown"]
    assert found.findings[0].severity == "info"


def test_gpu_shared(nd: MachineTree, look: Look) -> None:
    use = start(nd, GOOD)
    use[57] = (BUSIDS[6],)
    found = look(nd, use)
    assert codes(found) == ["gpu_shared", "gpu_idle"]
    assert (found.findings[0].ranks, found.findings[0].gpus) == (("6", "7"), CpuSet({6}))


@pytest.mark.parametrize(("node", "is_unknown"), [(-1, True), (1, False)])
def test_locality_unknown(tmp_path: Path, look: Look, node: int, is_unknown: bool) -> None:
    tree = MachineTree(tmp_path).cpus("0-3").node(0, "0-1").node(1, "2-3")
    tree.gpu("0001:00:00.0", node).hca("0101:00:00.0", node, "mlx5_ib0", 0)
    found = look(tree, selection=Selection())
    assert codes(found) == (["locality_unknown"] * 2 if is_unknown else [])
    assert not is_unknown or "0 (0001:00:00.0)" in found.findings[0].text


def test_cpus_restricted(nd: MachineTree, look: Look) -> None:
    nd.cgroup("job", [50], cpuset__cpus__effective="0-11").process(50, "0-11", cgroup="0::/job")
    finding = next(finding for finding in look(nd).findings if finding.code == "cpus_restricted")
    assert (finding.severity, finding.cpus.as_list()) == ("info", "12-95")
    nd.process(50, "0-11", cgroup="0::/other").cgroup("other", [50], cpuset__cpus__effective="0-95")
    assert "cpus_restricted" not in codes(look(nd))


def test_no_process_is_unknown_and_never_a_pass(nd: MachineTree, look: Look) -> None:
    found = look(nd)
    assert codes(found) == ["no_process"]
    assert found.findings[0].severity == "error"
    assert found.verdict == "unknown"


def test_a_process_id_that_does_not_exist_is_reported(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11")
    found = look(nd, selection=Selection(pids=(50, 51)))
    assert found.findings[0].code == "no_process"
    assert found.findings[0].pids == (51,)
    assert found.verdict == "unknown"
    nd.process(50, "0-95")
    assert look(nd, selection=Selection(pids=(50, 51))).verdict == "bad"


def test_threads_that_cannot_be_read_are_unknown_and_never_a_pass(nd: MachineTree, look: Look) -> None:
    nd.process(50, "0-11")
    (nd.path / "proc/50/task/50/status").unlink()
    found = look(nd)
    assert codes(found) == ["not_readable"]
    assert found.verdict == "unknown"


def test_the_worst_comes_first(nd: MachineTree, look: Look) -> None:
    start(nd, ("0-11", "0-11", "24-47", "24-47", "48-59"))
    severities = [finding.severity for finding in look(nd).findings]
    assert severities == sorted(severities, key=SEVERITIES.index)
    assert len(set(severities)) == 3


def test_findings_are_selected_by_code_and_by_severity(nd: MachineTree, look: Look) -> None:
    start(nd, ("0-11", "0-11", "24-47", "24-47", "48-59"))
    findings = look(nd).findings
    assert {finding.code for finding in matching(findings, ["info", "idle_node"])} == {
        "shared_domain",
        "use_unknown",
        "idle_node",
    }
    check_names([*SEVERITIES, *CODES], selects=True)
    with pytest.raises(ValueError, match=r"unpined .*unpinned"):
        check_names(["unpined"], selects=True)
