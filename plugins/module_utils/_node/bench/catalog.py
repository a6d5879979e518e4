# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The benchmarks, in the order in which they are run and shown: each node, then pairs, then all nodes."""

from __future__ import annotations

from collections.abc import Sequence

from .benchmark import Benchmark
from .checks import GEMM, GPU_HOST_BANDWIDTH, GPU_PEER_BANDWIDTH, STREAM
from .collectives import NCCL_ALLGATHER, NCCL_ALLREDUCE, NCCL_ALLTOALL, NCCL_REDUCESCATTER
from .linpack import HPL
from .mpi import MPI_BANDWIDTH, MPI_LATENCY
from .storage import BEEOND, SCRATCH

CATALOGUE: tuple[Benchmark, ...] = (
    STREAM,
    GPU_HOST_BANDWIDTH,
    GPU_PEER_BANDWIDTH,
    GEMM,
    HPL,
    SCRATCH,
    BEEOND,
    MPI_LATENCY,
    MPI_BANDWIDTH,
    NCCL_ALLREDUCE,
    NCCL_ALLTOALL,
    NCCL_ALLGATHER,
    NCCL_REDUCESCATTER,
)
NAMES = tuple(benchmark.name for benchmark in CATALOGUE)


class NoSuchBenchmark(ValueError):
    """There is no benchmark of this name; the message lists them."""


def select(names: Sequence[str]) -> tuple[Benchmark, ...]:
    """Return the benchmarks of these names, in the catalogue's order.

    :raises NoSuchBenchmark: there is none of a name.
    """
    for name in names:
        if name not in NAMES:
            raise NoSuchBenchmark(f"there is no benchmark {name}: the benchmarks are {', '.join(NAMES)}")
    return tuple(benchmark for benchmark in CATALOGUE if benchmark.name in names)
