# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Functions that return an empty text if a check applies to a VM size, else the reason why not."""

from __future__ import annotations

from typing import Callable

from ..sku.types import VmSize


def where_expected(field: str, what: str) -> Callable[[VmSize | None], str]:
    """Return the ``applies`` of a check that needs this field of a VM size: a number, or a tuple of facts.

    :param what: its name in messages.
    """

    def applies(size: VmSize | None) -> str:
        if size is None:
            return ""
        value = getattr(size, field)
        if value is None:
            return f"it is not known whether {size.name} has {what}"
        return "" if value else f"{size.name} has no {what}"

    return applies


_AMD = "MI"
"""Beginning of the model names of AMD Instinct: MI200, MI300X."""


def has_amd_gpus(size: VmSize | None) -> bool:
    """Return whether this size has GPUs of AMD."""
    return bool(size and size.gpu_model and size.gpu_model.startswith(_AMD))


def with_nvidia_gpus(size: VmSize | None) -> str:
    """Return why a machine of this size has no NVIDIA GPU; empty if it may have one."""
    if size is None:
        return ""
    if size.gpu_count == 0:
        return f"{size.name} has no GPU"
    if has_amd_gpus(size):
        return f"{size.name} has AMD GPUs"
    return ""


def with_nvswitches(size: VmSize | None) -> str:
    """Return why a machine of this size has no NVSwitch; empty if it may have one."""
    if size is None or size.nvswitch:
        return ""
    return with_nvidia_gpus(size) or f"{size.name} has no NVSwitch"


def with_several_nvidia_gpus(size: VmSize | None) -> str:
    """Return why there are not at least two NVIDIA GPUs; empty if there may be."""
    if size is not None and size.gpu_count == 1:
        return f"{size.name} has only one GPU"
    return with_nvidia_gpus(size)


def with_nvidia_gpus_and_infiniband(size: VmSize | None) -> str:
    """Return why GPUs cannot exchange data through InfiniBand adapters; empty if they may."""
    return with_several_nvidia_gpus(size) or with_infiniband(size)


def with_infiniband(size: VmSize | None) -> str:
    """Return why there is no InfiniBand; empty if there may be."""
    return f"{size.name} has no InfiniBand" if size is not None and not size.hca_count else ""
