# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the deep checks share: timeouts of tools and GPUs, no disturbed jobs, values compared with limits."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import deep
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    FAIL,
    UNKNOWN,
    WARN,
    CannotMeasure,
    Finding,
    Reading,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import dcgm, gemm, nccl
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.deep import limit_findings, outliers
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import Threshold

from .deep_playing import Tool, set_compute_processes
from .playing import context


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> MachineTree:
    """A machine with one GPU, on which this process runs."""
    set_compute_processes(monkeypatch)
    tree = MachineTree(tmp_path).gpu("0001:00:00.0", 0)
    return tree.process(os.getpid(), "0", "python3", 50).process(50, "0", "bash", 1)


def disturbed(tree: MachineTree, **options: object) -> str:
    """Return whom the check would disturb; empty if it may run."""
    try:
        deep.must_be_idle(context(tree, options={"gemm": options}), gemm.GEMM)
    except CannotMeasure as error:
        return str(error)
    return ""


def test_an_idle_node_is_not_disturbed(tree: MachineTree) -> None:
    tree.process(90, "0", "slurmd").process(91, "0", "slurmstepd", command="slurmstepd infinity")
    assert disturbed(tree) == ""


def test_a_job_is_disturbed_unless_it_runs_the_check(tree: MachineTree) -> None:
    tree.process(50, "0", "slurmstepd", 1, command="slurmstepd: [42.batch]")
    tree.process(51, "0", "slurmstepd", 1, command="slurmstepd: [42.extern]")
    assert disturbed(tree) == ""
    tree.process(60, "0", "slurmstepd", 1, command="slurmstepd: [43.0]", uid=1001)
    assert disturbed(tree) == ""
    tree.process(60, "0", "slurmstepd", 1, command="slurmstepd: [43.0]")
    assert disturbed(tree).startswith("it would disturb job 43.0 on this node")
    assert disturbed(tree, while_busy=True) == ""


def test_a_process_that_uses_a_gpu_is_disturbed(tree: MachineTree, monkeypatch: pytest.MonkeyPatch) -> None:
    set_compute_processes(monkeypatch, {os.getpid(): ("0001:00:00.0",)})
    assert disturbed(tree) == ""
    set_compute_processes(monkeypatch, dict.fromkeys(range(1, 6), ("0001:00:00.0",)))
    assert "(process 1, 2, 3, 4, 5):" in disturbed(tree)
    set_compute_processes(monkeypatch, dict.fromkeys(range(1, 7), ("0001:00:00.0",)))
    assert "(process 1, 2, 3, 4, 5 and more):" in disturbed(tree)


def test_if_the_driver_lists_no_processes_the_gpus_are_not_idle(
    tree: MachineTree, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(deep, "compute_processes", lambda _root: None)
    assert disturbed(tree).endswith("is not known whether the GPUs are in use: the driver does not list processes")
    assert disturbed(MachineTree(tmp_path / "without_gpus")) == ""


def ended(rc: int = 0, stdout: str = "", stderr: str = "") -> Result:
    """Return the result of a run."""
    return Result(("tool",), rc, stdout, stderr)


def test_the_sites_program_wins_over_an_installed_one(tmp_path: pathlib.Path) -> None:
    tree = MachineTree(tmp_path)
    assert deep.find_program(context(tree), nccl.NCCL_ALLREDUCE, "tool") is None
    tree.write("/usr/bin/tool", "")
    assert deep.find_program(context(tree), nccl.NCCL_ALLREDUCE, "tool") == "/usr/bin/tool"
    tree.write("/opt/tool/tool", "")
    assert deep.find_program(context(tree), nccl.NCCL_ALLREDUCE, "tool", ("/opt/tool",)) == "/opt/tool/tool"
    given = context(tree, options={"dcgm": {"program": "/site/tool"}})
    assert deep.find_program(given, dcgm.DCGM, "tool") == "/site/tool"
    assert deep.find_program(given, nccl.NCCL_ALLREDUCE, "tool") == "/usr/bin/tool"


@pytest.mark.parametrize(("source", "words"), [("", "tool is not"), ("a package", r"tool \(a package\) is not")])
def test_a_missing_program_is_reported_with_its_source(tmp_path: pathlib.Path, source: str, words: str) -> None:
    with pytest.raises(CannotMeasure, match=f"^{words} installed"):
        deep.required_program(context(tmp_path), nccl.NCCL_ALLREDUCE, "tool", (), source)
    MachineTree(tmp_path).write("/usr/bin/tool", "")
    assert deep.required_program(context(tmp_path), nccl.NCCL_ALLREDUCE, "tool", (), source) == "/usr/bin/tool"


def test_a_tool_is_run_with_a_limit_and_its_environment() -> None:
    tool = Tool("done")
    assert deep.run_tool(context(run=tool), ["tool", "-x"], 3.5).stdout == "done"
    deep.run_tool(context(run=tool), ["tool"], 4, {"B": "2", "A": "1"})
    assert tool.commands == [["tool", "-x"], ["tool"]]
    assert tool.environments == [{}, {"A": "1", "B": "2"}]
    assert tool.limits == [3.5, 4.0]


@pytest.mark.parametrize(("device", "whose"), [("", ""), ("gpu0", " for gpu0")])
@pytest.mark.parametrize("rc", [124, 137])
def test_a_timeout_is_unknown_and_a_second_one_in_a_row_fails(device: str, whose: str, rc: int) -> None:
    given = context()

    def refused(rc: int) -> Finding | None:
        return deep.run_problem(given, ended(rc), "tool", 3, device)

    once, twice = refused(rc), refused(rc)
    assert once
    assert twice
    assert (once.verdict, once.summary) == (UNKNOWN, f"tool did not finish within 3 s{whose}")
    assert (once.hint, once.device) == ("Run the check again", device)
    assert (twice.verdict, twice.summary) == (FAIL, f"tool did not finish within 3 s{whose}, twice in a row")
    assert twice.hint.startswith("Find out with 'journalctl -k -b'")
    assert refused(0) is None
    again = refused(rc)
    assert again
    assert again.verdict == UNKNOWN, "an answer in between resets the count"


def test_clear_timeout_without_a_timeout_stores_nothing() -> None:
    given = context()
    deep.clear_timeout(given, "tool")
    assert given.history.changed == {}


@pytest.mark.parametrize(
    ("result", "verdict", "words"),
    [
        (ended(126), UNKNOWN, "tool cannot be started: nothing was printed"),
        (ended(127), UNKNOWN, "tool cannot be started: nothing was printed"),
        (ended(1, stderr="libx.so: error while loading shared libraries"), UNKNOWN, "tool cannot be started: libx.so"),
        (ended(1, stdout="CUDA error: out of memory"), UNKNOWN, "tool did not get enough memory: CUDA error"),
        (ended(1, stdout="bad"), FAIL, "tool failed (exit status 1): bad"),
        (ended(139), FAIL, "tool failed (exit status 139): nothing was printed"),
    ],
)
def test_a_crash_fails_and_a_tool_that_cannot_run_is_unknown(result: Result, verdict: str, words: str) -> None:
    finding = deep.run_problem(context(), result, "tool", 3)
    assert finding
    assert (finding.verdict, finding.summary[: len(words)]) == (verdict, words)


def test_finds_nvidia_gpus_and_the_cpus_near_them(tmp_path: pathlib.Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-7").node(0, "0-3").node(1, "4-7")
    tree.device("0001:00:00.0", 0x0302, 0x10DE, 1)
    tree.device("0002:00:00.0", 0x0302, 0x1002, 1)
    tree.device("0003:00:00.0", 0x0680, 0x10DE, 1)
    tree.device("0004:00:00.0", 0x0302, 0x10DE, -1)
    near, nowhere = deep.present_gpus(context(tree))
    assert (near.busid, nowhere.busid) == ("0001:00:00.0", "0004:00:00.0")
    assert set(deep.cpus_near(context(tree), near)) == {4, 5, 6, 7}
    assert not deep.cpus_near(context(tree), nowhere)


def test_without_a_gpu_nothing_can_be_measured(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CannotMeasure, match="no NVIDIA GPU on the PCI bus"):
        deep.present_gpus(context(MachineTree(tmp_path)))


def test_measure_gpu_returns_what_was_measured() -> None:
    assert deep.measure_gpu(context(), "the rate", 20, lambda: {"rate": 7}) == ({"rate": 7}, None)


@pytest.mark.parametrize(
    ("error", "verdict", "has_hint"),
    [("CUDA_ERROR_ECC_UNCORRECTABLE", FAIL, True), ("CUDA_ERROR_OUT_OF_MEMORY", UNKNOWN, False)],
)
@pytest.mark.parametrize(("device", "where"), [("", ""), ("gpu0", " on gpu0")])
def test_a_hardware_error_fails_and_any_other_is_unknown(
    error: str, verdict: str, has_hint: bool, device: str, where: str
) -> None:
    answer, finding = deep.measure_gpu(context(), "the rate", 20, lambda: {"error": error, "words": "so"}, device)
    assert answer == {}
    assert finding
    assert (finding.verdict, bool(finding.hint)) == (verdict, has_hint)
    assert finding.summary == f"the rate could not be measured{where}: so"


def test_a_measurement_that_dies_or_hangs_once_is_unknown() -> None:
    def dies() -> Mapping[str, Any]:
        os._exit(3)

    def hangs() -> Mapping[str, Any]:
        os.read(os.pipe()[0], 1)
        return {}

    given = context()
    assert [one and one.verdict for one in (deep.measure_gpu(given, "the rate", 20, dies)[1],)] == [UNKNOWN]
    assert [one and one.verdict for _answer, one in (deep.measure_gpu(given, "x", 0.1, hangs) for _n in "12")] == [
        UNKNOWN,
        FAIL,
    ]
    deep.measure_gpu(given, "x", 20, dict)
    assert [one and one.verdict for one in (deep.measure_gpu(given, "x", 0.1, hangs)[1],)] == [UNKNOWN]


LEAST = Threshold(100.0, "GB/s", "site", warn=105.0)
MOST = Threshold(100.0, "us", "site", at_most=True, warn=95.0)


def readings(*values: float, at_most: bool = False) -> list[Reading]:
    """Return one reading for each device."""
    return [Reading("rate", value, "GB/s", f"gpu{number}", at_most=at_most) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("threshold", "value", "verdicts"),
    [
        (LEAST, 99.9, [FAIL]),
        (LEAST, 100.0, [WARN]),
        (LEAST, 104.9, [WARN]),
        (LEAST, 105.0, []),
        (LEAST, math.nan, [FAIL]),
        (MOST, 100.1, [FAIL]),
        (MOST, 100.0, [WARN]),
        (MOST, 95.1, [WARN]),
        (MOST, 95.0, []),
        (MOST, math.nan, [FAIL]),
        (None, 1.0, []),
    ],
)
def test_a_value_at_its_limit_does_not_fail(threshold: Threshold | None, value: float, verdicts: list[str]) -> None:
    assert [one.verdict for one in limit_findings(readings(value), threshold, "the rate", "pray")] == verdicts


def test_without_a_warning_threshold_nothing_is_near_the_limit() -> None:
    assert limit_findings(readings(100.0), Threshold(100.0, "GB/s", "site"), "the rate", "pray") == []


def test_the_summary_contains_device_value_and_limit() -> None:
    (finding,) = limit_findings(readings(99.0), LEAST, "the rate", "pray")
    assert (finding.summary, finding.hint) == ("the rate of gpu0 is 99 GB/s, but should be at least 100", "pray")
    (finding,) = limit_findings([Reading("wait", 101.0, "us")], MOST, "the wait", "pray")
    assert finding.summary == "the wait is 101 us, but should be at most 100"
    (finding,) = limit_findings(readings(101.0), LEAST, "the rate", "pray")
    assert finding.summary == "the rate of gpu0 is 101 GB/s, near the limit of 100"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((100, 100, 100, 94), ["gpu3"]),
        # Exactly 5 % is not far.
        ((100, 100, 100, 95), []),
        # Better than the others is good.
        ((100, 100, 100, 150), []),
        # The other values differ just as much.
        ((100, 90, 80, 70), []),
        # Three values are too few to find the odd one.
        ((100, 100, 50), []),
    ],
)
def test_a_device_far_behind_the_others_is_found(values: tuple[float, ...], found: list[str]) -> None:
    assert [one.device for one in outliers(readings(*values), "the rate")] == found
    mirrored = [200 - value for value in values]
    assert len(outliers(readings(*mirrored, at_most=True), "the wait")) == len(found)


def test_far_behind_is_more_than_3_5_deviations() -> None:
    # The median is 100, the median deviation 2: 3.5 of these, scaled to sigma, are 10.4.
    near, far = (98.0, 102.0, 98.0, 102.0, 100.0, 89.7), (98.0, 102.0, 98.0, 102.0, 100.0, 89.5)
    assert outliers(readings(*near, 102.0), "the rate") == []
    assert [one.device for one in outliers(readings(*far, 102.0), "the rate")] == ["gpu5"]
