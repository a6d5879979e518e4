# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The curve that a collective is expected to have over the message size, by the model with which NCCL itself chooses.

NCCL estimates the time of each algorithm and protocol as a latency plus bytes over bandwidth, and uses the fastest
(src/graph/tuning.cc, ncclTopoTuneModel and ncclTopoGetAlgoTime, commit 01afd20a; the latencies below, in microseconds,
are its tables ``baseLat`` and ``hwLat``). The bandwidth is the known limit of the VM size. It is a model and no
measurement, so a value below it is at most a warning.
"""

from __future__ import annotations

import math

RING, TREE = "ring", "tree"
SIMPLE, LOW_LATENCY = "Simple", "LL"
_BASE = {(RING, SIMPLE): 8.4, (RING, LOW_LATENCY): 3.6, (TREE, LOW_LATENCY): 4.4}
_NVLINK = {(RING, SIMPLE): 3.4, (RING, LOW_LATENCY): 0.47, (TREE, LOW_LATENCY): 0.52}
_NETWORK = {(RING, SIMPLE): 9.6, (RING, LOW_LATENCY): 2.7, (TREE, LOW_LATENCY): 5.0}
# The share of the bandwidth that the protocol LL reaches, because half of what it sends are flags, and the share of a
# tree.
_RING_LL, _TREE_LL = 1 / 4, 0.9 / 3.8
_LL_BETWEEN_NODES = 1.8
_PLATEAU = 1.9
"""Rings between nodes have this multiple of the latency for large messages of an all-reduce."""

ALL_TO_ALL = "all_to_all"
STEPS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, ALL_TO_ALL: 1}
"""How often each rank passes on each part: twice for an all-reduce. The model of an all-to-all is our own."""


def bus_bandwidth(collective: str, nodes: int, gpus: int, size: int, peak: float) -> float | None:
    """Return the expected bus bandwidth in GB/s.

    :param collective: a key of ``STEPS``; None is returned for others.
    :param gpus: per node.
    :param size: bytes of the message, as nccl-tests prints it.
    :param peak: bus bandwidth of very large messages in GB/s.
    """
    ranks = nodes * gpus
    rounds = STEPS.get(collective)
    if rounds is None or ranks < 2 or size <= 0 or not peak > 0:
        return None
    # Bytes that each rank sends, from which nccl-tests calculates the bus bandwidth.
    moved = size * rounds * (ranks - 1) / ranks
    if collective == ALL_TO_ALL:
        return moved / _all_to_all(nodes, gpus, size, peak) / 1000
    microseconds = min(_times(collective, rounds, nodes, gpus, size, moved, peak))
    return moved / microseconds / 1000


def _all_to_all(nodes: int, gpus: int, size: int, peak: float) -> float:
    """Return the microseconds of an all-to-all, by a model of our own.

    NCCL has none. Each rank has a message for each other rank. Between nodes, a GPU has its share of the node's
    bandwidth, which is the peak, and sends only what is for other nodes over it. The latencies are those of messages
    one after the other.
    """
    ranks, kind = nodes * gpus, (RING, SIMPLE)
    latency = _BASE[kind] + (gpus - 1) * _NVLINK[kind] + (ranks - gpus) * _NETWORK[kind]
    if nodes == 1:
        return latency + size * (ranks - 1) / ranks / (peak * 1000)
    return latency + size * (ranks - gpus) / ranks / (peak / gpus * 1000)


def _times(collective: str, rounds: int, nodes: int, gpus: int, size: int, moved: float, peak: float) -> list[float]:
    ranks = nodes * gpus
    between = rounds * (nodes - 1)
    within = rounds * (ranks - 1) - between
    times = []
    for protocol, share in ((SIMPLE, 1.0), (LOW_LATENCY, _RING_LL)):
        kind = RING, protocol
        near = _NVLINK[kind] * (_LL_BETWEEN_NODES if nodes > 1 and protocol == LOW_LATENCY else 1)
        latency = _BASE[kind] + within * near + between * _NETWORK[kind]
        if protocol == SIMPLE and nodes > 1 and collective == "all_reduce" and size >= ranks / 16 * 65536:
            latency *= _PLATEAU
        times.append(latency + moved / (peak * share * 1000))
    if collective == "all_reduce":
        kind = TREE, LOW_LATENCY
        near = _NVLINK[kind] * (_LL_BETWEEN_NODES if nodes > 1 else 1)
        latency = _BASE[kind] + 2 * ((gpus - 1) * near + int(math.log2(nodes)) * _NETWORK[kind])
        times.append(latency + 2 * size / (peak * _TREE_LL * 1000))
    return times
