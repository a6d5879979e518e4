# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which VM sizes have what a check of the deep tier measures."""

from __future__ import annotations

from ...sku.types import VmSize
from ..nvidia_sizes import with_nvidia_gpus


def several_nvidia(size: VmSize | None) -> str:
    """Answer why there are not two NVIDIA GPUs; nothing where there are."""
    if size is not None and size.gpu_count == 1:
        return f"{size.name} has one GPU only"
    return with_nvidia_gpus(size)


def nvidia_and_infiniband(size: VmSize | None) -> str:
    """Answer why no data can go from GPU to GPU through adapters; nothing where they can."""
    return several_nvidia(size) or infiniband(size)


def infiniband(size: VmSize | None) -> str:
    """Answer why there is no InfiniBand; nothing where there is."""
    return f"{size.name} has no InfiniBand" if size is not None and not size.hca_count else ""
