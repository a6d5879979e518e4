# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Bandwidth of a NUMA node's memory, by copies of the C library: a compiler is on few nodes, Python on all."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

SIZE = 64 << 20
"""Bytes of a copy: more than a CPU's share of any cache."""
COPIES = 10
_WAIT_S = 60.0


def bandwidth(cpus: Collection[int], size: int = SIZE, copies: int = COPIES) -> Mapping[str, Any]:
    """Return ``gbps``: GB/s read and written by copies on all of these CPUs at once, each in memory of its own.

    Where a CPU cannot be used or memory is short, it returns ``words`` of that.
    """
    start, end = threading.Barrier(len(cpus) + 1), threading.Barrier(len(cpus) + 1)
    said: list[str] = []

    def work(cpu: int) -> None:
        try:
            # Of this thread alone. Memory comes from the NUMA node of the CPU that first writes to it.
            os.sched_setaffinity(0, {cpu})
            with mmap.mmap(-1, 2 * size) as memory:
                target = ctypes.addressof(ctypes.c_char.from_buffer(memory))
                ctypes.memset(target, 1, 2 * size)
                start.wait(_WAIT_S)
                # It lets go of Python's lock while it copies.
                for _copy in range(copies):
                    memmove(target, target + size, size)
                end.wait(_WAIT_S)
        except BufferError:
            # The map cannot be closed while somebody holds its address: it goes with the process.
            return
        except (OSError, threading.BrokenBarrierError) as error:
            said.append(f"CPU {cpu}: {error}")
            start.abort()
            end.abort()

    memmove = ctypes.CDLL(None).memmove
    memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    memmove.restype = ctypes.c_void_p
    for cpu in sorted(cpus):
        threading.Thread(target=work, args=(cpu,), daemon=True).start()
    try:
        start.wait(_WAIT_S)
        began = time.perf_counter()
        end.wait(_WAIT_S)
        seconds = time.perf_counter() - began
    except threading.BrokenBarrierError:
        return {"words": next(iter(said), "the CPUs did not come to an end")}
    return {"gbps": 2.0 * size * copies * len(cpus) / seconds / 1e9}
