# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Measures copy bandwidths and the rate of a matrix product, with NVIDIA's driver and cuBLAS, without a CUDA toolkit.

All functions must be called in a separate process (machine/child.py), because a call may never return, and because a
child process cannot use the driver if its parent has used it before the fork."""

from __future__ import annotations

import ctypes
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable

from ..machine.cpuset import CpuSet

DRIVER = "libcuda.so.1"

NO_LIBRARY = "no library"
BROKEN = frozenset(
    {
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_CONTAINED",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_SYSTEM_NOT_READY",
    }
)
"""Errors that mean that the GPU or its links are faulty; all others only mean that nothing could be measured."""


class CudaError(RuntimeError):
    """A call failed, or there is no library.

    :ivar name: the library's name of the error, or NO_LIBRARY.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def load(*names: str) -> Any:
    """Return the first of these libraries that can be loaded.

    :raises CudaError: no library can be loaded; the message says why.
    """
    reason = ""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reason = str(error)
    raise CudaError(NO_LIBRARY, f"cannot load {names[0]}: {reason}")


class Library:
    """A library whose functions return 0 on success."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function.

        :raises CudaError: the function is missing, or failed.
        """
        try:
            pointer = getattr(self._loaded, function)
        except AttributeError:
            raise CudaError("no function", f"the library has no {function}") from None
        code = pointer(*arguments)
        if code:
            name = self.name_of(code)
            raise CudaError(name, f"{function}: {name}")

    def name_of(self, code: int) -> str:
        """Return the name of an error, or its number if the library has no name for it."""
        text = ctypes.c_char_p()
        get_name = getattr(self._loaded, "cuGetErrorName", None)
        if get_name is None or get_name(code, ctypes.byref(text)) or not text.value:
            return f"error {code}"
        return text.value.decode(errors="replace")


BUFFER = 512 << 20
COPIES, SAMPLES = 16, 3
"""Bytes per copy, copies per sample, and number of samples, whose median is the result, as in nvbandwidth."""

_IN_ORDER_OF_STREAM = 1
"""CU_STREAM_NON_BLOCKING: it does not wait for the default stream."""


class Device:
    """A GPU, with its own stream.

    :ivar driver: the library.
    :ivar stream: the stream in which all work is done.
    """

    def __init__(self, busid: str, library: str = DRIVER) -> None:
        """Initialise the GPU.

        :param busid: its PCI address.
        :raises CudaError: there is no driver, no such GPU, or it does not work.
        """
        # The caller's variable could hide or renumber GPUs.
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
        """Make its context current in this thread."""
        self.driver.call("cuCtxSetCurrent", self.context)

    @contextmanager
    def memory(self, size: int) -> Iterator[Any]:
        """Allocate memory of the GPU."""
        pointer = ctypes.c_uint64()
        self.use()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        try:
            yield pointer
        finally:
            self.driver.call("cuMemFree_v2", pointer)

    @contextmanager
    def host_memory(self, size: int) -> Iterator[Any]:
        """Allocate page-locked memory of the host."""
        pointer = ctypes.c_void_p()
        self.driver.call("cuMemHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(size), 0)
        try:
            yield pointer
        finally:
            self.driver.call("cuMemFreeHost", pointer)

    def enable_peer_access(self, other: Device) -> bool:
        """Enable access to the other GPU's memory, and return whether that is possible."""
        able = ctypes.c_int()
        self.driver.call("cuDeviceCanAccessPeer", ctypes.byref(able), self._device, other._device)
        if able.value:
            self.use()
            self.driver.call("cuCtxEnablePeerAccess", other.context, 0)
        return bool(able.value)

    def synchronize(self) -> None:
        """Wait until all work is done."""
        self.driver.call("cuStreamSynchronize", self.stream)

    def seconds(self, work: Callable[[], None], times: int) -> float:
        """Return how long it takes to run the work this many times in the stream, after one untimed run."""
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


TO_GPU, TO_HOST = "host_to_gpu", "gpu_to_host"


def host_bandwidths(busid: str, cpus: CpuSet, library: str = DRIVER, size: int = BUFFER) -> Mapping[str, Any]:
    """Return the bandwidths of a GPU to and from page-locked memory of the host, in GB/s; or ``error`` and ``words``.

    :param cpus: the CPUs near the GPU, to which this process and its memory move.
    """
    try:
        if cpus:
            os.sched_setaffinity(0, cpus)
        gpu = Device(busid, library)
        driver, length = gpu.driver, ctypes.c_size_t(size)
        with gpu.memory(size) as gpu_buffer, gpu.host_memory(size) as host_buffer:
            return {
                TO_GPU: gpu.bandwidth(
                    lambda: driver.call("cuMemcpyHtoDAsync_v2", gpu_buffer, host_buffer, length, gpu.stream), size
                ),
                TO_HOST: gpu.bandwidth(
                    lambda: driver.call("cuMemcpyDtoHAsync_v2", host_buffer, gpu_buffer, length, gpu.stream), size
                ),
            }
    except CudaError as error:
        return {"error": error.name, "words": str(error)}
    except OSError as error:
        return {"error": "OSError", "words": str(error)}


def peer_bandwidths(busids: Sequence[str], library: str = DRIVER, size: int = BUFFER) -> Mapping[str, Any]:
    """Return the bandwidths with which GPUs read each other's memory; or ``error`` and ``words``.

    :return: ``pairs`` as lists of reader, owner and GB/s, which is None if the reader cannot access the owner.
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
    if not reader.enable_peer_access(owner):
        return None
    with owner.memory(size) as source, reader.memory(size) as target:
        arguments = (target, reader.context, source, owner.context, ctypes.c_size_t(size), reader.stream)
        return reader.bandwidth(lambda: reader.driver.call("cuMemcpyPeerAsync", *arguments), size)


LIBRARIES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")
EDGE = 8192
PRODUCTS = 100

_ONE = 0x3F80
"""1.0 in bfloat16: the upper 16 bits of the 32-bit float."""
_BFLOAT16, _FLOAT32_INSIDE, _DEFAULT, _AS_IT_IS = 14, 68, -1, 0
"""CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT, CUBLAS_OP_N."""
_BYTES = 2


def product_rate(
    busid: str, driver: str = DRIVER, libraries: tuple[str, ...] = LIBRARIES, edge: int = EDGE
) -> Mapping[str, Any]:
    """Return ``tflops``, the rate of a product of square bfloat16 matrices, and ``wrong``, the number of wrong elements
    in the result; or ``error`` and ``words``.

    All elements are 1, so each element of the result is the matrices' edge, a power of 2 that bfloat16 stores exactly.
    """
    try:
        gpu = Device(busid, driver)
        size = edge * edge * _BYTES
        with gpu.memory(size) as left, gpu.memory(size) as right, gpu.memory(size) as result:
            for matrix in (left, right):
                gpu.driver.call("cuMemsetD16_v2", matrix, ctypes.c_ushort(_ONE), ctypes.c_size_t(edge * edge))
            with _handle(gpu, libraries) as multiply:
                seconds = [
                    gpu.seconds(lambda: multiply(left, right, result, edge), PRODUCTS) for _sample in range(SAMPLES)
                ]
            return {
                "tflops": 2.0 * edge**3 * PRODUCTS / statistics.median(seconds) / 1e12,
                "wrong": _wrong(gpu, result, edge, size),
            }
    except CudaError as error:
        return {"error": error.name, "words": str(error)}


@contextmanager
def _handle(gpu: Device, libraries: tuple[str, ...]) -> Iterator[Any]:
    blas = Library(load(*libraries))
    handle = ctypes.c_void_p()
    blas.call("cublasCreate_v2", ctypes.byref(handle))
    blas.call("cublasSetStream_v2", handle, gpu.stream)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def multiply(left: Any, right: Any, result: Any, edge: int) -> None:
        form = (_BFLOAT16, edge)
        pointers = [ctypes.c_void_p(matrix.value) for matrix in (left, right, result)]
        blas.call(
            "cublasGemmEx",
            *(handle, _AS_IT_IS, _AS_IT_IS, edge, edge, edge, ctypes.byref(one)),
            *(pointers[0], *form, pointers[1], *form, ctypes.byref(zero), pointers[2], *form),
            *(_FLOAT32_INSIDE, _DEFAULT),
        )

    try:
        yield multiply
    finally:
        blas.call("cublasDestroy_v2", handle)


def _wrong(gpu: Device, result: Any, edge: int, size: int) -> int:
    """Return how many elements differ from the matrices' edge."""
    with gpu.host_memory(size) as buffer:
        gpu.driver.call("cuMemcpyDtoHAsync_v2", buffer, result, ctypes.c_size_t(size), gpu.stream)
        gpu.synchronize()
        got = ctypes.string_at(buffer.value, size)
    # The upper half of the float in the machine's byte order, which is little-endian on all VM sizes.
    right = bytes(ctypes.c_float(edge))[2:]
    if got == right * (edge * edge):
        return 0
    return sum(got[at : at + _BYTES] != right for at in range(0, size, _BYTES))
