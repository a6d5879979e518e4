# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory bandwidth of the host, by STREAM and by copies."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Collection

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, UNKNOWN, WARN, CannotMeasure
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import cpu_stream
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.cpu_stream import (
    CPU_STREAM,
    is_wrong,
    triad_gbps,
)

from ..deep_playing import Tool, recorded
from ..playing import context

GOOD_OUTPUT = (pathlib.Path(__file__).parents[1] / "recorded_tools/stream.txt").read_text(encoding="ascii")


def host(path: pathlib.Path, nodes: int = 4) -> MachineTree:
    """Return a machine without GPUs."""
    tree = MachineTree(path).cpus(f"0-{4 * nodes - 1}")
    for number in range(nodes):
        tree.node(number, f"{4 * number}-{4 * number + 3}")
    return tree.node(nodes, "")


def set_copy_rates(monkeypatch: pytest.MonkeyPatch, *rates: float) -> None:
    """Set the rates at which the NUMA nodes copy."""
    monkeypatch.setattr(cpu_stream, "copy_bandwidth", lambda cpus: {"gbps": rates[min(cpus) // 4]})


def test_passes_by_stream(tmp_path: pathlib.Path) -> None:
    tree = host(tmp_path)
    tree.write("/opt/stream/stream", "")
    answer = CPU_STREAM.measure(context(tree, Tool(GOOD_OUTPUT), size=None))
    assert answer.findings == ()
    assert [(one.name, one.value, one.unit) for one in answer.readings] == [("stream_triad", 328.4, "GB/s")]
    assert answer.good == "328.4 GB/s by STREAM's triad"


def test_fails_below_the_limit_of_the_site_and_with_wrong_results(tmp_path: pathlib.Path) -> None:
    tree = host(tmp_path)
    tree.write("/opt/stream/stream", "")
    given = context(tree, Tool(GOOD_OUTPUT), size=None, limits={"cpu_stream": 330})
    assert [one.verdict for one in CPU_STREAM.measure(given).findings] == [FAIL]
    wrong = GOOD_OUTPUT.replace("Solution Validates", "Failed Validation on array a[]")
    assert [one.verdict for one in CPU_STREAM.measure(context(tree, Tool(wrong), size=None)).findings] == [FAIL]


@pytest.mark.parametrize("stdout", ["", GOOD_OUTPUT.replace("328441.7", "    nan"), GOOD_OUTPUT.split("Triad")[0]])
def test_cannot_measure_without_a_triad(tmp_path: pathlib.Path, stdout: str) -> None:
    tree = host(tmp_path)
    tree.write("/opt/stream/stream", "")
    answer = CPU_STREAM.measure(context(tree, Tool(stdout), size=None))
    assert [one.verdict for one in answer.findings] == [UNKNOWN]
    assert answer.readings == ()


def test_passes_by_copies_on_each_numa_node_with_cpus(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_copy_rates(monkeypatch, 80, 81, 79, 80)
    answer = CPU_STREAM.measure(context(host(tmp_path), size=None))
    assert answer.findings == ()
    assert [(one.device, one.value) for one in answer.readings] == [
        ("NUMA node 0", 80),
        ("NUMA node 1", 81),
        ("NUMA node 2", 79),
        ("NUMA node 3", 80),
    ]
    assert answer.good == "320 GB/s by copies on 4 NUMA nodes"


def test_warns_of_a_numa_node_far_behind_and_fails_below_the_limit(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_copy_rates(monkeypatch, 80, 40, 79, 80)
    tree = host(tmp_path)
    found = CPU_STREAM.measure(context(tree, size=None)).findings
    assert [(one.verdict, one.device) for one in found] == [(WARN, "NUMA node 1")]
    found = CPU_STREAM.measure(context(tree, size=None, limits={"cpu_stream": 70})).findings
    assert [(one.verdict, one.device) for one in found] == [(FAIL, "NUMA node 1")]


def test_cannot_measure_on_cpus_that_are_not_available(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = cpu_stream.copy_bandwidth

    def elsewhere(_cpus: Collection[int]) -> object:
        return real({100_000}, 4096, 1)

    monkeypatch.setattr(cpu_stream, "copy_bandwidth", elsewhere)
    found = CPU_STREAM.measure(context(host(tmp_path, 1), size=None)).findings
    assert [one.verdict for one in found] == [UNKNOWN]
    assert "CPU 100000" in found[0].summary


def test_copies_that_hang_are_unknown_and_fail_the_second_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_stream, "_COPIES_S", 0.3)
    monkeypatch.setattr(cpu_stream, "copy_bandwidth", lambda _cpus: signal.pause())
    given = context(host(tmp_path, 1), size=None)
    assert [one.verdict for one in CPU_STREAM.measure(given).findings] == [UNKNOWN]
    assert [one.verdict for one in CPU_STREAM.measure(given).findings] == [FAIL]


def test_cannot_measure_while_a_job_runs(tmp_path: pathlib.Path) -> None:
    tree = host(tmp_path).process(9, "0", "slurmstepd", command="slurmstepd: [7.0]")
    with pytest.raises(CannotMeasure, match=r"job 7\.0"):
        CPU_STREAM.measure(context(tree, size=None))


def test_real_copies_have_a_rate() -> None:
    answer = cpu_stream.copy_bandwidth({min(os.sched_getaffinity(0))}, 1 << 20, 4)
    assert answer["gbps"] > 0.01


def test_the_triad_is_in_gigabytes_per_second() -> None:
    assert triad_gbps(recorded("stream.txt")) == pytest.approx(328.4417)


@pytest.mark.parametrize("line", ["", "Triad:  nan", "Triad:  0.0", "Triad:  1e999", "Triad:  1.2.3"])
def test_a_triad_without_a_valid_rate_is_none(line: str) -> None:
    assert triad_gbps(f"Function    Best Rate MB/s\n{line}  0.1  0.1\n") is None


def test_wrong_results_are_detected() -> None:
    assert is_wrong("Failed Validation on array a[], AvgRelAbsErr > epsilon")
    assert not is_wrong(recorded("stream.txt"))
