# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Bandwidth between host and GPU and between GPUs, by copies of the driver API."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...machine.cpuset import CpuSet
from .device import BUFFER, Device
from .library import DRIVER, CudaError

TO_GPU, TO_HOST = "host_to_gpu", "gpu_to_host"


def host_bandwidths(busid: str, cpus: CpuSet, library: str = DRIVER, size: int = BUFFER) -> Mapping[str, Any]:
    """Return the bandwidths of a GPU to and from page-locked memory of the host, in GB/s; or ``error`` and ``words``.

    :param cpus: the CPUs near the GPU: this process is moved there, and its memory with it.
    """
    try:
        if cpus:
            os.sched_setaffinity(0, cpus)
        gpu = Device(busid, library)
        driver, length = gpu.driver, ctypes.c_size_t(size)
        with gpu.memory(size) as there, gpu.host_memory(size) as here:
            return {
                TO_GPU: gpu.bandwidth(
                    lambda: driver.call("cuMemcpyHtoDAsync_v2", there, here, length, gpu.stream), size
                ),
                TO_HOST: gpu.bandwidth(
                    lambda: driver.call("cuMemcpyDtoHAsync_v2", here, there, length, gpu.stream), size
                ),
            }
    except CudaError as error:
        return {"error": error.name, "words": str(error)}
    except OSError as error:
        return {"error": "OSError", "words": str(error)}


def peer_bandwidths(busids: Sequence[str], library: str = DRIVER, size: int = BUFFER) -> Mapping[str, Any]:
    """Return the bandwidths with which GPUs read each other's memory; or ``error`` and ``words``.

    :return: ``pairs`` as lists of reader, owner and GB/s, which is None where the one has no access to the other.
    """
    pairs: list[tuple[str, str, float | None]] = []
    try:
        gpus = [Device(busid, library) for busid in busids]
        for reader in gpus:
            for owner in gpus:
                if reader is not owner:
                    pairs.append((reader.busid, owner.busid, _read(reader, owner, size)))
    except CudaError as error:
        return {"error": error.name, "words": str(error)}
    return {"pairs": pairs}


def _read(reader: Device, owner: Device, size: int) -> float | None:
    if not reader.can_reach(owner):
        return None
    with owner.memory(size) as source, reader.memory(size) as target:
        arguments = (target, reader.context, source, owner.context, ctypes.c_size_t(size), reader.stream)
        return reader.bandwidth(lambda: reader.driver.call("cuMemcpyPeerAsync", *arguments), size)
