# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collectives: the command, the verdict by number of nodes, the expected curve, and the scaling efficiency."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.bench import collectives, expected, nccl_log
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.benchmark import Measured, Options
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.collectives import (
    NCCL_ALLGATHER,
    NCCL_ALLREDUCE,
    NCCL_ALLTOALL,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.launch import by_shell, command
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

RECORDED = (Path(__file__).parent / "recorded" / "nccl_info.txt").read_text(encoding="utf-8")
# Two GPUs per node, as in the recorded run.
TWO = Options(find_size("nd96asr_v4"), 2)
ND = Options(find_size("nd96asr_v4"), 8)
NODES = ("n-0", "n-1")


def parse(text: str, options: Options = TWO, nodes: tuple[str, ...] = NODES, rc: int = 0) -> Measured:
    """What a run says."""
    return collectives.parse(NCCL_ALLREDUCE, options, nodes, Result(("x",), rc, text, ""))


def found(measured: Measured) -> dict[str, str]:
    """The findings' summaries by verdict."""
    return {finding.verdict: finding.summary for finding in measured.answer.findings}


def test_a_good_run_has_its_bandwidth_its_latency_and_the_environment() -> None:
    measured = parse(RECORDED)
    assert measured.answer.findings == ()
    bandwidth, latency = measured.answer.readings
    assert (bandwidth.name, bandwidth.limit, bandwidth.device) == ("nccl_allreduce", 175, "2 nodes")
    assert bandwidth.value == pytest.approx(187.0, abs=0.01)
    assert (latency.name, latency.value, latency.at_most) == ("nccl_allreduce_latency", 27.18, True)
    assert "ndv4_a100_healthchecks" in measured.answer.limit
    assert measured.details["environment"]["topology file"] == "/etc/hpcai/nccl-topo.xml"
    assert [row["bytes"] for row in measured.details["rows"]] == [8, 134217728, 8589934592]
    assert all(row["expected_gbps"] for row in measured.details["rows"])


def test_two_nodes_below_the_limit_fail_and_four_nodes_only_warn() -> None:
    slow = RECORDED.replace("186.98", "120.0").replace("187.01", "120.0")
    assert "should be at least 175" in found(parse(slow))["fail"]
    measured = parse(slow, replace(TWO, gpus=1), ("n-0", "n-1", "n-2", "n-3"))
    assert "fail" not in found(measured)
    assert "should be at least 175" in found(measured)["warn"]


def test_a_limit_does_not_count_for_smaller_messages() -> None:
    """With --set to=128M a good network would fail."""
    small = "".join(line for line in RECORDED.splitlines(keepends=True) if "8589934592" not in line)
    options = replace(TWO, own={"to": "128M"})
    measured = parse(small, options)
    assert found(measured) == {}
    assert measured.answer.readings[0].limit is None
    assert measured.answer.limit.endswith("a size that was not measured")
    own = parse(small, replace(options, limits={"nccl_allreduce_internode": 200}))
    assert "should be at least 200" in found(own)["fail"]


def test_messages_are_as_large_as_those_of_the_limit() -> None:
    words = NCCL_ALLREDUCE.step(NCCL_ALLREDUCE, Options(find_size("nd96isr_h100_v5"), 8), ("n-0",)).program
    assert words[words.index("-e") + 1] == "16G"
    words = NCCL_ALLREDUCE.step(
        NCCL_ALLREDUCE, Options(find_size("nd96isr_h100_v5"), 8, own={"to": "1G"}), NODES
    ).program
    assert words[words.index("-e") + 1] == "1G"
    assert "16G" not in NCCL_ALLTOALL.step(NCCL_ALLTOALL, Options(find_size("nd96isr_h100_v5"), 8), NODES).program


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        (("187.01      0\n", "187.01     64\n"), "fail", "64 wrong values"),
        (("# Avg bus bandwidth    : 67.68 ", ""), "unknown", "printed no bandwidth"),
        (("  8589934592    2147483648", "  1073741824     268435456"), "unknown", "not 8G"),
        (("#  Rank  3", "#  Nothing"), "unknown", "it ran on 3 GPUs, not 4"),
    ],
)
def test_each_fault_of_a_run_is_found(change: tuple[str, str], verdict: str, words: str) -> None:
    assert change[0] in RECORDED
    assert words in found(parse(RECORDED.replace(*change)))[verdict]


def test_results_that_were_not_counted_are_unknown() -> None:
    assert (
        "did not check its results"
        in found(parse(RECORDED.replace("      0\n", "    N/A\n").replace("      0    ", "    N/A    ")))["unknown"]
    )


def test_a_crash_is_unknown_because_nothing_was_measured() -> None:
    assert list(found(parse("", rc=1))) == ["unknown"]


def test_a_message_far_below_the_model_warns() -> None:
    slow = RECORDED.replace("150.00", "50.00").replace("150.15", "50.10")
    assert "at 128M the bus bandwidth is" in found(parse(slow))["warn"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("NCCL_TOPO_FILE set", "something set"), "no topology file"),
        ((" [RO];", ";"), "relaxed ordering"),
        (("Bootstrap : Using eth0", "Bootstrap : Using eth1"), "over eth1, not eth0"),
        (("Using network IBext", "Using network Socket"), "through Ethernet"),
        (("device  0 [0001", "device  0 [000e"), "not numbered by PCI address"),
        (("Plugin Path : /opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so\n", "NET/Plugin : No plugin found\n"), ""),
    ],
)
def test_an_environment_that_differs_from_what_the_size_needs_warns(change: tuple[str, str], words: str) -> None:
    text = RECORDED.replace(*change)
    if not words:
        text, words = text.replace("P2P plugin IBext", "nothing"), "no network plugin"
    findings = collectives.environment_findings(nccl_log.read(text), ND.size, 2)
    assert [words in finding.summary for finding in findings] == [True]
    assert findings[0].verdict == "warn"


def test_a_single_node_needs_no_network() -> None:
    text = RECORDED.replace("Using network IBext", "Using network Socket").replace(" [RO];", ";")
    assert collectives.environment_findings(nccl_log.read(text), ND.size, 1) == []


def test_a_run_without_nccls_log_warns() -> None:
    text = "\n".join(line for line in RECORDED.splitlines() if "NCCL INFO" not in line) + "\n"
    assert "wrote no log" in found(parse(text))["warn"]


def test_the_job_has_all_cpus_the_masks_and_the_log() -> None:
    step = NCCL_ALLREDUCE.step(NCCL_ALLREDUCE, ND, NODES)
    words = command(NODES, step, replace(ND, slurm=("--partition=gpu",)), 1200)
    salloc, srun = words[words.index("salloc") : words.index("srun")], words[words.index("srun") :]
    assert {"--exclusive", "--nodelist=n-0,n-1", "--gpus-per-node=8", "--mem=0", "--immediate=60"} <= set(salloc)
    assert salloc[-1] == "--partition=gpu"
    assert "--cpu-bind=mask_cpu:fff000000,fff000000000,fff,fff000,fff000000000000000000" in " ".join(srun)
    assert {"--ntasks-per-node=8", "--kill-on-bad-exit=1", "--mpi=pmix"} <= set(srun)
    variables = set(srun[srun.index("env") : srun.index("sh")])
    assert {
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "NCCL_DEBUG=INFO",
        "OMPI_MCA_pml=ucx",
        "OMPI_MCA_btl=^openib,smcuda",
        "OMPI_MCA_coll_hcoll_enable=0",
    } <= variables
    assert words[words.index("-b") + 1 : words.index("-b") + 4] == ["8", "-e", "8G"]
    assert "/opt/nccl-tests/build/all_reduce_perf" in words


def test_hpcx_of_the_node_comes_first_if_it_is_installed(tmp_path: Path) -> None:
    for folder in ("hpcx-v2/ompi/lib", "hpcx-v2/sharp/lib"):
        (tmp_path / folder).mkdir(parents=True)
    shell, option, script, name, *program = by_shell(("sh", "-c", 'echo "$LD_LIBRARY_PATH"'), ND)
    here = script.replace("/opt/", f"{tmp_path}/")
    assert here != script
    words = [shell, option, here, name, *program]
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/usr/own"}
    shown = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.strip()
    assert shown == f"{tmp_path}/hpcx-v2/sharp/lib:{tmp_path}/hpcx-v2/ompi/lib:/usr/own"
    # Also for the collectives, in the job of a node.
    step = NCCL_ALLREDUCE.step(NCCL_ALLREDUCE, ND, NODES)
    assert any("/opt/hpcx*/ompi/lib" in word for word in command(NODES, step, ND, 1200))


def test_in_a_container_the_image_brings_the_program_and_mpi() -> None:
    options = replace(ND, container="nvcr.io#nvidia/pytorch:25.02-py3", mounts="/etc/nccl.conf:/etc/nccl.conf")
    words = command(NODES, NCCL_ALLTOALL.step(NCCL_ALLTOALL, options, NODES), options, 1200)
    assert "--container-image=nvcr.io#nvidia/pytorch:25.02-py3" in words
    assert "--container-mounts=/etc/nccl.conf:/etc/nccl.conf" in words
    assert "alltoall_perf" in words
    assert not any("/opt/hpcx" in word for word in words)


def test_an_algorithm_can_be_asked_for_by_name() -> None:
    options = replace(ND, own={"algorithm": "Tree"})
    assert NCCL_ALLREDUCE.step(NCCL_ALLREDUCE, options, NODES).environment["NCCL_ALGO"] == "Tree"
    assert "NCCL_ALGO" not in NCCL_ALLREDUCE.step(NCCL_ALLREDUCE, ND, NODES).environment


def test_the_curve_rises_with_the_message_and_falls_with_the_nodes() -> None:
    sizes = [8 << power for power in range(31)]
    curve = [expected.bus_bandwidth("all_reduce", 4, 8, size, 175) or 0 for size in sizes]
    assert curve == sorted(curve)
    assert 0.97 * 175 < curve[-1] < 175
    small = [expected.bus_bandwidth("all_reduce", nodes, 8, 1 << 20, 175) or 0 for nodes in (2, 4, 16, 64)]
    assert small == sorted(small, reverse=True)


def test_the_curve_is_nccls_own_estimate() -> None:
    # A ring over 2 x 8 ranks: 8.4 + 28 x 3.4 + 2 x 9.6 us, times 1.9, and 2 x 15/16 of the bytes at 175 GB/s.
    size = 1 << 30
    ring_us = 1.9 * (8.4 + 28 * 3.4 + 2 * 9.6) + size * 2 * 15 / 16 / 175e3
    assert expected.bus_bandwidth("all_reduce", 2, 8, size, 175) == pytest.approx(size * 2 * 15 / 16 / ring_us / 1000)
    # 8 bytes go over a tree: 4.4 + 2 (7 x 0.52 x 1.8 + 1 x 5.0) us.
    tree_us = 4.4 + 2 * (7 * 0.52 * 1.8 + 5.0)
    assert expected.bus_bandwidth("all_reduce", 2, 8, 8, 175) == pytest.approx(
        8 * 2 * 15 / 16 / tree_us / 1000, rel=1e-3
    )


def test_an_all_to_all_sends_to_other_nodes_with_each_gpus_share_of_the_network() -> None:
    # Of 16 parts, 8 go to the other node at 1/8 of 175 GB/s; the bus bandwidth counts 15.
    large = expected.bus_bandwidth("all_to_all", 2, 8, 1 << 33, 175)
    assert large == pytest.approx(175 / 8 * 15 / 8, rel=0.001)
    assert (expected.bus_bandwidth("all_to_all", 8, 8, 1 << 33, 175) or 0) < (large or 0)
    assert expected.bus_bandwidth("all_to_all", 1, 8, 1 << 33, 230) == pytest.approx(230, rel=0.001)
    sizes = [8 << power for power in range(31)]
    curve = [expected.bus_bandwidth("all_to_all", 4, 8, size, 175) or 0 for size in sizes]
    assert curve == sorted(curve)


def test_nothing_is_expected_without_a_model_or_a_limit() -> None:
    assert expected.bus_bandwidth("broadcast", 2, 8, 1 << 20, 175) is None
    assert expected.bus_bandwidth("all_reduce", 1, 1, 1 << 20, 175) is None
    assert expected.bus_bandwidth("all_reduce", 2, 8, 1 << 20, 0.0) is None
    assert expected.bus_bandwidth("all_gather", 2, 8, 1 << 20, 175) is not None


def test_the_efficiency_is_relative_to_two_nodes() -> None:
    table, findings, readings = collectives.efficiency({1: 230.0, 2: 190.0, 4: 185.0, 8: 165.0})
    assert [row["nodes"] for row in table] == [2, 4, 8]
    assert [reading.value for reading in readings] == [97.4, 86.8]
    assert [finding.verdict for finding in findings] == ["warn"]
    assert "8 nodes keep 87% of the bus bandwidth of 2 nodes" in findings[0].summary
    assert collectives.efficiency({2: 190.0}) == ([], [], [])
    assert collectives.efficiency({2: 0.0, 4: 1.0}) == ([], [], [])


def test_a_collective_without_a_limit_passes_and_says_what_it_reached() -> None:
    measured = collectives.parse(NCCL_ALLGATHER, TWO, NODES, Result(("x",), 0, RECORDED, ""))
    assert (measured.answer.findings, measured.answer.limit) == ((), "")
    assert "187 GB/s" in measured.answer.good
