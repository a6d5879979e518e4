# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which VM sizes have something of NVIDIA's that writes into the kernel's log."""

from __future__ import annotations

from ..sku.types import VmSize

_AMD = "MI"
"""How the models of AMD's Instinct begin: MI200, MI300X."""


def with_nvidia_gpus(size: VmSize | None) -> str:
    """Return why a machine of this size has no GPU of NVIDIA's; empty where it may have one."""
    if size is None:
        return ""
    if size.gpu_count == 0:
        return f"{size.name} has no GPU"
    if size.gpu_model and size.gpu_model.startswith(_AMD):
        return f"{size.name} has GPUs of AMD's"
    return ""


def with_nvswitches(size: VmSize | None) -> str:
    """Return why a machine of this size has no NVSwitch of its own; empty where it may have one."""
    if size is None or size.nvswitch:
        return ""
    return with_nvidia_gpus(size) or f"{size.name} has no NVSwitch"
