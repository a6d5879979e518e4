# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' NVLinks: as many are up as there should be, and they run without errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...machine.gpu import GpuHealth, NvLinks
from ...sku.types import VmSize
from ..check import BOOT, DEEP, FAIL, PERIODIC, REBOOT, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, gather, read_gpus, unreadable
from ..gpus import PATIENCE_S
from ..limits import in_words
from ..nvidia_sizes import with_nvidia_gpus

_ERRORS = "errors"
_HINT = "'nvidia-smi nvlink --status' tells more; restart the machine, and redeploy the VM if it stays so"
_KINDS = {
    "crc_flit": "CRC errors",
    "crc_data": "CRC errors of data",
    "replay": "replays",
    "recovery": "recoveries of links",
}


def _measure(context: Context) -> Answer:
    gpus = read_gpus(context)
    links = {one.index: one for one in context.gpus.links()}
    if not _has_any(links.values()) and not (context.size and context.size.nvswitch):
        return Answer(skipped="the GPUs have no NVLink")
    stated = context.settings.threshold(context.size, "nvlinks")
    told: list[Told] = []
    for gpu in gpus:
        told += unreadable(gpu) or _up(gpu, links.get(gpu.index), None if stated is None else int(stated.limit))
    told += _grown(context, [(gpu, links[gpu.index]) for gpu in gpus if gpu.index in links])
    limit = in_words(stated) if stated else "every link of a GPU (azurehpc-health-checks, check_nvlink_status)"
    return gather(told, f"the NVLinks of {len(gpus)} GPUs are up", limit)


def _has_any(links: Iterable[NvLinks]) -> bool:
    return any(one.active or one.problem for one in links)


def _up(gpu: GpuHealth, links: NvLinks | None, stated: int | None) -> Iterator[Told]:
    if links is None or links.problem:
        why = f": {links.problem}" if links else ""
        yield Finding(UNKNOWN, f"{gpu.label} does not tell how its NVLinks are{why}", gpu.device)
        return
    up, limit = sum(links.active), len(links.active) if stated is None else stated
    yield Reading("gpu_nvlinks_up", up, "links", gpu.device, limit or 1)
    if not links.active:
        yield Finding(FAIL, f"{gpu.label} shows none of its NVLinks", gpu.device, _HINT)
    elif up < limit:
        down = ", ".join(str(link) for link, active in enumerate(links.active) if not active)
        words = f"{up} of {limit} NVLinks of {gpu.label} are up: down {down or 'are those it does not show'}"
        yield Finding(FAIL, words, gpu.device, _HINT)


def _grown(context: Context, gpus: Sequence[tuple[GpuHealth, NvLinks]]) -> Iterator[Told]:
    """Yield the errors since the last run; the counters begin anew with each load of the driver."""
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
            yield Finding(WARN, f"NVLinks of {gpu.label} had errors since the last run: {words}", gpu.device, _HINT)


def _applies(size: VmSize | None) -> str:
    if size is not None and size.gpu_count == 1:
        return f"{size.name} has one GPU, which has no peer"
    return with_nvidia_gpus(size)


CHECK = Check(
    name="gpu_nvlink",
    title="NVLinks of the GPUs",
    explain=(
        "Of each GPU as many NVLinks are up as the VM size is known to have, else all that it has "
        "(azurehpc-health-checks demands all; with H100 NVL 12 of 18 are up, its issue 162). Errors that were added "
        "since the last run are a warning."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=_applies,
    limit_s=PATIENCE_S,
    action=REBOOT,
    fault="NHC2016",
    further_limits=("nvlinks",),
)
