# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A GPU through NVIDIA's driver API: memory on it and on the host, copies between, and the time they take.

All of it must be called in a process of its own (machine/child.py): a call may never return, and after a fork the
driver is of no use to the child of a process that has used it.
"""

from __future__ import annotations

import ctypes
import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from .library import DRIVER, Library, load

BUFFER = 512 << 20
COPIES, SAMPLES = 16, 3
"""Bytes of a copy, copies of a sample, and samples, of which the median counts: as nvbandwidth does."""

_IN_ORDER_OF_STREAM = 1
"""CU_STREAM_NON_BLOCKING: it does not wait for the default stream."""


class Device:
    """A GPU, with a stream of its own.

    :ivar driver: the library.
    :ivar stream: the stream in which all is done.
    """

    def __init__(self, busid: str, library: str = DRIVER) -> None:
        """Make it ready.

        :param busid: its PCI address.
        :raises CudaError: there is no driver, no such GPU, or it does not work.
        """
        # A variable of the caller's would hide GPUs, or show them under other numbers.
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        self.busid = busid
        self.driver = Library(load(library))
        self.driver.call("cuInit", 0)
        self._device = ctypes.c_int()
        self.driver.call("cuDeviceGetByPCIBusId", ctypes.byref(self._device), busid.encode())
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self._device)
        self.use()
        self.driver.call("cuStreamCreate", ctypes.byref(self.stream), _IN_ORDER_OF_STREAM)

    def use(self) -> None:
        """Make its context this thread's."""
        self.driver.call("cuCtxSetCurrent", self.context)

    @contextmanager
    def memory(self, size: int) -> Iterator[Any]:
        """Memory of the GPU."""
        pointer = ctypes.c_uint64()
        self.use()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        try:
            yield pointer
        finally:
            self.driver.call("cuMemFree_v2", pointer)

    @contextmanager
    def host_memory(self, size: int) -> Iterator[Any]:
        """Page-locked memory of the host."""
        pointer = ctypes.c_void_p()
        self.driver.call("cuMemHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(size), 0)
        try:
            yield pointer
        finally:
            self.driver.call("cuMemFreeHost", pointer)

    def can_reach(self, other: Device) -> bool:
        """Whether it can access the other GPU's memory; from then on it may."""
        able = ctypes.c_int()
        self.driver.call("cuDeviceCanAccessPeer", ctypes.byref(able), self._device, other._device)
        if able.value:
            self.use()
            self.driver.call("cuCtxEnablePeerAccess", other.context, 0)
        return bool(able.value)

    def synchronize(self) -> None:
        """Wait until all is done."""
        self.driver.call("cuStreamSynchronize", self.stream)

    def seconds(self, work: Callable[[], None], times: int) -> float:
        """Return how long the work takes that is put into the stream so many times, the first once left out."""
        self.use()
        work()
        self.synchronize()
        start, end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (start, end):
            self.driver.call("cuEventCreate", ctypes.byref(event), 0)
        self.driver.call("cuEventRecord", start, self.stream)
        for _time in range(times):
            work()
        self.driver.call("cuEventRecord", end, self.stream)
        self.driver.call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self.driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        for event in (start, end):
            self.driver.call("cuEventDestroy_v2", event)
        return milliseconds.value / 1000

    def bandwidth(self, copy: Callable[[], None], size: int) -> float:
        """Return the bandwidth of a copy in GB/s."""
        times = [self.seconds(copy, COPIES) for _sample in range(SAMPLES)]
        return size * COPIES / statistics.median(times) / 1e9
