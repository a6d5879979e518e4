# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An all-reduce within the node: its bandwidth, its results, and all the ways in which there is none."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    UNKNOWN,
    Answer,
    CannotTell,
    Context,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.nccl_allreduce import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.history import History
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..deep_playing import Said, Tool, is_idle, machine, recorded
from ..playing import ND_A100, context

PROGRAM = "opt/nccl-tests/build/all_reduce_perf"
WELL = recorded("all_reduce_perf.txt")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch)


def played(path: pathlib.Path, answer: str | Said, **settings: object) -> tuple[Context, Tool]:
    """A machine whose all_reduce_perf says this."""
    tool = Tool(answer)
    return context(machine(path, ND_A100, PROGRAM), tool, **settings), tool  # type: ignore[arg-type]


def verdicts(answer: Answer) -> list[str]:
    """The verdicts of what was found."""
    return [finding.verdict for finding in answer.findings]


def test_passes_at_the_bandwidth_of_the_size(tmp_path: pathlib.Path) -> None:
    given, tool = played(tmp_path, WELL)
    answer = CHECK.measure(given)
    assert answer.findings == ()
    assert [(one.name, one.value, one.unit, one.limit) for one in answer.readings] == [
        ("nccl_allreduce", 232.82, "GB/s", 228)
    ]
    assert answer.limit == "at least 228 GB/s at 8G (azurehpc-health-checks, conf/<size>.conf)"
    assert tool.commands == [
        [f"/{PROGRAM}", "-b", "8G", "-e", "8G", "-g", "8", "-c", "1", "-w", "5", "-n", "20"],
    ]


def test_fails_below_the_limit(tmp_path: pathlib.Path) -> None:
    given, _tool = played(tmp_path, WELL.replace("232.824", "227.9"))
    (finding,) = CHECK.measure(given).findings
    assert finding.verdict == FAIL
    assert finding.summary == "the bus bandwidth of all_reduce_perf is 227.9 GB/s, and should be at least 228"


def test_fails_with_wrong_results_at_full_speed(tmp_path: pathlib.Path) -> None:
    given, _tool = played(tmp_path, WELL.replace("232.81      0", "232.81     12").replace("0 OK", "12 FAILED"))
    (finding,) = CHECK.measure(given).findings
    assert finding.verdict == FAIL
    assert "12 wrong values" in finding.summary


def test_fails_with_the_last_line_of_a_crash_even_where_a_bandwidth_was_printed(tmp_path: pathlib.Path) -> None:
    crash = (
        "gpu-0: Test NCCL failure common.cu:958 'unhandled cuda error / NVLink error'\n .. gpu-0 pid 41: Test failure"
    )
    given, _tool = played(tmp_path, (3, f"{WELL}{crash}\n", ""))
    answer = CHECK.measure(given)
    assert verdicts(answer) == [FAIL]
    assert answer.readings == ()
    assert answer.findings[0].summary == ("all_reduce_perf failed (exit status 3): .. gpu-0 pid 41: Test failure")


def test_fails_where_a_gpu_does_not_take_part(tmp_path: pathlib.Path) -> None:
    seven = "".join(line for line in WELL.splitlines(keepends=True) if "Rank  7" not in line)
    given, _tool = played(tmp_path, seven)
    assert CHECK.measure(given).findings[0].summary == "all_reduce_perf ran on 7 GPUs, and there are 8"


@pytest.mark.parametrize("said", ["", "#\n# Avg bus bandwidth    : \n", WELL.split("# Out of")[0]])
def test_cannot_measure_without_a_bandwidth_in_the_output(tmp_path: pathlib.Path, said: str) -> None:
    given, _tool = played(tmp_path, said)
    answer = CHECK.measure(given)
    assert verdicts(answer) == [UNKNOWN]
    assert "printed no bandwidth" in answer.findings[0].summary


def test_cannot_measure_without_the_program(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotTell, match=r"all_reduce_perf .* is not installed"):
        CHECK.measure(context(machine(tmp_path, ND_A100)))


def test_cannot_measure_where_a_library_of_it_is_missing(tmp_path: pathlib.Path) -> None:
    said = "error while loading shared libraries: libmpi.so.40: cannot open shared object file"
    given, _tool = played(tmp_path, (127, "", f"all_reduce_perf: {said}\n"))
    assert verdicts(CHECK.measure(given)) == [UNKNOWN]


def test_cannot_measure_with_less_memory_than_the_limit_is_for(tmp_path: pathlib.Path) -> None:
    given, _tool = played(tmp_path, WELL.replace("  8589934592  ", "  4294967296  "))
    answer = CHECK.measure(given)
    assert verdicts(answer) == [UNKNOWN]
    assert "not 8G" in answer.findings[0].summary


def test_cannot_measure_while_somebody_computes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_idle(monkeypatch, {4711: ("0001:00:00.0",)})
    given, tool = played(tmp_path, WELL)
    with pytest.raises(CannotTell, match=r"process 4711\): drain the node"):
        CHECK.measure(given)
    assert tool.commands == []
    busy = replace(given, settings=replace(given.settings, options={"nccl_allreduce": {"while_busy": True}}))
    assert CHECK.measure(busy).findings == ()


def test_a_hang_is_unknown_and_the_second_one_running_a_failure(tmp_path: pathlib.Path) -> None:
    history = History()
    given, tool = played(tmp_path, (124, "", ""), history=history)
    assert verdicts(CHECK.measure(given)) == [UNKNOWN]
    again = CHECK.measure(given)
    assert verdicts(again) == [FAIL]
    assert "twice running" in again.findings[0].summary
    tool.answer = WELL
    assert verdicts(CHECK.measure(given)) == []
    tool.answer = (137, "", "")
    assert verdicts(CHECK.measure(given)) == [UNKNOWN], "it had answered in between"


def test_the_topology_file_of_the_node_is_passed_along(tmp_path: pathlib.Path) -> None:
    given, tool = played(tmp_path, WELL)
    CHECK.measure(given)
    assert "NCCL_TOPO_FILE" not in tool.environments[-1]
    tree = machine(tmp_path, ND_A100, "var/lib/hpcai/nccl-topo.xml")
    CHECK.measure(given)
    assert tool.environments[-1]["NCCL_TOPO_FILE"] == "/var/lib/hpcai/nccl-topo.xml"
    tree.write("etc/nccl.conf", "NCCL_TOPO_FILE=/opt/microsoft/ndv4-topo.xml")
    with pytest.raises(CannotTell, match=r"/opt/microsoft/ndv4-topo\.xml, which is not there"):
        CHECK.measure(given)
    tree.write("opt/microsoft/ndv4-topo.xml", "<system/>")
    CHECK.measure(given)
    assert tool.environments[-1]["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv4-topo.xml"


def test_the_libraries_of_mpi_are_found(tmp_path: pathlib.Path) -> None:
    given, tool = played(tmp_path, WELL)
    machine(tmp_path, ND_A100, "opt/hpcx-v2.18-gcc-x86_64/ompi/lib/libmpi.so.40")
    CHECK.measure(given)
    assert tool.environments[-1]["LD_LIBRARY_PATH"] == "/opt/hpcx-v2.18-gcc-x86_64/ompi/lib"


def test_one_gpu_has_nothing_to_exchange(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, "Standard_NC24ads_A100_v4", PROGRAM)
    tree.device("0001:00:00.0", 0x030200, 0x10DE, 0)
    assert CHECK.measure(context(tree, size="Standard_NC24ads_A100_v4")).skipped == (
        "a collective needs two GPUs, and there is one"
    )


def test_two_gpus_are_enough_and_one_of_two_is_a_loss(tmp_path: pathlib.Path) -> None:
    size = "Standard_NC48ads_A100_v4"
    tree, tool = machine(tmp_path, size, PROGRAM), Tool(WELL)
    CHECK.measure(context(tree, tool, size=size))
    assert tool.commands[0][5:7] == ["-g", "2"]
    tree.without((find_size(size).gpus or ())[1].busid)
    with pytest.raises(CannotTell, match="of the 2 of this size 1 is there"):
        CHECK.measure(context(tree, tool, size=size))


def test_cannot_measure_where_the_gpus_of_the_size_are_gone(tmp_path: pathlib.Path) -> None:
    tree = machine(tmp_path, ND_A100, PROGRAM)
    tree.without_devices()
    with pytest.raises(CannotTell, match="of the 8 of this size none is there"):
        CHECK.measure(context(tree, Tool(WELL)))
