# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Bandwidth of the GPUs to and from the host's memory and between each other, with nvbandwidth or the driver."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...machine.run import last_line
from ...sku.types import Threshold
from .. import cuda, deep
from ..applies import with_nvidia_gpus, with_several_nvidia_gpus
from ..check import DEEP, FAIL, REPLACE, RESET_GPU, UNKNOWN, Answer, CannotMeasure, Check, Context, Finding, Reading
from ..deep import MARGIN, WITH_PROGRAM, limit_findings, must_be_idle, outliers
from ..settings import in_words

# The output of NVIDIA's nvbandwidth, which is the same in all versions: a title and a matrix for each test.

_RUNNING = re.compile(r"^Running (\S+?)\.?\s*$")
_DEVICE = re.compile(
    r"^(?:Process\s+\d+.*: device|Device) (\d+): .*\(([0-9a-fA-F]{8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\)"
)

Matrix = Mapping[tuple[int, int], float]
"""GB/s by row and column, without values that are not available."""


def matrices_of(text: str) -> dict[str, Matrix]:
    """Return the matrix of each test that printed one."""
    found: dict[str, Matrix] = {}
    test, columns, values = "", list[int](), dict[tuple[int, int], float]()
    for line in text.splitlines():
        words = line.split()
        running = _RUNNING.match(line)
        if running:
            test, columns, values = running[1], [], {}
        elif not test or not words:
            columns = []
        elif not columns:
            if all(word.isdecimal() for word in words):
                columns = [int(word) for word in words]
        elif words[0].isdecimal() and len(words) == len(columns) + 1:
            row = int(words[0])
            values.update(
                {(row, column): value for column, value in zip(columns, _numbers(words[1:])) if value is not None}
            )
            if values:
                found[test] = values
    return found


def devices_of(text: str) -> dict[int, str]:
    """Return the PCI address of each device, in Linux's spelling; empty for versions that do not print it."""
    matches = filter(None, map(_DEVICE.match, text.splitlines()))
    return {int(match[1]): f"{int(match[2], 16):04x}:{match[3]}:{match[4]}.0".lower() for match in matches}


def _numbers(words: list[str]) -> list[float | None]:
    return [_number(word) for word in words]


def _number(word: str) -> float | None:
    """Return a bandwidth; None for ``N/A`` and for the zero of a device with itself."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


# Running NVIDIA's nvbandwidth, with results by PCI address.

FOLDERS = ("/opt/nvbandwidth", "/usr/local/nvbandwidth", "/opt/nvidia/nvbandwidth")

Values = Mapping[str, Mapping[tuple[str, str], float]]
"""GB/s of each test by the devices of row and column; a row of the host has an empty name."""


def run_nvbandwidth(
    context: Context, path: str, tests: Sequence[str], busids: Sequence[str], within_s: float
) -> tuple[Values, list[Finding]]:
    """Run tests, and return the values and the findings.

    :param busids: the PCI addresses of the GPUs in order, for versions that do not print them.
    """
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    result = deep.run_tool(context, [path, "-t", *tests], within_s, environment)
    refused = deep.run_problem(context, result, "nvbandwidth", within_s)
    if refused:
        return {}, [refused]
    printed, matrices = devices_of(result.stdout), matrices_of(result.stdout)
    found = []
    for test in tests:
        if test not in matrices:
            words = f"nvbandwidth printed no bandwidth for {test}: {last_line(result)}"
            found.append(Finding(UNKNOWN, words, hint=f"Run it by hand: {path} -t {test}"))

    def name(number: int) -> str:
        return printed.get(number) or (busids[number] if number < len(busids) else f"GPU {number}")

    values = {
        test: {(name(row), name(column)): value for (row, column), value in matrix.items()}
        for test, matrix in matrices.items()
    }
    return values, found


# Whether each GPU reaches its bandwidth to and from the host's memory.

_HOST_BANDWIDTH = "gpu_host_bandwidth"

_OF_TESTS = {"host_to_device_memcpy_ce": cuda.TO_GPU, "device_to_host_memcpy_ce": cuda.TO_HOST}
_WORDS = {cuda.TO_GPU: "the bandwidth from host to GPU", cuda.TO_HOST: "the bandwidth from GPU to host"}
_TOOL_S, _COPIES_S = 180.0, 60.0
_HOST_HINT = "Check link width and speed with 'hpcnode health run periodic --only gpu_pcie'; then replace the node"

_Values = dict[tuple[str, str], float]


def _measure_host(context: Context) -> Answer:
    """Copy to and from each GPU, with nvbandwidth if it is installed, else with the driver."""
    present = [gpu.busid for gpu in deep.present_gpus(context)]
    must_be_idle(context, GPU_HOST_BANDWIDTH)
    path = deep.find_program(context, GPU_HOST_BANDWIDTH, "nvbandwidth", FOLDERS)
    values, findings = _by_tool_host(context, path, present) if path else _by_driver_host(context)
    threshold = context.settings.threshold(context.size, _HOST_BANDWIDTH)
    limit = threshold.limit if threshold else None
    readings = {
        way: [Reading(f"{way}_bandwidth", round(value, 2), "GB/s", busid, limit) for busid, value in _of(values, way)]
        for way in _WORDS
    }
    reported = {finding.device for finding in findings}
    for way, of_way in readings.items():
        if threshold:
            findings += limit_findings(of_way, _with_margin(threshold), _WORDS[way], _HOST_HINT)
        else:
            findings += outliers(of_way, _WORDS[way])
        missing = [busid for busid in present if busid not in [one.device for one in of_way] and busid not in reported]
        if missing and "" not in reported:
            findings.append(Finding(UNKNOWN, f"{_WORDS[way]} was not measured for {', '.join(missing)}"))
    slowest = min((float(one.value) for of_way in readings.values() for one in of_way), default=0)
    by = "nvbandwidth" if path else "copies of the driver"
    good = f"{len(present)} GPUs, the slowest with {slowest:.4g} GB/s, by {by}"
    every = tuple(one for of_way in readings.values() for one in of_way)
    return Answer(good, every, tuple(findings), in_words(threshold) if threshold else "")


def _by_tool_host(context: Context, path: str, present: list[str]) -> tuple[_Values, list[Finding]]:
    matrices, findings = run_nvbandwidth(context, path, tuple(_OF_TESTS), present, _TOOL_S)
    values = {
        (_OF_TESTS[test], busid): value
        for test, matrix in matrices.items()
        for (_host, busid), value in matrix.items()
        if test in _OF_TESTS
    }
    return values, findings


def _by_driver_host(context: Context) -> tuple[_Values, list[Finding]]:
    values: _Values = {}
    findings = []
    for gpu in deep.present_gpus(context):
        near = deep.cpus_near(context, gpu)
        answer, wrong = deep.measure_gpu(
            context,
            "the bandwidth between host and GPU",
            _COPIES_S,
            lambda busid=gpu.busid, cpus=near: cuda.host_bandwidths(busid, cpus),  # type: ignore[misc]
            gpu.busid,
        )
        values.update({(way, gpu.busid): value for way, value in answer.items()})
        findings += [wrong] if wrong else []
    return values, findings


def _of(values: _Values, way: str) -> list[tuple[str, float]]:
    return [(busid, value) for (direction, busid), value in values.items() if direction == way]


def _with_margin(threshold: Threshold) -> Threshold:
    return threshold if threshold.warn is not None else replace(threshold, warn=threshold.limit * MARGIN)


GPU_HOST_BANDWIDTH = Check(
    name=_HOST_BANDWIDTH,
    title="bandwidth between host and GPU",
    explain=(
        "Copies 512 MiB to and from each GPU, with NVIDIA's nvbandwidth (host_to_device_memcpy_ce, "
        "device_to_host_memcpy_ce). If nvbandwidth is not installed, the check copies with the driver, on the CPUs "
        "near the GPU. The check fails if a value is below the limit, and warns if a value is less than 5 percent "
        "above it, both as in azurehpc-health-checks (check_gpu_bw)."
    ),
    tiers=(DEEP,),
    measure=_measure_host,
    applies=with_nvidia_gpus,
    limit_s=8 * _COPIES_S + 30,
    action=REPLACE,
    fault="NHC2020",
    asks_device=True,
    thresholds=(_HOST_BANDWIDTH,),
    options=WITH_PROGRAM,
)


# Whether the GPUs reach their bandwidth when they read each other's memory.

_PEER_BANDWIDTH = "gpu_peer_bandwidth"

_TEST = "device_to_device_memcpy_read_ce"
_RUN_S = 240.0
_WHAT = "the bandwidth between GPUs"
_PEER_HINT = (
    "Check the links ('hpcnode health run periodic --only gpu_nvlink') and the fabric manager; then replace the node"
)

_Pairs = dict[tuple[str, str], float]
"""GB/s by reader and owner of the memory."""


def _measure_peer(context: Context) -> Answer:
    """Let each GPU read from each other GPU, with nvbandwidth if it is installed, else with the driver."""
    present = [gpu.busid for gpu in deep.present_gpus(context)]
    if len(present) == 1:
        if context.size is None or context.size.gpu_count in (None, 1):
            return Answer(skipped="there is only one GPU")
        raise CannotMeasure(
            f"only 1 of {context.size.gpu_count} GPUs is there, so there are no pairs: see check gpu_count"
        )
    must_be_idle(context, GPU_PEER_BANDWIDTH)
    path = deep.find_program(context, GPU_PEER_BANDWIDTH, "nvbandwidth", FOLDERS)
    pairs, findings = _by_tool_peer(context, path, present) if path else _by_driver_peer(context, present)
    threshold = context.settings.threshold(context.size, _PEER_BANDWIDTH)
    limit = threshold.limit if threshold else None
    # One value per GPU, its worst, so that nodes can be compared.
    readings = tuple(
        Reading("gpu_peer_bandwidth", round(min(values), 2), "GB/s", busid, limit)
        for busid, values in ((busid, [pairs[pair] for pair in pairs if pair[0] == busid]) for busid in present)
        if values
    )
    if threshold:
        findings += slow_pairs(pairs, threshold.limit)
    else:
        findings += outliers(readings, _WHAT)
    if not findings:
        findings += _without_access(context, pairs, present)
    slowest = min(pairs.values(), default=0)
    good = f"{len(pairs)} pairs of GPUs, the slowest with {slowest:.4g} GB/s"
    return Answer(good, readings, tuple(findings), in_words(threshold) if threshold else "")


def slow_pairs(pairs: _Pairs, limit: float) -> list[Finding]:
    """Return findings for slow GPUs, if all pairs of a GPU are slow, and for other slow pairs."""
    slow = {pair: value for pair, value in pairs.items() if not value >= limit}
    of_gpu = {busid: [pair for pair in pairs if busid in pair] for busid in {one for pair in pairs for one in pair}}
    # With two GPUs, it is not possible to find out which of them is slow.
    blamed = sorted(
        busid for busid, its in of_gpu.items() if len(of_gpu) > 2 and its and all(pair in slow for pair in its)
    )
    found = []
    for busid in blamed:
        values = [slow[pair] for pair in of_gpu[busid]]
        words = f"{_WHAT} is at most {max(values):.4g} GB/s between {busid} and the others, but should be {limit:g}"
        found.append(Finding(FAIL, words, busid, _PEER_HINT))
    for (reader, owner), value in sorted(slow.items()):
        if reader not in blamed and owner not in blamed:
            words = f"{reader} reads from {owner} with {value:.4g} GB/s, but should with at least {limit:g}"
            found.append(Finding(FAIL, words, reader, _PEER_HINT))
    return found


def _without_access(context: Context, pairs: _Pairs, present: list[str]) -> list[Finding]:
    """Return a finding for pairs without access to each other, if all GPUs are on the same NVSwitches."""
    missing = [(one, two) for one in present for two in present if one != two and (one, two) not in pairs]
    if not missing:
        return []
    if context.size is not None and context.size.nvswitch:
        words = f"{len(missing)} of {len(missing) + len(pairs)} pairs of GPUs have no access to each other"
        return [Finding(FAIL, f"{words}, e.g. {missing[0][0]} to {missing[0][1]}", missing[0][0], _PEER_HINT)]
    if not pairs:
        return [Finding(UNKNOWN, "no GPU has access to another GPU's memory, so nothing was measured")]
    return []


def _by_tool_peer(context: Context, path: str, present: list[str]) -> tuple[_Pairs, list[Finding]]:
    matrices, findings = run_nvbandwidth(context, path, (_TEST,), present, _RUN_S)
    return {pair: value for pair, value in matrices.get(_TEST, {}).items() if pair[0] != pair[1]}, findings


def _by_driver_peer(context: Context, present: list[str]) -> tuple[_Pairs, list[Finding]]:
    answer, wrong = deep.measure_gpu(context, _WHAT, _RUN_S, lambda: cuda.peer_bandwidths(present))
    pairs = {(reader, owner): value for reader, owner, value in answer.get("pairs", ()) if value is not None}
    return pairs, [wrong] if wrong else []


GPU_PEER_BANDWIDTH = Check(
    name=_PEER_BANDWIDTH,
    title="bandwidth between GPUs",
    explain=(
        "Each GPU copies 512 MiB from each other GPU's memory, with NVIDIA's nvbandwidth "
        "(device_to_device_memcpy_read_ce). If nvbandwidth is not installed, the check copies with the driver. The "
        "limit is that of azurehpc-health-checks (check_gpu_bw)."
    ),
    tiers=(DEEP,),
    measure=_measure_peer,
    applies=with_several_nvidia_gpus,
    limit_s=_RUN_S + 30,
    action=RESET_GPU,
    fault="NHC2020",
    asks_device=True,
    thresholds=(_PEER_BANDWIDTH,),
    options=WITH_PROGRAM,
)
