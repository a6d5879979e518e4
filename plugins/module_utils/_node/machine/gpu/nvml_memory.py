# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' memory through NVML: its errors, and what became of the places that had them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .errors import GpuError
from .nvml import Session

_MIB = 1 << 20


class MemorySession(Session):
    """A session of NVML that tells of GPUs' memory, and how to ask for several things at once."""

    def _ecc(self, gpu: Any) -> dict[str, Any]:
        mode = self._optional("nvmlDeviceGetEccMode", gpu)
        if not (mode and mode[0]):
            return {"enabled": None if mode is None else False}
        dram = self._counters(gpu, "dram", self._nvml.NVML_MEMORY_LOCATION_DRAM)
        return {"enabled": True, **dram, **(self._sram(gpu) or self._counters(gpu, "sram", 7))}

    def _counters(self, gpu: Any, where: str, location: int) -> dict[str, Any]:
        """Return the four counters of a kind of memory. (7 is the SRAM, a name that older bindings lack.)"""
        nvml = self._nvml
        return {
            f"{where}_{kind}_{since}": self._optional("nvmlDeviceGetMemoryErrorCounter", gpu, error, counter, location)
            for kind, error in (
                ("uncorrected", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
                ("corrected", nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            )
            for since, counter in (("volatile", nvml.NVML_VOLATILE_ECC), ("aggregate", nvml.NVML_AGGREGATE_ECC))
        }

    def _sram(self, gpu: Any) -> dict[str, Any] | None:
        """Return what one call says of the SRAM; None where the library, the GPU or the user's rights lack it."""
        status = self._struct("c_nvmlEccSramErrorStatus_v1_t", "nvmlDeviceGetSramEccErrorStatus", gpu)
        if status is None:
            return None
        return {
            "sram_uncorrected_volatile": status.volatileUncParity + status.volatileUncSecDed,
            "sram_uncorrected_aggregate": status.aggregateUncParity + status.aggregateUncSecDed,
            "sram_corrected_volatile": status.volatileCor,
            "sram_corrected_aggregate": status.aggregateCor,
            "sram_threshold": bool(status.bThresholdExceeded),
        }

    def _rows(self, gpu: Any) -> dict[str, Any] | None:
        found = self._optional("nvmlDeviceGetRemappedRows", gpu)
        if found is None:
            return None
        corrected, uncorrected, pending, failure = found
        return {
            "corrected": corrected,
            "uncorrected": uncorrected,
            "pending": bool(pending),
            "failure": bool(failure),
        }

    def _pages(self, gpu: Any) -> dict[str, Any] | None:
        single, double, pending = self._fields(
            gpu,
            [
                self._nvml.NVML_FI_DEV_RETIRED_SBE,
                self._nvml.NVML_FI_DEV_RETIRED_DBE,
                self._nvml.NVML_FI_DEV_RETIRED_PENDING,
            ],
        )
        if single is None or double is None or pending is None:
            return None
        return {"single": single, "double": double, "pending": bool(pending)}

    def _memory_used(self, gpu: Any) -> float | None:
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        # Without a version it counts what the driver keeps for itself.
        memory = self._optional("nvmlDeviceGetMemoryInfo", gpu, version) if version else None
        return None if memory is None else round(memory.used / _MIB, 1)

    def _struct(self, kind: str, function: str, gpu: Any) -> Any:
        """Return a structure that a function fills; None where the bindings, the library or the GPU lack it."""
        make = getattr(self._nvml, kind, None)
        if make is None:
            return None
        filled = make()
        try:
            answer = self._optional(function, gpu, ctypes.byref(filled))
        except GpuError as error:
            # A library that knows the function and not this version of the structure.
            if error.kind in ("argument_version_mismatch", "invalid_argument"):
                return None
            raise
        return None if answer is None else filled

    def _fields(self, gpu: Any, wanted: Sequence[int]) -> list[int | None]:
        """Return values of fields, by one call; None for those that the GPU or the library does not have."""
        found = self._optional("nvmlDeviceGetFieldValues", gpu, list(wanted))
        return [None] * len(wanted) if found is None else [_value(one) for one in found]


def _value(field: Any) -> int | None:
    if field.nvmlReturn != 0:
        return None
    # As nvml.h numbers the kinds of values: 0 to 6.
    names = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    return int(getattr(field.value, names[field.valueType])) if field.valueType < len(names) else None
