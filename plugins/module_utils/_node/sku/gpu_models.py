# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts of GPU models, which all VM sizes with that model share: peak rates, links between GPUs, memory for programs.

Peaks are dense: data sheets often print twice as much, for sparse matrices. Links are per direction: data sheets often
add both. Programs get less memory than is marketed, and a plan that counts on the rest fails at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")

_A100 = {"fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312}
_HOPPER = {"fp32": 67, "tf32": 494.5, "fp16": 989, "bf16": 989, "fp8": 1979}
_GIB = 1024

GPU_MODELS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # 125 is the peak of its tensor cores, from general knowledge: no source at hand. V100 has no bf16.
    "V100-SXM2-32GB": {
        "F": {"gpu_link_gbs": 150},
        "G": {"gpu_tflops": {"fp16": 125}},
        "U": {"gpu_usable_memory_mib": int(31.74 * _GIB)},
    },
    "A100-SXM4-40GB": {
        "F": {"gpu_tflops": _A100, "gpu_link_gbs": 300},
        "U": {"gpu_usable_memory_mib": int(39.39 * _GIB)},
    },
    "A100-SXM4-80GB": {
        "F": {"gpu_tflops": _A100, "gpu_link_gbs": 300},
        "U": {"gpu_usable_memory_mib": int(79.15 * _GIB)},
    },
    # F quotes one data sheet for both forms of the A100. A bridge connects pairs of PCIe cards, so there is no rate to
    # all GPUs of the VM.
    "A100-PCIe-80GB": {"F": {"gpu_tflops": _A100}},
    "H100-SXM5-80GB": {
        "F": {"gpu_tflops": _HOPPER, "gpu_link_gbs": 450},
        "U": {"gpu_usable_memory_mib": int(79.11 * _GIB)},
    },
    "H200-SXM5-141GB": {
        "F": {"gpu_tflops": _HOPPER, "gpu_link_gbs": 450},
        "U": {"gpu_usable_memory_mib": int(139.81 * _GIB)},
    },
    # F has no peaks of H100 NVL, only of a pair of them, so they stay unknown here.
    "H100-NVL": {"U": {"gpu_usable_memory_mib": int(93.12 * _GIB)}},
    # The text of F has 1,307, its table 1,300. The rate to one other GPU is 64 GB/s; this is to all seven at once.
    "MI300X": {
        "F": {
            "gpu_tflops": {"fp32": 163.4, "tf32": 653.7, "fp16": 1307, "bf16": 1307, "fp8": 2600},
            "gpu_link_gbs": 448,
        },
        "U": {"gpu_usable_memory_mib": int(191.98 * _GIB)},
    },
    # F also has 2,500 for each GPU of a GB200 superchip; this is the lower one, of a B200 alone.
    "B200": {
        "F": {"gpu_tflops": {"tf32": 1125, "fp16": 2250, "bf16": 2250, "fp8": 4500}, "gpu_link_gbs": 900},
    },
    # B states 1.8 TB/s for both directions. No source states the peaks.
    "B300": {"B, F": {"gpu_link_gbs": 900}},
}
"""Facts by GPU model and by the letters of their sources, in the form of ``vm_size``."""
