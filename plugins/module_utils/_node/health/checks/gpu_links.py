# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' links, PCIe and NVLink: the expected number, width and speed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...machine.gpu import GpuHealth, NvLinks
from ...sku.types import VmSize
from ..applies import with_nvidia_gpus
from ..check import BOOT, DEEP, FAIL, PERIODIC, PROLOG, REBOOT, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Observation, gather, judge_each, not_reported, read_gpus, unreadable
from ..gpus import CHECK_LIMIT_S
from ..settings import in_words

# The GPUs' PCIe links: the expected width and speed.

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_PCIE_HINT = "'lspci -vv' shows the link (LnkSta); restart the VM from Azure, and redeploy it if that does not help"


def _measure_pcie(context: Context) -> Answer:
    width, generation = _expected_link(context.size)

    def judge(gpu: GpuHealth) -> Iterator[Observation]:
        yield from _width(gpu, width)
        yield from _speed(gpu, generation)

    stated = [f"{width} lanes" if width else "", f"generation {generation}" if generation else ""]
    by = f" ({context.size.name})" if context.size and any(stated) else ""
    limit = f"{', '.join(filter(None, stated)) or 'the maximum of each GPU'}{by}"
    good = "the links have the expected width and speed"
    return judge_each(context, "the state of its PCIe link", "pcie", judge, good, limit)


def _expected_link(size: VmSize | None) -> tuple[int | None, int | None]:
    if size is None:
        return None, None
    # "16 GT/s", "32.0 GT/s PCIe"
    speed = float(size.pcie_gtps.split()[0]) if size.pcie_gtps else 0.0
    return size.pcie_width, _GENERATIONS.get(speed)


def _width(gpu: GpuHealth, expected: int | None) -> Iterator[Observation]:
    limit = expected or gpu.pcie.highest_width
    if gpu.pcie.width is None or limit is None:
        yield not_reported(gpu, "the width of its PCIe link", "pcie")
        return
    yield Reading("gpu_pcie_width", gpu.pcie.width, "lanes", gpu.device, limit)
    if gpu.pcie.width < limit:
        words = f"the PCIe link of {gpu.label} has {gpu.pcie.width} of {limit} lanes"
        yield Finding(FAIL, words, gpu.device, _PCIE_HINT)


def _speed(gpu: GpuHealth, expected: int | None) -> Iterator[Observation]:
    pcie = gpu.pcie
    if pcie.generation is None or pcie.highest_generation is None:
        yield not_reported(gpu, "the speed of its PCIe link", "pcie")
        return
    # The VM size's value comes from NCCL's topology file, and can be higher than the GPU's maximum.
    limit = min(expected or pcie.own_generation or 0, pcie.own_generation or expected or 0)
    yield Reading("gpu_pcie_generation", pcie.highest_generation, device=gpu.device, limit=limit or None)
    if pcie.highest_generation < limit:
        words = f"the PCIe link of {gpu.label} reaches generation {pcie.highest_generation} of {limit}"
        yield Finding(FAIL, words, gpu.device, _PCIE_HINT)
    # An idle link slows down to save power, so its speed counts only under load.
    elif pcie.generation < pcie.highest_generation and gpu.reasons is None:
        yield not_reported(gpu, "whether it is idle, as the slow PCIe link of a GPU may be", "reasons")
    elif pcie.generation < pcie.highest_generation and not gpu.idle:
        words = (
            f"the PCIe link of {gpu.label} runs at generation {pcie.generation} of {pcie.highest_generation} under load"
        )
        yield Finding(FAIL, words, gpu.device, _PCIE_HINT)


GPU_PCIE = Check(
    name="gpu_pcie",
    title="PCIe links of the GPUs",
    explain=(
        "The PCIe link of each GPU has as many lanes as the facts of the VM size state. It can reach the PCIe "
        "generation that the facts state, or the GPU's own maximum if this is lower (azhpc-images, topology/*.xml). If "
        "the facts do not state these values, the GPU's own maximum is the limit. The link of a busy GPU must run at "
        "the highest generation that it can reach; the link of an idle GPU may run at a lower one."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure_pcie,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=REBOOT,
    fault="NHC2010",
)


# The GPUs' NVLinks: the expected number is up, without new errors.

_ERRORS = "errors"
_NVLINK_HINT = "See 'nvidia-smi nvlink --status'; restart the machine, and redeploy the VM if that does not help"
_KINDS = {
    "crc_flit": "CRC errors",
    "crc_data": "data CRC errors",
    "replay": "replays",
    "recovery": "link recoveries",
}


def _measure_nvlink(context: Context) -> Answer:
    gpus = read_gpus(context)
    links = {one.index: one for one in context.gpus.links()}
    if not _has_any(links.values()) and not (context.size and context.size.nvswitch):
        return Answer(skipped="the GPUs have no NVLink")
    stated = context.settings.threshold(context.size, "nvlinks")
    observations: list[Observation] = []
    for gpu in gpus:
        observations += unreadable(gpu) or _up(gpu, links.get(gpu.index), None if stated is None else int(stated.limit))
    observations += _grown(context, [(gpu, links[gpu.index]) for gpu in gpus if gpu.index in links])
    limit = in_words(stated) if stated else "every link of a GPU (azurehpc-health-checks, check_nvlink_status)"
    return gather(observations, f"the NVLinks of {len(gpus)} GPUs are up", limit)


def _has_any(links: Iterable[NvLinks]) -> bool:
    return any(one.active or one.problem for one in links)


def _up(gpu: GpuHealth, links: NvLinks | None, stated: int | None) -> Iterator[Observation]:
    if links is None or links.problem:
        why = f": {links.problem}" if links else ""
        yield Finding(UNKNOWN, f"{gpu.label} does not report the state of its NVLinks{why}", gpu.device)
        return
    up, limit = sum(links.active), len(links.active) if stated is None else stated
    yield Reading("gpu_nvlinks_up", up, "links", gpu.device, limit or 1)
    if not links.active:
        yield Finding(FAIL, f"{gpu.label} shows no NVLinks", gpu.device, _NVLINK_HINT)
    elif up < limit:
        down = ", ".join(str(link) for link, active in enumerate(links.active) if not active)
        words = f"{up} of {limit} NVLinks of {gpu.label} are up; down: {down or 'links that it does not show'}"
        yield Finding(FAIL, words, gpu.device, _NVLINK_HINT)


def _grown(context: Context, gpus: Sequence[tuple[GpuHealth, NvLinks]]) -> Iterator[Observation]:
    """Yield the errors since the last run. Loading the driver resets the counters."""
    before = context.history.get(_ERRORS) or {}
    now = {gpu.uuid or gpu.device: dict(links.errors) for gpu, links in gpus}
    context.history.keep(_ERRORS, {**before, **now})
    for gpu, links in gpus:
        known = before.get(gpu.uuid or gpu.device, {})
        grown = {kind: count - known[kind] for kind, count in links.errors.items() if count > known.get(kind, count)}
        for kind, count in links.errors.items():
            yield Reading(f"gpu_nvlink_{kind}", count, "errors", gpu.device)
        if grown:
            words = ", ".join(f"{count} {_KINDS.get(kind, kind)}" for kind, count in grown.items())
            yield Finding(
                WARN, f"NVLinks of {gpu.label} had errors since the last run: {words}", gpu.device, _NVLINK_HINT
            )


def _applies(size: VmSize | None) -> str:
    if size is not None and size.gpu_count == 1:
        return f"{size.name} has only one GPU"
    return with_nvidia_gpus(size)


GPU_NVLINK = Check(
    name="gpu_nvlink",
    title="NVLinks of the GPUs",
    explain=(
        "On each GPU, as many NVLinks are up as the facts of the VM size state (limit nvlinks). If the facts state "
        "no number, all links of the GPU must be up, as azurehpc-health-checks requires on every size. For H100 NVL, "
        "the facts state 12 of 18, as on healthy machines (azurehpc-health-checks, issue 162). If NVLinks had errors "
        "since the last run, the check warns."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_nvlink,
    applies=_applies,
    limit_s=CHECK_LIMIT_S,
    action=REBOOT,
    fault="NHC2016",
    further_limits=("nvlinks",),
)
