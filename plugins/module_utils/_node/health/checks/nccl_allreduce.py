# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether an all-reduce over the node's GPUs reaches its bandwidth."""

from __future__ import annotations

from ..check import DEEP, RESET_GPU, Answer, Check, Context
from ..deep.applies import several_nvidia
from ..deep.nccl import OPTIONS
from ..deep.nccl import measure as measure_collective

_RUN_S = 240.0


def measure(context: Context) -> Answer:
    """Run ``all_reduce_perf`` over all GPUs."""
    return measure_collective(context, CHECK, "all_reduce_perf", _RUN_S)


CHECK = Check(
    name="nccl_allreduce",
    title="NCCL all-reduce within the node",
    explain="Runs all_reduce_perf of nccl-tests over all GPUs with the node's topology file, checks the results, and "
    "compares the average bus bandwidth with the size's limit (azurehpc-health-checks, check_nccl_allreduce).",
    tiers=(DEEP,),
    measure=measure,
    applies=several_nvidia,
    limit_s=_RUN_S + 30,
    action=RESET_GPU,
    fault="NHC2010",
    asks_device=True,
    thresholds=("nccl_allreduce",),
    options=OPTIONS,
)
