# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Outputs of the tools: HPL of HPC Challenge 1.5, NetPIPE 3.7 and fio 3.33 as recorded from Debian's programs. Those of
NVIDIA's HPL, OSU and NCCL are written by hand in their documented form, because these programs did not run here."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.bench import (
    catalog,
    linpack,
    mpi,
    nccl_log,
    storage,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.benchmark import Measured, Options, judge_run
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.linpack import HPL
from ansible_collections.hpcai.azure.plugins.module_utils._node.bench.mpi import MPI_BANDWIDTH, MPI_LATENCY
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog as health_catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

RECORDED = Path(__file__).parent / "recorded"
ND = Options(find_size("nd96asr_v4"), 8)


def recorded(name: str) -> str:
    """The output of a tool."""
    return (RECORDED / name).read_text(encoding="utf-8")


def ran(text: str, rc: int = 0, stderr: str = "") -> Result:
    """The result of a program."""
    return Result(("x",), rc, text, stderr)


def verdicts(measured: Measured) -> list[str]:
    """The verdicts of the findings."""
    return [finding.verdict for finding in measured.answer.findings]


def test_hpl_of_debians_hpcc_has_its_rate_and_problem() -> None:
    measured = linpack.parse(HPL, Options(), ("n-0",), ran(recorded("hpcc.txt")))
    (value,) = measured.answer.readings
    assert (value.value, value.unit) == (2.823e-05, "TFLOP/s")
    assert measured.details == {"order": 512, "block": 80, "grid": [2, 1], "seconds": 3.18}
    assert verdicts(measured) == []


def test_hpl_of_nvidia_passes_at_95_tflops_and_warns_below_90_percent_of_it() -> None:
    good = linpack.parse(HPL, ND, ("n-0",), ran(recorded("hpl_nvidia.txt")))
    assert good.answer.readings[0].value == 95.07
    assert verdicts(good) == []
    assert "Microsoft's article" in good.answer.limit
    slow = linpack.parse(HPL, ND, ("n-0",), ran(recorded("hpl_nvidia.txt").replace("9.507e+04", "8.450e+04")))
    assert verdicts(slow) == ["warn"]
    assert "is 84.5 TFLOP/s, but should be at least 85.5" in slow.answer.findings[0].summary


def test_a_limit_of_ones_own_fails() -> None:
    own = replace(ND, limits={"hpl": 96.0})
    assert verdicts(linpack.parse(HPL, own, ("n-0",), ran(recorded("hpl_nvidia.txt")))) == ["fail"]


@pytest.mark.parametrize(
    ("change", "verdict", "words"),
    [
        (("PASSED", "FAILED"), "fail", "computes wrong results"),
        (("...... PASSED", ""), "unknown", "did not check its result"),
        (("WC0 ", "no row "), "unknown", "printed no result"),
    ],
)
def test_hpl_without_a_checked_result_is_no_pass(change: tuple[str, str], verdict: str, words: str) -> None:
    measured = linpack.parse(HPL, ND, ("n-0",), ran(recorded("hpl_nvidia.txt").replace(*change)))
    assert verdicts(measured) == [verdict]
    assert words in measured.answer.findings[0].summary


def test_the_affinities_of_hpl_are_those_of_the_article() -> None:
    step = linpack.step(HPL, replace(ND, container="image"), ("n-0",))
    words = list(step.program)
    assert words[words.index("--cpu-affinity") + 1] == "24-35:36-47:0-11:12-23:72-83:84-95:48-59:60-71"
    assert words[words.index("--mem-affinity") + 1] == "1:1:0:0:3:3:2:2"
    assert words[words.index("--gpu-affinity") + 1] == "0:1:2:3:4:5:6:7"
    assert step.tasks == 8


@pytest.mark.parametrize(("ranks", "expected"), [(1, (1, 1)), (2, (1, 2)), (8, (2, 4)), (16, (4, 4)), (7, (1, 7))])
def test_the_process_grid_is_as_square_as_possible(ranks: int, expected: tuple[int, int]) -> None:
    assert linpack.grid(ranks) == expected


def test_the_problem_fills_the_memory_in_whole_blocks() -> None:
    order = linpack.order_of(8 * 40e9, 288)
    assert order % 288 == 0
    assert 0.78 < order * order * 8 / (8 * 40e9) <= 0.8
    text = linpack.input_file(order, 288, 8)
    assert f"\n{order} Ns\n" in text
    assert text.splitlines()[10:12] == ["2 Ps", "4 Qs"]


def test_netpipe_has_latency_and_bandwidth() -> None:
    text = recorded("netpipe.txt")
    assert mpi.latency_us(text) == 2.68
    assert mpi.bandwidth_gbps(text) == pytest.approx(7872.09 / 8000)
    assert mpi.latency_us("0: vm\n") is None


def test_netpipes_rows_are_read_from_stderr_where_it_prints_them() -> None:
    latency = mpi.parse(MPI_LATENCY, Options(), ("n-0", "n-1"), ran("", stderr=recorded("netpipe.txt")))
    assert (latency.answer.readings[0].value, latency.details["tool"]) == (2.68, "NetPIPE")
    bandwidth = mpi.parse(MPI_BANDWIDTH, Options(), ("n-0", "n-1"), ran("", stderr=recorded("netpipe.txt")))
    assert bandwidth.answer.readings[0].value == 0.984


def test_osu_has_latency_and_bandwidth_in_both_its_forms() -> None:
    assert mpi.latency_us(recorded("osu_latency.txt")) == 1.68
    assert mpi.bandwidth_gbps(recorded("osu_bw.txt")) == pytest.approx(24.58637)
    # A latency test says nothing about the bandwidth.
    assert mpi.bandwidth_gbps(recorded("osu_latency.txt")) is None
    assert mpi.latency_us(recorded("osu_bw.txt")) is None


def test_mpi_is_compared_with_the_limits_of_the_adapters() -> None:
    fast = mpi.parse(MPI_LATENCY, ND, ("n-0", "n-1"), ran(recorded("osu_latency.txt")))
    assert (verdicts(fast), fast.details["tool"]) == ([], "OSU")
    slow = mpi.parse(MPI_LATENCY, ND, ("n-0", "n-1"), ran(recorded("osu_latency.txt").replace("1.68", "5.20")))
    assert verdicts(slow) == ["warn"]
    good = mpi.parse(MPI_BANDWIDTH, ND, ("n-0", "n-1"), ran(recorded("osu_bw.txt")))
    assert (verdicts(good), good.answer.readings[0].limit) == ([], 22.5)
    bad = mpi.parse(
        MPI_BANDWIDTH,
        ND,
        ("n-0", "n-1"),
        ran(recorded("osu_bw.txt").replace("24586.37", "11.00").replace("22904.11", "12.00")),
    )
    assert verdicts(bad) == ["warn"]
    assert verdicts(mpi.parse(MPI_LATENCY, ND, ("n-0", "n-1"), ran("nothing"))) == ["unknown"]


def test_fio_has_the_rate_of_the_direction_that_was_asked_for() -> None:
    text = recorded("fio_read.json")
    assert storage.gbps_of(text, "read")[0] == pytest.approx(1.2489775)
    assert storage.gbps_of(f"note: both iodepth\n{text}", "read")[0] == pytest.approx(1.2489775)
    rate, why = storage.gbps_of(text, "write")
    assert (rate, why) == (None, "fio transferred nothing (write)")


@pytest.mark.parametrize("text", ["", "{", "{}", '{"jobs": []}', '{"jobs": [{"error": 28}]}'])
def test_an_output_of_fio_without_a_rate_is_none(text: str) -> None:
    rate, why = storage.gbps_of(text, "read")
    assert rate is None
    assert "fio" in why


def test_a_full_disk_is_named() -> None:
    held = json.loads(recorded("fio_read.json"))
    held["jobs"][0]["error"] = 28
    assert "No space left on device" in storage.gbps_of(json.dumps(held), "read")[1]


def test_nccls_log_shows_what_was_in_force() -> None:
    found = nccl_log.read(recorded("nccl_info.txt"))
    assert found.topology_file == "/etc/hpcai/nccl-topo.xml"
    assert (found.relaxed_ordering, found.interface, found.network) == (True, "eth0", "IBext")
    assert (found.sharp, found.adapters) == (True, ("mlx5_ib0", "mlx5_ib1"))
    assert found.plugin.endswith("nccl_rdma_sharp_plugin/lib/libnccl-net.so")
    assert found.by_bus is True
    assert dict(found.algorithms) == {8: "TREE/LL", 134217728: "RING/LL128", 8589934592: "RING/SIMPLE"}
    words = nccl_log.in_words(found)
    assert words["NCCL_IB_AR_THRESHOLD"] == "0"
    assert words["algorithms"] == "TREE/LL, RING/LL128, RING/SIMPLE"


def test_without_a_log_nothing_is_claimed() -> None:
    found = nccl_log.read("# Avg bus bandwidth    : 67.68\n")
    assert not found.seen
    assert nccl_log.in_words(found)["relaxed ordering"] == "not logged"
    assert nccl_log.in_words(found)["network plugin"] == "not logged"


@pytest.mark.parametrize(
    ("line", "plugin", "none"),
    [
        ("h:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", "", True),
        ("h:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.", "", True),
        (
            "h:1:1 [0] NCCL INFO NET/Plugin: Loaded net plugin IBext_v8 (v8)",
            "NET/Plugin: Loaded net plugin IBext_v8 (v8)",
            False,
        ),
    ],
)
def test_the_plugin_counts_only_if_nccl_says_that_it_loaded_it(line: str, plugin: str, none: bool) -> None:
    found = nccl_log.read(line + "\n")
    assert (found.plugin, found.no_plugin) == (plugin, none)


def test_gpus_in_another_order_are_noticed() -> None:
    text = recorded("nccl_info.txt").replace("device  0 [0001:00:00]", "device  0 [000e:00:00]")
    assert nccl_log.read(text).by_bus is False
    old = recorded("nccl_info.txt").replace("0001:00:00", "0x00").replace("0002:00:00", "0x00")
    assert nccl_log.read(old).by_bus is None


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ran("", 124), "did not finish within"),
        (ran("", 1, "salloc: error: Unable to allocate resources: Requested nodes are busy"), "did not start"),
        (ran("", 127, "neither osu_latency nor NPopenmpi is installed"), "did not start"),
        (ran("", 1, "some crash"), "failed with exit status 1: some crash"),
    ],
)
def test_what_could_not_be_measured_is_unknown(result: Result, words: str) -> None:
    measured = judge_run(MPI_LATENCY, ND, ("n-0", "n-1"), result)
    assert verdicts(measured) == ["unknown"]
    assert words in measured.answer.findings[0].summary


@pytest.mark.parametrize(
    ("installed", "shown"),
    [
        (("osu_latency", "NPopenmpi"), "osu_latency -m 64"),
        (("NPopenmpi",), "NPopenmpi -l 1 -u 64 -p 0 -o /dev/null"),
        ((), ""),
    ],
)
def test_the_node_uses_osus_program_or_else_netpipe(tmp_path: Path, installed: tuple[str, ...], shown: str) -> None:
    for name in installed:
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n', encoding="utf-8")
        (tmp_path / name).chmod(0o700)
    words = MPI_LATENCY.step(MPI_LATENCY, ND, ("n-0", "n-1")).program
    done = subprocess.run(
        list(words), env={"PATH": f"{tmp_path}:/bin", "SLURM_PROCID": "0"}, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == shown
    assert done.returncode == (0 if shown else 127)
    assert shown or "netpipe-openmpi" in done.stderr


def test_a_program_of_ones_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\necho mine\n", encoding="utf-8")
    (tmp_path / "mine").chmod(0o700)
    words = MPI_LATENCY.step(MPI_LATENCY, replace(ND, program=str(tmp_path / "mine")), ("n-0", "n-1")).program
    assert (
        subprocess.run(list(words), env={"PATH": "/bin"}, capture_output=True, text=True, check=True).stdout == "mine\n"
    )


def test_hpl_runs_in_a_folder_of_its_own_with_its_input_file(tmp_path: Path) -> None:
    program = tmp_path / "xhpl"
    program.write_text("#!/bin/sh\nhead -1 HPL.dat; sed -n 6p hpccinf.txt; echo rows >hpccoutf.txt; pwd; exit 3\n")
    program.chmod(0o700)
    step = linpack.step(HPL, Options(program=str(program), own={"order": "512", "ranks": "2"}), ("n-0",))
    done = subprocess.run(
        list(step.program),
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), **step.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["HPLinpack benchmark input file", "512 Ns"]
    assert lines[3] == "rows"
    assert done.returncode == 3
    assert not Path(lines[2]).exists()


def test_hints_name_checks_and_benchmarks_that_exist() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in Path(storage.__file__).parent.glob("*.py"))
    checks, benchmarks = re.findall(r"--only (\S+?)[ '\"]", texts), re.findall(r"'hpcnode bench run (\S+?)[ ']", texts)
    assert len(checks) > 3
    assert len(benchmarks) > 1
    assert set(checks) <= set(health_catalog.NAMES)
    assert set(benchmarks) <= set(catalog.NAMES)
