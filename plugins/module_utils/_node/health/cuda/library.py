# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NVIDIA's libraries, called with their error codes looked at."""

from __future__ import annotations

import ctypes
from typing import Any

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
"""Errors that say something of the GPU or its links; all others say only that nothing could be measured."""


class CudaError(RuntimeError):
    """A call failed, or there is no library.

    :ivar name: the library's name of the error, or NO_LIBRARY.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def load(*names: str) -> Any:
    """Return the first of these libraries that is there.

    :raises CudaError: none is; the message says why.
    """
    said = ""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            said = str(error)
    raise CudaError(NO_LIBRARY, f"{names[0]} cannot be used: {said}")


class Library:
    """A library whose functions return 0 where they succeed."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function.

        :raises CudaError: it is missing, or did not succeed.
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
        """Return the name of an error; its number where the library has none."""
        said = ctypes.c_char_p()
        get_name = getattr(self._loaded, "cuGetErrorName", None)
        if get_name is None or get_name(code, ctypes.byref(said)) or not said.value:
            return f"error {code}"
        return said.value.decode(errors="replace")
