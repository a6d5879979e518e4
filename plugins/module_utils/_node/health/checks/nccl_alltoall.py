# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether an all-to-all over the node's GPUs works, and at which bandwidth."""

from __future__ import annotations

from ..check import DEEP, RESET_GPU, Answer, Check, Context
from ..deep.applies import several_nvidia
from ..deep.nccl import OPTIONS
from ..deep.nccl import measure as measure_collective

_RUN_S = 240.0


def measure(context: Context) -> Answer:
    """Run ``alltoall_perf`` over all GPUs."""
    return measure_collective(context, CHECK, "alltoall_perf", _RUN_S)


CHECK = Check(
    name="nccl_alltoall",
    title="NCCL all-to-all within the node",
    explain="Runs alltoall_perf of nccl-tests over all GPUs with the node's topology file and checks the results. No "
    "source states a limit of its bus bandwidth: set limits.nccl_alltoall (GB/s), or compare the nodes.",
    tiers=(DEEP,),
    measure=measure,
    applies=several_nvidia,
    limit_s=_RUN_S + 30,
    action=RESET_GPU,
    fault="NHC2010",
    asks_device=True,
    options=OPTIONS,
    further_limits=("nccl_alltoall",),
)
