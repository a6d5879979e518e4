# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's NVIDIA GPUs: facts, changes, processes, through NVML or nvidia-smi, always with a limit."""

from __future__ import annotations

from .driver import LIMIT_S, Driver, NvmlDriver, connect, nvidia_gpus
from .errors import GpuError
from .facts import Clocks, GpuFacts, facts_of
from .health import GpuHealth, NvLinks
from .load import DriverLoad, read_load
from .processes import compute_processes
from .smi import SmiDriver

__all__ = [
    "LIMIT_S",
    "Clocks",
    "Driver",
    "DriverLoad",
    "GpuError",
    "GpuFacts",
    "GpuHealth",
    "NvLinks",
    "NvmlDriver",
    "SmiDriver",
    "compute_processes",
    "connect",
    "facts_of",
    "nvidia_gpus",
    "read_load",
]
