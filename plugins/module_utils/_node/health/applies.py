# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a check applies to a VM size: an empty string if so, else why not."""

from __future__ import annotations

from typing import Callable

from ..sku.types import VmSize


def where_expected(field: str, what: str) -> Callable[[VmSize | None], str]:
    """Return the ``applies`` of a check of something that a size has by this field: a number, or a tuple of facts.

    :param what: how people call it.
    """

    def applies(size: VmSize | None) -> str:
        if size is None:
            return ""
        value = getattr(size, field)
        if value is None:
            return f"nobody says what {size.name} has of {what}"
        return "" if value else f"{size.name} has no {what}"

    return applies


_AMD = "MI"
"""How the models of AMD's Instinct begin: MI200, MI300X."""


def has_amd_gpus(size: VmSize | None) -> bool:
    """Whether the GPUs of this size are AMD's."""
    return bool(size and size.gpu_model and size.gpu_model.startswith(_AMD))


def with_nvidia_gpus(size: VmSize | None) -> str:
    """Return why a machine of this size has no GPU of NVIDIA's; empty where it may have one."""
    if size is None:
        return ""
    if size.gpu_count == 0:
        return f"{size.name} has no GPU"
    if has_amd_gpus(size):
        return f"{size.name} has GPUs of AMD's"
    return ""


def with_nvswitches(size: VmSize | None) -> str:
    """Return why a machine of this size has no NVSwitch of its own; empty where it may have one."""
    if size is None or size.nvswitch:
        return ""
    return with_nvidia_gpus(size) or f"{size.name} has no NVSwitch"


def with_several_nvidia_gpus(size: VmSize | None) -> str:
    """Answer why there are not two NVIDIA GPUs; nothing where there are."""
    if size is not None and size.gpu_count == 1:
        return f"{size.name} has one GPU only"
    return with_nvidia_gpus(size)


def with_nvidia_gpus_and_infiniband(size: VmSize | None) -> str:
    """Answer why no data can go from GPU to GPU through adapters; nothing where they can."""
    return with_several_nvidia_gpus(size) or with_infiniband(size)


def with_infiniband(size: VmSize | None) -> str:
    """Answer why there is no InfiniBand; nothing where there is."""
    return f"{size.name} has no InfiniBand" if size is not None and not size.hca_count else ""
