# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' health through NVML: a session that tells it. Runs in a worker's child process, as all of ``nvml``.

One GPU's health takes at most 35 calls of the library, and 45 where that is older than the functions that answer
several questions at once. The state of its NVLinks is asked for apart: a call for each link, and three.
tests/contract/gpu counts them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Callable

from .facts import LOST, NO_PERMISSION, GpuError
from .health import FABRIC_STATES
from .nvml import Session

_MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of CUDA 13."""
# Two bits each in the fabric's mask: 1 for yes, 2 for no, 0 for not told.
_DEGRADED_BIT, _UNHEALTHY_BIT = 0, 4
_WORN = "corrupted_inforom"
# The GPU as a whole is gone: nothing else of it is asked.
_GONE = (LOST, "reset_required", "irq_issue")


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


class HealthSession(MemorySession):
    """A session of NVML that tells GPUs' health too. Its public methods are the requests that a worker serves."""

    def health(self, index: int) -> dict[str, Any]:
        """Return a GPU's state, in the form that ``health_of`` takes."""
        gpu = self._handle(index)
        errors: dict[str, str] = {}

        def tell(name: str, ask: Callable[[], Any]) -> Any:
            try:
                return ask()
            except GpuError as error:
                if error.kind in _GONE:
                    raise
                errors[name] = str(error)
                return None

        def one(name: str, function: str, *arguments: Any) -> Any:
            return tell(name, lambda: self._optional(function, gpu, *arguments))

        nvml = self._nvml
        mig = one("mig", "nvmlDeviceGetMigMode")
        persistence = one("persistence", "nvmlDeviceGetPersistenceMode")
        rows = tell("rows", lambda: self._rows(gpu))
        temperature = tell("temperature", lambda: self._temperature(gpu))
        slowdown_at, most = tell("slowdown_at", lambda: self._temperatures(gpu, temperature)) or (None, None)
        return {
            "index": index,
            "busid": self._busid(gpu),
            "uuid": str(self._call("nvmlDeviceGetUUID", gpu)),
            "name": str(self._call("nvmlDeviceGetName", gpu)),
            "serial": one("serial", "nvmlDeviceGetSerial"),
            "vbios": one("vbios", "nvmlDeviceGetVbiosVersion"),
            "persistence": None if persistence is None else bool(persistence),
            "mig": None if mig is None else bool(mig[0]),
            "reasons": tell("reasons", lambda: self._reasons(gpu)),
            "temperature": temperature,
            "slowdown_at": slowdown_at,
            "most": most,
            "power": _watts(one("power", "nvmlDeviceGetPowerUsage")),
            "power_limit": _watts(one("power_limit", "nvmlDeviceGetEnforcedPowerLimit")),
            "power_default": _watts(one("power_default", "nvmlDeviceGetPowerManagementDefaultLimit")),
            "graphics_mhz": one("graphics_mhz", "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_GRAPHICS),
            "memory_mhz": one("memory_mhz", "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            "ecc": tell("ecc", lambda: self._ecc(gpu)),
            "rows": rows,
            # A GPU that remaps rows retires no pages.
            "pages": tell("pages", lambda: self._pages(gpu)) if rows is None else None,
            "pcie": tell("pcie", lambda: self._pcie(gpu)),
            "fabric": tell("fabric", lambda: self._fabric(gpu)),
            "memory_used": tell("memory_used", lambda: self._memory_used(gpu)),
            "processes": tell("processes", lambda: self._pids(gpu)),
            "errors": errors,
        }

    def links(self, index: int) -> dict[str, Any]:
        """Return the state of a GPU's NVLinks, in the form that ``links_of`` takes."""
        gpu, nvml = self._handle(index), self._nvml
        kinds = {
            "crc_flit": nvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
            "crc_data": nvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
            "replay": nvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
            "recovery": nvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
        }
        count, *counted = self._fields(gpu, [nvml.NVML_FI_DEV_NVLINK_LINK_COUNT, *kinds.values()])
        states: list[bool] = []
        # A library that does not tell their number is asked until there is none any more.
        for link in range(_MOST_LINKS if count is None else min(count, _MOST_LINKS)):
            state = self._link(gpu, link)
            if state is None:
                break
            states.append(state)
        return {"active": states, "errors": {kind: value for kind, value in zip(kinds, counted) if value is not None}}

    def inforom(self, index: int) -> bool | None:
        """Return whether a GPU's InfoROM is as it was written; None if that cannot be told. It is read from flash."""
        try:
            self._call("nvmlDeviceValidateInforom", self._handle(index))
        except GpuError as error:
            if error.kind == _WORN:
                return False
            if error.lacking or error.kind == NO_PERMISSION:
                return None
            raise
        return True

    def _link(self, gpu: Any, link: int) -> bool | None:
        try:
            return bool(self._call("nvmlDeviceGetNvLinkState", gpu, link))
        except GpuError as error:
            # So it answers to the number of a link that the GPU does not have.
            if error.lacking or error.kind == "invalid_argument":
                return None
            raise

    def _reasons(self, gpu: Any) -> int | None:
        bits: int | None = self._optional("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        # The function's name before driver 535.
        return self._optional("nvmlDeviceGetCurrentClocksThrottleReasons", gpu) if bits is None else bits

    def _temperature(self, gpu: Any) -> int | None:
        sensor = self._nvml.NVML_TEMPERATURE_GPU
        found: int | None = self._optional("nvmlDeviceGetTemperature", gpu, sensor)
        # Its successor from CUDA 13 on.
        return self._optional("nvmlDeviceGetTemperatureV1", gpu, sensor) if found is None else found

    def _temperatures(self, gpu: Any, now: int | None) -> tuple[int | None, int | None]:
        """Return the temperature from which the GPU is slowed down, and the highest that it is to be used at."""
        nvml = self._nvml
        kinds = (nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, nvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX)
        slowdown, most = (self._optional("nvmlDeviceGetTemperatureThreshold", gpu, kind) for kind in kinds)
        if slowdown is not None or now is None:
            return slowdown, most
        # From Ada on a GPU may only tell how far it still is from its highest, and how far the others are from that.
        margin = self._optional("nvmlDeviceGetMarginTemperature", gpu)
        if margin is None:
            return None, None
        # NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT and ..._GPU_MAX_TLIMIT, names that older bindings lack.
        beyond = self._fields(gpu, [194, 196])
        slowdown, most = (None if one is None else now + margin - one for one in beyond)
        return slowdown, most

    def _pcie(self, gpu: Any) -> dict[str, Any]:
        return {
            "width": self._optional("nvmlDeviceGetCurrPcieLinkWidth", gpu),
            "generation": self._optional("nvmlDeviceGetCurrPcieLinkGeneration", gpu),
            "highest_width": self._optional("nvmlDeviceGetMaxPcieLinkWidth", gpu),
            "highest_generation": self._optional("nvmlDeviceGetMaxPcieLinkGeneration", gpu),
            "own_generation": self._optional("nvmlDeviceGetGpuMaxPcieLinkGeneration", gpu),
        }

    def _fabric(self, gpu: Any) -> dict[str, Any] | None:
        info = self._struct("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV", gpu)
        if info is None:
            # Without the mask, before driver 545.
            info = self._struct("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo", gpu)
        if info is None or not 0 < info.state < len(FABRIC_STATES):
            return None
        mask = getattr(info, "healthMask", 0)
        return {
            "state": FABRIC_STATES[info.state],
            "status": info.status,
            "degraded": {1: True, 2: False}.get(mask >> _DEGRADED_BIT & 3),
            "unhealthy": {1: True, 2: False}.get(mask >> _UNHEALTHY_BIT & 3),
        }

    def _pids(self, gpu: Any) -> list[int] | None:
        found = self._computing(gpu)
        return None if found is None else sorted({int(process.pid) for process in found})


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def open_session() -> Callable[[str, Sequence[Any]], Any]:
    """Return what a worker's child serves with.

    :raises GpuError: nvidia-ml-py, the library or the driver is not there.
    """
    return HealthSession().serve
