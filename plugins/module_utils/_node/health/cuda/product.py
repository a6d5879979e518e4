# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The rate of a matrix product on a GPU, by cuBLAS, and whether its result is right."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .device import SAMPLES, Device
from .library import DRIVER, CudaError, Library, load

LIBRARIES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")
EDGE = 8192
PRODUCTS = 100

_ONE = 0x3F80
"""1.0 in bfloat16: of a float's 32 bits the upper 16."""
_BFLOAT16, _FLOAT32_INSIDE, _DEFAULT, _AS_IT_IS = 14, 68, -1, 0
"""CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT, CUBLAS_OP_N."""
_BYTES = 2


def rate(
    busid: str, driver: str = DRIVER, libraries: tuple[str, ...] = LIBRARIES, edge: int = EDGE
) -> Mapping[str, Any]:
    """Return ``tflops``, the rate of a product of square matrices of bfloat16, and ``wrong``, how many elements of the
    result are not what they must be; or ``error`` and ``words``.

    All elements are 1, so each of the result is the matrices' edge, which bfloat16 holds exactly as it is a power of 2.
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
    """Return how many elements are not the matrices' edge."""
    with gpu.host_memory(size) as here:
        gpu.driver.call("cuMemcpyDtoHAsync_v2", here, result, ctypes.c_size_t(size), gpu.stream)
        gpu.synchronize()
        got = ctypes.string_at(here.value, size)
    # The upper half of the float, in the machine's order of bytes, which is little-endian on all of them.
    right = bytes(ctypes.c_float(edge))[2:]
    if got == right * (edge * edge):
        return 0
    return sum(got[at : at + _BYTES] != right for at in range(0, size, _BYTES))
