# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""GPUDirect RDMA: the adapters can reach the GPUs' memory."""

from __future__ import annotations

from ...machine.kernel import is_loaded
from ...sku.types import VmSize
from ..check import BOOT, DEEP, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

_PEERMEM = ("nvidia_peermem", "nv_peer_mem")
_DRIVER = "/proc/driver/nvidia/version"
_OPEN = "Open Kernel Module"


def _applies(size: VmSize | None) -> str:
    if size is None:
        return ""
    if not size.hca_count:
        return f"{size.name} has no InfiniBand"
    if size.gpu_model and size.gpu_model.startswith("MI"):
        return f"the driver of {size.gpu_model} needs no module for it"
    return "" if size.gpu_count else f"{size.name} has no GPU"


def _measure(context: Context) -> Answer:
    root = context.root
    loaded = next((name for name in _PEERMEM if is_loaded(root, name)), "")
    if loaded:
        return Answer(f"{loaded} is loaded", readings=(Reading("gpudirect_rdma", loaded),))
    driver = root.text(_DRIVER)
    if driver is None:
        words = "NVIDIA's driver is not loaded, so nothing says whether adapters reach the GPUs' memory"
        return Answer(findings=(Finding(UNKNOWN, words, hint="Check gpu_count tells what is wrong with the GPUs"),))
    if _OPEN in driver and is_loaded(root, "ib_uverbs"):
        return Answer(
            "adapters reach the GPUs' memory through DMA-BUF", readings=(Reading("gpudirect_rdma", "dmabuf"),)
        )
    words = "nvidia_peermem is not loaded, so InfiniBand goes through the host's memory"
    hint = "Run 'modprobe nvidia_peermem'; it is built with the driver where the adapters' drivers are there before it"
    return Answer(readings=(Reading("gpudirect_rdma", "no"),), findings=(Finding(WARN, words, hint=hint),))


CHECK = Check(
    name="peer_memory",
    title="GPUDirect RDMA",
    explain=(
        "InfiniBand adapters reach the GPUs' memory: nvidia_peermem is loaded, or the driver's kernel modules are the "
        "open ones, which offer DMA-BUF (NVIDIA, GPUDirect RDMA documentation). It only warns: jobs run without it, "
        "and slowly."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=_applies,
    action=OBSERVE,
)
