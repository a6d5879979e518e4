# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the GPUs reach their bandwidth when they read each other's memory."""

from __future__ import annotations

from ..check import DEEP, FAIL, RESET_GPU, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..cuda import copies
from ..deep import gpus, nvbandwidth, tools
from ..deep.applies import several_nvidia
from ..deep.compare import outliers
from ..deep.idle import must_be_idle
from ..deep.options import WITH_PROGRAM
from ..limits import in_words

NAME = "gpu_peer_bandwidth"

_TEST = "device_to_device_memcpy_read_ce"
_RUN_S = 240.0
_WHAT = "the bandwidth between GPUs"
_HINT = "See the links: hpcnode health run periodic --only gpu_nvlink, and the fabric manager; then replace the node"

_Pairs = dict[tuple[str, str], float]
"""GB/s by reader and owner of the memory."""


def measure(context: Context) -> Answer:
    """Let each GPU read of each other one, by nvbandwidth, or by the driver where that is not there."""
    present = [gpu.busid for gpu in gpus.present(context)]
    if len(present) == 1 and (context.size is None or context.size.gpu_count in (None, 1)):
        return Answer(skipped="there is one GPU only")
    must_be_idle(context, CHECK)
    path = tools.program_of(context, CHECK, "nvbandwidth", nvbandwidth.FOLDERS)
    pairs, findings = _by_tool(context, path, present) if path else _by_driver(context, present)
    threshold = context.settings.threshold(context.size, NAME)
    limit = threshold.limit if threshold else None
    # One figure for each GPU, so that nodes can be compared: the worst of what it reads.
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
    """Return what is too slow: a GPU where all its pairs are, else the pairs."""
    slow = {pair: value for pair, value in pairs.items() if not value >= limit}
    of_gpu = {busid: [pair for pair in pairs if busid in pair] for busid in {one for pair in pairs for one in pair}}
    # With two GPUs nobody can tell which of them it is.
    blamed = sorted(
        busid for busid, its in of_gpu.items() if len(of_gpu) > 2 and its and all(pair in slow for pair in its)
    )
    found = []
    for busid in blamed:
        values = [slow[pair] for pair in of_gpu[busid]]
        words = f"{_WHAT} is {max(values):.4g} GB/s at best between {busid} and the others, and should be {limit:g}"
        found.append(Finding(FAIL, words, busid, _HINT))
    for (reader, owner), value in sorted(slow.items()):
        if reader not in blamed and owner not in blamed:
            words = f"{reader} reads from {owner} with {value:.4g} GB/s, and should with {limit:g}"
            found.append(Finding(FAIL, words, reader, _HINT))
    return found


def _without_access(context: Context, pairs: _Pairs, present: list[str]) -> list[Finding]:
    """Return pairs that have no access to each other, where all should: all GPUs hang on the same NVSwitches."""
    missing = [(one, two) for one in present for two in present if one != two and (one, two) not in pairs]
    if not missing:
        return []
    if context.size is not None and context.size.nvswitch:
        words = f"{len(missing)} of {len(missing) + len(pairs)} pairs of GPUs have no access to each other"
        return [Finding(FAIL, f"{words}, e.g. {missing[0][0]} to {missing[0][1]}", missing[0][0], _HINT)]
    if not pairs:
        return [Finding(UNKNOWN, "no GPU has access to another one's memory, so nothing was measured")]
    return []


def _by_tool(context: Context, path: str, present: list[str]) -> tuple[_Pairs, list[Finding]]:
    matrices, findings = nvbandwidth.run(context, path, (_TEST,), present, _RUN_S)
    return {pair: value for pair, value in matrices.get(_TEST, {}).items() if pair[0] != pair[1]}, findings


def _by_driver(context: Context, present: list[str]) -> tuple[_Pairs, list[Finding]]:
    answer, wrong = gpus.ask(context, _WHAT, _RUN_S, lambda: copies.peer_bandwidths(present))
    pairs = {(reader, owner): value for reader, owner, value in answer.get("pairs", ()) if value is not None}
    return pairs, [wrong] if wrong else []


CHECK = Check(
    name=NAME,
    title="bandwidth between GPUs",
    explain="Each GPU copies 512 MiB out of each other one's memory, by NVIDIA's nvbandwidth "
    "(device_to_device_memcpy_read_ce), or by the driver itself where that is not installed. The limit is "
    "azurehpc-health-checks' (check_gpu_bw).",
    tiers=(DEEP,),
    measure=measure,
    applies=several_nvidia,
    limit_s=_RUN_S + 30,
    action=RESET_GPU,
    fault="NHC2020",
    asks_device=True,
    thresholds=(NAME,),
    options=WITH_PROGRAM,
)
