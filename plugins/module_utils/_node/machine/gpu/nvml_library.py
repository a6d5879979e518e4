# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The driver's own NVML library, ``libnvidia-ml.so.1``, called through ctypes.

It is part of NVIDIA's driver, so a node needs no Python package to query its GPUs. Numbers and structures are those of
nvml.h of CUDA 13; a unit test compares them with nvidia-ml-py's. Any of these calls may hang, so only a worker's child
process makes them.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from ctypes import Structure, Union, byref, c_char, c_double, c_int, c_int64, c_uint, c_ulong, c_ulonglong, c_ushort
from typing import Any

from .facts import LACKING, NO_FUNCTION, NO_LIBRARY, NO_PERMISSION, GpuError

LIBRARY = "libnvidia-ml.so.1"
# Errors that do not mean that the GPU or driver is broken.
MAY_LACK = (*LACKING, NO_PERMISSION, "not_found")

# nvmlReturn_t.
ERRORS = {
    1: "uninitialized",
    2: "invalid_argument",
    3: "not_supported",
    4: "no_permission",
    5: "already_initialized",
    6: "not_found",
    7: "insufficient_size",
    8: "insufficient_power",
    9: "driver_not_loaded",
    10: "timeout",
    11: "irq_issue",
    12: "library_not_found",
    13: "function_not_found",
    14: "corrupted_inforom",
    15: "gpu_is_lost",
    16: "reset_required",
    17: "operating_system",
    18: "lib_rm_version_mismatch",
    19: "in_use",
    20: "memory",
    21: "no_data",
    22: "vgpu_ecc_not_supported",
    23: "insufficient_resources",
    24: "freq_not_supported",
    25: "argument_version_mismatch",
    26: "deprecated",
    27: "not_ready",
    28: "gpu_not_found",
    29: "invalid_state",
    30: "reset_type_not_supported",
    999: "unknown",
}
_INSUFFICIENT_SIZE = 7
_TEXT_BYTES = 96
"""NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest of the requested texts."""


class PciInfo(Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


class ProcessInfo(Structure):
    """nvmlProcessInfo_v2_t, which ..._v3 also uses."""

    _fields_ = (
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )


class FieldNumber(Union):
    """nvmlValue_t."""

    _fields_ = (
        ("dVal", c_double),
        ("uiVal", c_uint),
        ("ulVal", c_ulong),
        ("ullVal", c_ulonglong),
        ("sllVal", c_int64),
        ("siVal", c_int),
        ("usVal", c_ushort),
    )


class FieldValue(Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("fieldId", c_uint),
        ("scopeId", c_uint),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", FieldNumber),
    )

    @property
    def number(self) -> int | None:
        """Its value; None if the GPU or the library does not have the field."""
        # nvml.h numbers the types of values from 0 to 6.
        names = [name for name, _kind in FieldNumber._fields_]
        if self.nvmlReturn != 0 or self.valueType >= len(names):
            return None
        return int(getattr(self.value, names[self.valueType]))


class Memory(Structure):
    """nvmlMemory_v2_t."""

    VERSION = 2
    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class MarginTemperature(Structure):
    """nvmlMarginTemperature_v1_t."""

    VERSION = 1
    _fields_ = (("version", c_uint), ("marginTemperature", c_int))


class Temperature(Structure):
    """nvmlTemperature_v1_t; 0 is the GPU's own sensor."""

    VERSION = 1
    _fields_ = (("version", c_uint), ("sensorType", c_uint), ("temperature", c_int))


class FabricInfo(Structure):
    """nvmlGpuFabricInfo_t."""

    _fields_ = (("clusterUuid", ctypes.c_uint8 * 16), ("status", c_uint), ("cliqueId", c_uint), ("state", c_uint))


class FabricInfoV2(Structure):
    """nvmlGpuFabricInfo_v2_t."""

    VERSION = 2
    _fields_ = (("version", c_uint), *FabricInfo._fields_, ("healthMask", c_uint))


class SramErrors(Structure):
    """nvmlEccSramErrorStatus_v1_t."""

    VERSION = 1
    _fields_ = (
        ("version", c_uint),
        ("aggregateUncParity", c_ulonglong),
        ("aggregateUncSecDed", c_ulonglong),
        ("aggregateCor", c_ulonglong),
        ("volatileUncParity", c_ulonglong),
        ("volatileUncSecDed", c_ulonglong),
        ("volatileCor", c_ulonglong),
        ("aggregateUncBucketL2", c_ulonglong),
        ("aggregateUncBucketSm", c_ulonglong),
        ("aggregateUncBucketPcie", c_ulonglong),
        ("aggregateUncBucketMcu", c_ulonglong),
        ("aggregateUncBucketOther", c_ulonglong),
        ("bThresholdExceeded", c_uint),
    )


def version_of(structure: Any) -> int:
    """Return a structure's field ``version``: its size and version (NVML_STRUCT_VERSION); 0 if it has none."""
    version: int = getattr(structure, "VERSION", 0)
    return ctypes.sizeof(structure) | version << 24 if version else 0


class Lacking(GpuError):
    """The driver or GPU does not support or permit the request, which is not a fault."""


class Nvml:
    """The initialized library.

    :raises GpuError: it is missing, or the driver is not loaded.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise GpuError(NO_LIBRARY, f"{error}: install NVIDIA's driver (is this a GPU size?)") from None
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self._check("nvmlInit", self._code("nvmlInitWithFlags", c_uint(0)))

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the library.

        :raises Lacking: the library, the driver or the GPU does not support or permit it.
        :raises GpuError: it returned another error.
        """
        self._check(function, self._code(function, *arguments))

    def ask(self, function: str, *arguments: Any, kind: Any = c_uint) -> Any:
        """Return the number, handle or structure of a kind that a function fills, see ``call``."""
        (answer,) = self.ask_several(function, *arguments, kinds=(kind,))
        return answer

    def ask_several(self, function: str, *arguments: Any, kinds: Sequence[Any]) -> list[Any]:
        """Return what a function fills with several answers, see ``call``."""
        filled = [kind() for kind in kinds]
        for one in filled:
            if version_of(one):
                one.version = version_of(one)
        self.call(function, *arguments, *map(byref, filled))
        return [one if isinstance(one, (Structure, ctypes.c_void_p)) else one.value for one in filled]

    def text(self, function: str, *arguments: Any) -> str:
        """Return the text that a function fills, see ``call``."""
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self.call(function, *arguments, buffer, c_uint(_TEXT_BYTES))
        return buffer.value.decode(errors="replace")

    def array(self, function: str, *arguments: Any, kind: Any = c_uint) -> list[Any]:
        """Return the numbers or structures that a function fills, see ``call``."""
        count = c_uint(0)
        code = self._code(function, *arguments, byref(count), None)
        if code != _INSUFFICIENT_SIZE:
            self._check(function, code)
            return []
        # Reserve space for entries that are added before the second call.
        count.value = count.value * 2 + 5
        filled = (kind * count.value)()
        self.call(function, *arguments, byref(count), filled)
        return list(filled[: count.value])

    def fields(self, gpu: Any, numbers: Sequence[int]) -> list[int | None]:
        """Return the values of fields with one call; None for those that the GPU or the library does not have."""
        values = (FieldValue * len(numbers))()
        for value, number in zip(values, numbers):
            value.fieldId = number
        with contextlib.suppress(Lacking):
            self.call("nvmlDeviceGetFieldValues", gpu, c_int(len(numbers)), values)
            return [value.number for value in values]
        return [None] * len(numbers)

    def _code(self, function: str, *arguments: Any) -> int:
        try:
            called = getattr(self._library, function)
        except AttributeError:
            raise Lacking(NO_FUNCTION, f"{_name(function)}: the driver's library does not have it") from None
        return int(called(*arguments))

    def _check(self, function: str, code: int) -> None:
        if code:
            kind = ERRORS.get(code, f"code_{code}")
            words = (self._library.nvmlErrorString(code) or b"").decode(errors="replace")
            raise (Lacking if kind in MAY_LACK else GpuError)(kind, f"{_name(function)}: {words}")


def _name(function: str) -> str:
    """Return a function's name without its version suffix."""
    return function.partition("_v")[0]
