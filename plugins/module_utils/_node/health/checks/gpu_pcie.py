# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' PCIe links: as wide and as fast as promised."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ...sku.types import VmSize
from ..check import BOOT, DEEP, FAIL, PERIODIC, PROLOG, REBOOT, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Told, judge_each, untold
from ..gpus import PATIENCE_S
from ..nvidia_sizes import with_nvidia_gpus

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_HINT = "'lspci -vv' shows the link (LnkSta); restart the VM from Azure, and redeploy it if it stays so"


def _measure(context: Context) -> Answer:
    width, generation = _promised(context.size)

    def judge(gpu: GpuHealth) -> Iterator[Told]:
        yield from _width(gpu, width)
        yield from _speed(gpu, generation)

    said = [f"{width} lanes" if width else "", f"generation {generation}" if generation else ""]
    by = f" ({context.size.name})" if context.size and any(said) else ""
    limit = f"{', '.join(filter(None, said)) or 'what each GPU is capable of'}{by}"
    good = "the links are as wide and as fast as they should be"
    return judge_each(context, "how its PCIe link is", "pcie", judge, good, limit)


def _promised(size: VmSize | None) -> tuple[int | None, int | None]:
    if size is None:
        return None, None
    # "16 GT/s", "32.0 GT/s PCIe"
    speed = float(size.pcie_gtps.split()[0]) if size.pcie_gtps else 0.0
    return size.pcie_width, _GENERATIONS.get(speed)


def _width(gpu: GpuHealth, promised: int | None) -> Iterator[Told]:
    wanted = promised or gpu.pcie.highest_width
    if gpu.pcie.width is None or wanted is None:
        yield untold(gpu, "how wide its PCIe link is", "pcie")
        return
    yield Reading("gpu_pcie_width", gpu.pcie.width, "lanes", gpu.device, wanted)
    if gpu.pcie.width < wanted:
        words = f"the PCIe link of {gpu.label} has {gpu.pcie.width} of {wanted} lanes"
        yield Finding(FAIL, words, gpu.device, _HINT)


def _speed(gpu: GpuHealth, promised: int | None) -> Iterator[Told]:
    pcie = gpu.pcie
    if pcie.generation is None or pcie.highest_generation is None:
        yield untold(gpu, "how fast its PCIe link is", "pcie")
        return
    # The figure of a VM size is that of NCCL's topology file: no GPU can do more than it is made for.
    wanted = min(promised or pcie.own_generation or 0, pcie.own_generation or promised or 0)
    yield Reading("gpu_pcie_generation", pcie.highest_generation, device=gpu.device, limit=wanted or None)
    if pcie.highest_generation < wanted:
        words = f"the PCIe link of {gpu.label} reaches generation {pcie.highest_generation} of {wanted}"
        yield Finding(FAIL, words, gpu.device, _HINT)
    # A link without traffic goes down to save power: it says something only when the GPU works.
    elif pcie.generation < pcie.highest_generation and not gpu.idle:
        words = (
            f"the PCIe link of {gpu.label} runs at generation {pcie.generation} of {pcie.highest_generation} under load"
        )
        yield Finding(FAIL, words, gpu.device, _HINT)


CHECK = Check(
    name="gpu_pcie",
    title="PCIe links of the GPUs",
    explain=(
        "Each GPU's link has the lanes, and reaches the generation, that the VM size states (azhpc-images, the "
        "topology file of its family), else those that the GPU is capable of. An idle GPU's link may run slower; one "
        "that works may not."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=PATIENCE_S,
    action=REBOOT,
    fault="NHC2010",
)
