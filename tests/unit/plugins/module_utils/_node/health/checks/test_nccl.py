# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collectives of nccl-tests over the GPUs of a node."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    UNKNOWN,
    Answer,
    CannotMeasure,
    Context,
    History,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.nccl import (
    NCCL_ALLREDUCE,
    NCCL_ALLTOALL,
    NCCL_IB_LOOPBACK,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..deep_playing import Output, Tool, machine, recorded, set_compute_processes
from ..playing import ND_A100, context

NCCL_ALLREDUCE_PROGRAM = "opt/nccl-tests/build/all_reduce_perf"
NCCL_ALLREDUCE_OUTPUT = recorded("all_reduce_perf.txt")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    set_compute_processes(monkeypatch)


def context_with(path: pathlib.Path, answer: str | Output, **settings: object) -> tuple[Context, Tool]:
    """Return the context of a machine whose all_reduce_perf answers this, and the tool."""
    tool = Tool(answer)
    return context(machine(path, ND_A100, NCCL_ALLREDUCE_PROGRAM), tool, **settings), tool  # type: ignore[arg-type]


def verdicts(answer: Answer) -> list[str]:
    """Return the verdicts of the findings."""
    return [finding.verdict for finding in answer.findings]


def test_nccl_allreduce_passes_at_the_bandwidth_of_the_size(tmp_path: pathlib.Path) -> None:
    given, tool = context_with(tmp_path, NCCL_ALLREDUCE_OUTPUT)
    answer = NCCL_ALLREDUCE.measure(given)
    assert answer.findings == ()
    assert [(one.name, one.value, one.unit, one.limit) for one in answer.readings] == [
        ("nccl_allreduce", 232.82, "GB/s", 228)
    ]
    assert answer.limit == "at least 228 GB/s at 8G (azurehpc-health-checks, conf/<size>.conf)"
    assert tool.commands == [
        [f"/{NCCL_ALLREDUCE_PROGRAM}", "-b", "8G", "-e", "8G", "-g", "8", "-c", "1", "-w", "5", "-n", "20"],
    ]


def test_nccl_allreduce_fails_below_the_limit(tmp_path: pathlib.Path) -> None:
    given, _tool = context_with(tmp_path, NCCL_ALLREDUCE_OUTPUT.replace("232.824", "227.9"))
    (finding,) = NCCL_ALLREDUCE.measure(given).findings
    assert finding.verdict == FAIL
    assert finding.summary == "the bus bandwidth of all_reduce_perf is 227.9 GB/s, but should be at least 228"


def test_nccl_allreduce_fails_with_wrong_results_at_full_speed(tmp_path: pathlib.Path) -> None:
    given, _tool = context_with(
        tmp_path, NCCL_ALLREDUCE_OUTPUT.replace("232.81      0", "232.81     12").replace("0 OK", "12 FAILED")
    )
    (finding,) = NCCL_ALLREDUCE.measure(given).findings
    assert finding.verdict == FAIL
    assert "12 wrong values" in finding.summary


def test_nccl_allreduce_fails_with_a_crash_after_a_printed_bandwidth(
    tmp_path: pathlib.Path,
) -> None:
    crash = (
        "gpu-0: Test NCCL failure common.cu:958 'unhandled cuda error / NVLink error'\n .. gpu-0 pid 41: Test failure"
    )
    given, _tool = context_with(tmp_path, (3, f"{NCCL_ALLREDUCE_OUTPUT}{crash}\n", ""))
    answer = NCCL_ALLREDUCE.measure(given)
    assert verdicts(answer) == [FAIL]
    assert answer.readings == ()
    assert answer.findings[0].summary == ("all_reduce_perf failed (exit status 3): .. gpu-0 pid 41: Test failure")


def test_nccl_allreduce_fails_if_a_gpu_does_not_take_part(tmp_path: pathlib.Path) -> None:
    seven = "".join(line for line in NCCL_ALLREDUCE_OUTPUT.splitlines(keepends=True) if "Rank  7" not in line)
    given, _tool = context_with(tmp_path, seven)
    assert NCCL_ALLREDUCE.measure(given).findings[0].summary == "all_reduce_perf ran on 7 GPUs, but there are 8"


@pytest.mark.parametrize("output", ["", "#\n# Avg bus bandwidth    : \n", NCCL_ALLREDUCE_OUTPUT.split("# Out of")[0]])
def test_nccl_allreduce_cannot_measure_without_a_bandwidth_in_the_output(tmp_path: pathlib.Path, output: str) -> None:
    given, _tool = context_with(tmp_path, output)
    answer = NCCL_ALLREDUCE.measure(given)
    assert verdicts(answer) == [UNKNOWN]
    assert "printed no bandwidth" in answer.findings[0].summary


def test_nccl_allreduce_cannot_measure_without_the_program(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotMeasure, match=r"all_reduce_perf .* is not installed"):
        NCCL_ALLREDUCE.measure(context(machine(tmp_path, ND_A100)))


def test_nccl_allreduce_cannot_measure_without_a_library_of_the_program(tmp_path: pathlib.Path) -> None:
    output = "error while loading shared libraries: libmpi.so.40: cannot open shared object file"
    given, _tool = context_with(tmp_path, (127, "", f"all_reduce_perf: {output}\n"))
    assert verdicts(NCCL_ALLREDUCE.measure(given)) == [UNKNOWN]


def test_nccl_allreduce_cannot_measure_with_another_size_than_the_limits(tmp_path: pathlib.Path) -> None:
    given, _tool = context_with(tmp_path, NCCL_ALLREDUCE_OUTPUT.replace("  8589934592  ", "  4294967296  "))
    answer = NCCL_ALLREDUCE.measure(given)
    assert verdicts(answer) == [UNKNOWN]
    assert "not 8G" in answer.findings[0].summary


def test_nccl_allreduce_cannot_measure_while_a_gpu_is_in_use(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_compute_processes(monkeypatch, {4711: ("0001:00:00.0",)})
    given, tool = context_with(tmp_path, NCCL_ALLREDUCE_OUTPUT)
    with pytest.raises(CannotMeasure, match=r"process 4711\): drain the node"):
        NCCL_ALLREDUCE.measure(given)
    assert tool.commands == []
    busy = replace(given, settings=replace(given.settings, options={"nccl_allreduce": {"while_busy": True}}))
    assert NCCL_ALLREDUCE.measure(busy).findings == ()


def test_nccl_allreduce_fails_if_it_hangs_twice_in_a_row(tmp_path: pathlib.Path) -> None:
    history = History()
    given, tool = context_with(tmp_path, (124, "", ""), history=history)
    assert verdicts(NCCL_ALLREDUCE.measure(given)) == [UNKNOWN]
    again = NCCL_ALLREDUCE.measure(given)
    assert verdicts(again) == [FAIL]
    assert "twice in a row" in again.findings[0].summary
    tool.answer = NCCL_ALLREDUCE_OUTPUT
    assert verdicts(NCCL_ALLREDUCE.measure(given)) == []
    tool.answer = (137, "", "")
    assert verdicts(NCCL_ALLREDUCE.measure(given)) == [UNKNOWN], "an answer in between resets the count"


def test_nccl_allreduce_uses_the_topology_file_of_the_node(tmp_path: pathlib.Path) -> None:
    given, tool = context_with(tmp_path, NCCL_ALLREDUCE_OUTPUT)
    NCCL_ALLREDUCE.measure(given)
    assert "NCCL_TOPO_FILE" not in tool.environments[-1]
    tree = machine(tmp_path, ND_A100, "var/lib/hpcai/nccl-topo.xml")
    NCCL_ALLREDUCE.measure(given)
    assert tool.environments[-1]["NCCL_TOPO_FILE"] == "/var/lib/hpcai/nccl-topo.xml"
    tree.write("etc/nccl.conf", "NCCL_TOPO_FILE=/opt/microsoft/ndv4-topo.xml")
    with pytest.raises(CannotMeasure, match=r"/opt/microsoft/ndv4-topo\.xml in /etc/nccl\.conf does not exist"):
        NCCL_ALLREDUCE.measure(given)
    tree.write("opt/microsoft/ndv4-topo.xml", "<system/>")
    NCCL_ALLREDUCE.measure(given)
    assert tool.environments[-1]["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv4-topo.xml"


def test_nccl_allreduce_the_libraries_of_mpi_are_found(tmp_path: pathlib.Path) -> None:
    given, tool = context_with(tmp_path, NCCL_ALLREDUCE_OUTPUT)
    machine(tmp_path, ND_A100, "opt/hpcx-v2.18-gcc-x86_64/ompi/lib/libmpi.so.40")
    NCCL_ALLREDUCE.measure(given)
    assert tool.environments[-1]["LD_LIBRARY_PATH"] == "/opt/hpcx-v2.18-gcc-x86_64/ompi/lib"


def test_nccl_allreduce_is_skipped_with_one_gpu(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, "Standard_NC24ads_A100_v4", NCCL_ALLREDUCE_PROGRAM)
    tree.device("0001:00:00.0", 0x030200, 0x10DE, 0)
    assert NCCL_ALLREDUCE.measure(context(tree, size="Standard_NC24ads_A100_v4")).skipped == (
        "a collective needs two GPUs, but there is only one"
    )


def test_nccl_allreduce_runs_with_two_gpus_and_not_with_one_of_two(tmp_path: pathlib.Path) -> None:
    size = "Standard_NC48ads_A100_v4"
    tree, tool = machine(tmp_path, size, NCCL_ALLREDUCE_PROGRAM), Tool(NCCL_ALLREDUCE_OUTPUT)
    NCCL_ALLREDUCE.measure(context(tree, tool, size=size))
    assert tool.commands[0][5:7] == ["-g", "2"]
    tree.without((find_size(size).gpus or ())[1].busid)
    with pytest.raises(CannotMeasure, match="1 of the 2 GPUs of this VM size are there"):
        NCCL_ALLREDUCE.measure(context(tree, tool, size=size))


def test_nccl_allreduce_cannot_measure_without_the_gpus_of_the_size(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, ND_A100, NCCL_ALLREDUCE_PROGRAM)
    tree.without_devices()
    with pytest.raises(CannotMeasure, match="0 of the 8 GPUs of this VM size are there"):
        NCCL_ALLREDUCE.measure(context(tree, Tool(NCCL_ALLREDUCE_OUTPUT)))


NCCL_ALLTOALL_PROGRAM = "opt/nccl-tests/build/alltoall_perf"
NCCL_ALLTOALL_OUTPUT = recorded("alltoall_perf.txt")


def test_nccl_alltoall_passes_with_correct_results_at_any_bandwidth(tmp_path: pathlib.Path) -> None:
    tool = Tool(NCCL_ALLTOALL_OUTPUT)
    answer = NCCL_ALLTOALL.measure(context(machine(tmp_path, ND_A100, NCCL_ALLTOALL_PROGRAM), tool))
    assert answer.findings == ()
    assert [(one.name, one.value, one.limit) for one in answer.readings] == [("nccl_alltoall", 234.52, None)]
    assert "there is no limit" in answer.good
    assert tool.commands[0][:5] == [f"/{NCCL_ALLTOALL_PROGRAM}", "-b", "8G", "-e", "8G"], (
        "the message size of the all-reduce's limit"
    )


def test_nccl_alltoall_fails_below_the_sites_limit_or_with_wrong_results(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, ND_A100, NCCL_ALLTOALL_PROGRAM)
    (finding,) = NCCL_ALLTOALL.measure(
        context(tree, Tool(NCCL_ALLTOALL_OUTPUT), limits={"nccl_alltoall": 240})
    ).findings
    assert (finding.verdict, "should be at least 240" in finding.summary) == (FAIL, True)
    wrong = Tool(NCCL_ALLTOALL_OUTPUT.replace("values : 0 OK", "values : 1 FAILED"))
    assert [one.verdict for one in NCCL_ALLTOALL.measure(context(tree, wrong)).findings] == [FAIL]


def test_nccl_alltoall_cannot_measure_without_checked_results(tmp_path: pathlib.Path) -> None:
    unchecked = Tool(NCCL_ALLTOALL_OUTPUT.replace("234.80       0", "234.80     N/A"))
    answer = NCCL_ALLTOALL.measure(context(machine(tmp_path, ND_A100, NCCL_ALLTOALL_PROGRAM), unchecked))
    assert [(one.verdict, one.summary) for one in answer.findings] == [
        (UNKNOWN, "alltoall_perf did not check its results, so they may be wrong")
    ]


NCCL_IB_LOOPBACK_PROGRAM = "opt/nccl-tests/build/all_reduce_perf"
NCCL_IB_LOOPBACK_OUTPUT = recorded("all_reduce_perf.txt").replace("232.824", "18.4")


def test_nccl_ib_loopback_passes_with_all_data_through_the_adapters(tmp_path: pathlib.Path) -> None:
    tool = Tool(NCCL_IB_LOOPBACK_OUTPUT)
    answer = NCCL_IB_LOOPBACK.measure(context(machine(tmp_path, ND_A100, NCCL_IB_LOOPBACK_PROGRAM), tool))
    assert answer.findings == ()
    assert [(one.value, one.limit) for one in answer.readings] == [(18.4, 18)]
    assert tool.environments[0].items() >= {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}.items()


def test_nccl_ib_loopback_fails_below_the_limit(tmp_path: pathlib.Path) -> None:
    answer = NCCL_IB_LOOPBACK.measure(
        context(
            machine(tmp_path, ND_A100, NCCL_IB_LOOPBACK_PROGRAM), Tool(NCCL_IB_LOOPBACK_OUTPUT.replace("18.4", "17.99"))
        )
    )
    assert [one.verdict for one in answer.findings] == [FAIL]


def test_nccl_ib_loopback_cannot_measure_with_an_empty_output(tmp_path: pathlib.Path) -> None:
    answer = NCCL_IB_LOOPBACK.measure(context(machine(tmp_path, ND_A100, NCCL_IB_LOOPBACK_PROGRAM), Tool("")))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]


def test_nccl_ib_loopback_applies_to_nvidia_gpus_with_infiniband() -> None:
    assert NCCL_IB_LOOPBACK.applies(find_size("Standard_ND96is_H100_v5")) == "Standard_ND96is_H100_v5 has no InfiniBand"
    assert NCCL_IB_LOOPBACK.applies(find_size("Standard_ND96isr_MI300X_v5"))
    assert NCCL_IB_LOOPBACK.applies(find_size(ND_A100)) == NCCL_IB_LOOPBACK.applies(None) == ""
