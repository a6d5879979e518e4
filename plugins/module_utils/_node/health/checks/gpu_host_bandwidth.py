# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether each GPU reaches its bandwidth to and from the host's memory."""

from __future__ import annotations

from dataclasses import replace

from ...sku.types import Threshold
from ..check import DEEP, REPLACE, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..cuda import copies
from ..deep import gpus, nvbandwidth, tools
from ..deep.compare import MARGIN, compared, outliers
from ..deep.idle import must_be_idle
from ..deep.options import WITH_PROGRAM
from ..limits import in_words
from ..nvidia_sizes import with_nvidia_gpus

NAME = "gpu_host_bandwidth"

_OF_TESTS = {"host_to_device_memcpy_ce": copies.TO_GPU, "device_to_host_memcpy_ce": copies.TO_HOST}
_WORDS = {copies.TO_GPU: "the bandwidth from host to GPU", copies.TO_HOST: "the bandwidth from GPU to host"}
_TOOL_S, _OWN_S = 180.0, 60.0
_HINT = "Compare link width and speed: hpcnode health run periodic --only gpu_pcie; then replace the node"

_Values = dict[tuple[str, str], float]


def measure(context: Context) -> Answer:
    """Copy to and from each GPU, by nvbandwidth, or by the driver where that is not there."""
    present = [gpu.busid for gpu in gpus.present(context)]
    must_be_idle(context, CHECK)
    path = tools.program_of(context, CHECK, "nvbandwidth", nvbandwidth.FOLDERS)
    values, findings = _by_tool(context, path, present) if path else _by_driver(context)
    threshold = context.settings.threshold(context.size, NAME)
    limit = threshold.limit if threshold else None
    readings = {
        way: [Reading(f"{way}_bandwidth", round(value, 2), "GB/s", busid, limit) for busid, value in _of(values, way)]
        for way in _WORDS
    }
    told = {finding.device for finding in findings}
    for way, of_way in readings.items():
        if threshold:
            findings += compared(of_way, _with_margin(threshold), _WORDS[way], _HINT)
        else:
            findings += outliers(of_way, _WORDS[way])
        missing = [busid for busid in present if busid not in [one.device for one in of_way] and busid not in told]
        if missing and "" not in told:
            findings.append(Finding(UNKNOWN, f"{_WORDS[way]} was not measured of {', '.join(missing)}"))
    slowest = min((float(one.value) for of_way in readings.values() for one in of_way), default=0)
    by = "nvbandwidth" if path else "copies of the driver"
    good = f"{len(present)} GPUs, the slowest with {slowest:.4g} GB/s, by {by}"
    every = tuple(one for of_way in readings.values() for one in of_way)
    return Answer(good, every, tuple(findings), in_words(threshold) if threshold else "")


def _by_tool(context: Context, path: str, present: list[str]) -> tuple[_Values, list[Finding]]:
    matrices, findings = nvbandwidth.run(context, path, tuple(_OF_TESTS), present, _TOOL_S)
    values = {
        (_OF_TESTS[test], busid): value
        for test, matrix in matrices.items()
        for (_host, busid), value in matrix.items()
        if test in _OF_TESTS
    }
    return values, findings


def _by_driver(context: Context) -> tuple[_Values, list[Finding]]:
    values: _Values = {}
    findings = []
    for gpu in gpus.present(context):
        near = gpus.cpus_near(context, gpu)
        answer, wrong = gpus.ask(
            context,
            "the bandwidth between host and GPU",
            _OWN_S,
            lambda busid=gpu.busid, cpus=near: copies.host_bandwidths(busid, cpus),  # type: ignore[misc]
            gpu.busid,
        )
        values.update({(way, gpu.busid): value for way, value in answer.items()})
        findings += [wrong] if wrong else []
    return values, findings


def _of(values: _Values, way: str) -> list[tuple[str, float]]:
    return [(busid, value) for (direction, busid), value in values.items() if direction == way]


def _with_margin(threshold: Threshold) -> Threshold:
    return threshold if threshold.warn is not None else replace(threshold, warn=threshold.limit * MARGIN)


CHECK = Check(
    name=NAME,
    title="bandwidth between host and GPU",
    explain="Copies 512 MiB to and from each GPU, by NVIDIA's nvbandwidth (host_to_device_memcpy_ce, "
    "device_to_host_memcpy_ce), or by the driver itself where that is not installed, from the CPUs near the GPU. The "
    "limit is azurehpc-health-checks' (check_gpu_bw), which warns within 5 percent of it, too.",
    tiers=(DEEP,),
    measure=measure,
    applies=with_nvidia_gpus,
    limit_s=8 * _OWN_S + 30,
    action=REPLACE,
    fault="NHC2020",
    asks_device=True,
    thresholds=(NAME,),
    options=WITH_PROGRAM,
)
