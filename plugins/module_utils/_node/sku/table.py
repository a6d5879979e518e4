# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts per Azure VM size: the single source of these numbers in the collection.

Each number has the letter of its source, explained in ``SOURCES``. A fact without a source is ``None``, never a guess.
Memory: figures in kB were divided by 1024; check_hw_physmem's "MB" and "GB" are powers of 1024.
"""

from __future__ import annotations

from collections.abc import Mapping

from .nc import NC_A100, NC_H100
from .nd import ND_A100, ND_GB, ND_MI300X, ND_V100
from .nd_hopper import ND_HOPPER
from .types import VmSize

_ALL = (*ND_A100, *ND_HOPPER, *ND_MI300X, *ND_GB, *ND_V100, *NC_A100, *NC_H100)

SIZES: Mapping[str, VmSize] = {size.name: size for size in _ALL}


HAND = "hand"
"""The source of facts from the inventory."""

SOURCES: Mapping[str, str] = {
    "A": "azhpc-images, setup_sku_customizations.sh and what it calls: which size gets which topology file and NCCL "
    "variables, and which size needs the fabric manager",
    "B": "ai-infrastructure-on-azure, skills/slurm/sku_performance_baseline",
    "C": "azurehpc-health-checks, conf/<size>.conf: what the node health check expects. If a size's file does not "
    "check InfiniBand, the table says that the size has no InfiniBand",
    "D": "MicrosoftDocs/azure-compute-docs, articles/virtual-machines/sizes/gpu-accelerated",
    "E": "azhpc-images, tests/health_checks: the tests of the image on ND A100 v4",
    "F": "stas00/ml-engineering, compute/accelerator/README.md and network/README.md: peak rates of GPUs for dense "
    "matrices, and rates of NVLink and xGMI per direction",
    "G": "general knowledge, unverified: not found in a document",
    "H": "azurehpc-health-checks, the scripts: run-health-checks.sh (rates of mlx5_an0, in its lists AN40, AN100), "
    "azure_common.nhc (GPU clocks), azure_gpu_ecc.nhc (remapped rows)",
    "I": "issue threads: NVIDIA/aicr #1858 (nvidia-smi on ND96isr_H100_v5), awslabs/amazon-eks-ami #1985 (clocks of "
    "H100 and H200), azurehpc-health-checks #142 (NCCL on H200), #152 (InfiniBand on H100), #162 (NVLink on NC80adis)",
    "K": "azurehpc, the health checks of source O, as adopted for AKS",
    "L": "Microsoft's article on large-scale deep learning on NDv4 (A100): what HPL and the local disks reach",
    "M": "azurehpc, experimental/gpu_optimizations/readme.md: clocks that nvidia-smi shows on ND96asr_v4",
    "N": "azurehpc, experimental/ndv4_a100_healthchecks",
    "O": "azurehpc, experimental/cc_slurm_nhc: configuration files older than those of source C, and nc48v4-topo.xml",
    "P": "azurehpc, experimental: check_app_pinning_tool and run_nccl_tests_ndv4, run_nccl_tests_ncv4",
    "R": "azurehpc-health-checks, README.md: its table of limits",
    "S": "superbench, superbench/config/azure_nd*.yaml",
    "T": "azhpc-images, topology/*.xml: ndv2, ndv4, ndv5 and ncv4",
    "U": "out-of-memory messages of PyTorch in public issues and logs, which contain the total memory of the GPU",
    "W": "cyclecloud-slurm-workspace and azure-vm-utils: the model name by which both identify local NVMe disks, on "
    "every VM size",
    "Y": "yosoyjay/cyclecloud-llm, README.md: the bandwidth that two or more nodes of ND A100 v4 should reach in NCCL "
    "tests",
    HAND: "described by hand in the inventory (hpcai_vm_sizes)",
}
