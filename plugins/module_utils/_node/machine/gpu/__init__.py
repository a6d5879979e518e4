# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's NVIDIA GPUs through NVML: facts, health, changes and processes; each request has a timeout."""

from __future__ import annotations

from .driver import LIMIT_S, Driver, compute_processes, connect, nvidia_gpus
from .facts import Clocks, DriverLoad, GpuError, GpuFacts, facts_of, read_load
from .health import GpuHealth, NvLinks

__all__ = [
    "LIMIT_S",
    "Clocks",
    "Driver",
    "DriverLoad",
    "GpuError",
    "GpuFacts",
    "GpuHealth",
    "NvLinks",
    "compute_processes",
    "connect",
    "facts_of",
    "nvidia_gpus",
    "read_load",
]
