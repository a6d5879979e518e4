# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether an all-reduce within the node reaches its bandwidth when all data go through the InfiniBand adapters."""

from __future__ import annotations

from ..check import DEEP, REPLACE, Answer, Check, Context
from ..deep.applies import nvidia_and_infiniband
from ..deep.nccl import OPTIONS
from ..deep.nccl import measure as measure_collective

_RUN_S = 300.0
# It is ten times slower than over NVLink.
_ITERATIONS, _WARM_UP = 5, 1


def measure(context: Context) -> Answer:
    """Run ``all_reduce_perf`` over all GPUs, without NVLink and shared memory."""
    return measure_collective(
        context,
        CHECK,
        "all_reduce_perf",
        _RUN_S,
        over_network=True,
        iterations=_ITERATIONS,
        warm_up=_WARM_UP,
        hint="See which adapter is slow: hpcnode health run deep --only ib_write_bandwidth",
    )


CHECK = Check(
    name="nccl_ib_loopback",
    title="NCCL all-reduce through the adapters",
    explain="Runs all_reduce_perf of nccl-tests over all GPUs with NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1, and "
    "compares the average bus bandwidth with the size's limit (azurehpc-health-checks, "
    "check_nccl_allreduce_ib_loopback).",
    tiers=(DEEP,),
    measure=measure,
    applies=nvidia_and_infiniband,
    limit_s=_RUN_S + 30,
    action=REPLACE,
    fault="NHC2003",
    asks_device=True,
    thresholds=("nccl_ib_loopback",),
    options=OPTIONS,
)
