# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""An NVML session that also reads the GPUs' health. It runs in a worker's child process, like ``nvml``.

One GPU's health takes at most 35 calls of the library, or 45 if the library is older than the functions that return
several values at once. The state of its NVLinks is a separate request: one call per link, and three more.
tests/contract/gpu counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_uint, c_ulonglong
from typing import Any, Callable

from .facts import LOST, NO_PERMISSION, GpuError
from .health import FABRIC_STATES
from .nvml import CLOCK_GRAPHICS, CLOCK_MEMORY, Session, optional
from .nvml_library import FabricInfo, FabricInfoV2, MarginTemperature, Memory, SramErrors, Temperature

_MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of CUDA 13."""
# Two bits each in the fabric's mask: 1 for yes, 2 for no, 0 for unknown.
_DEGRADED_BIT, _UNHEALTHY_BIT = 0, 4
_WORN = "corrupted_inforom"
# The GPU is lost as a whole: do not query its other fields.
_GONE = (LOST, "reset_required", "irq_issue")
_MIB = 1 << 20
# Numbers in nvml.h: nvmlMemoryLocation_t, nvmlTemperatureSensors_t, nvmlTemperatureThresholds_t.
_DRAM, _SRAM = 2, 7
_GPU_SENSOR = 0
_THRESHOLDS = (1, 3)
"""The slowdown temperature, and the highest operating temperature."""
# Fields, NVML_FI_DEV_...
_RETIRED_PAGES = (29, 30, 31)
"""..._RETIRED_SBE, ..._RETIRED_DBE, ..._RETIRED_PENDING."""
_LINK_COUNT = 91
"""..._NVLINK_LINK_COUNT."""
_LINK_ERRORS = {"crc_flit": 38, "crc_data": 45, "replay": 52, "recovery": 59}
"""..._NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL and so on."""
_MARGINS = (194, 196)
"""..._TEMPERATURE_SLOWDOWN_TLIMIT, ..._TEMPERATURE_GPU_MAX_TLIMIT."""


class HealthSession(Session):
    """An NVML session that also reads GPUs' health. Its public methods are the requests that a worker executes."""

    def health(self, index: int) -> dict[str, Any]:
        """Return a GPU's state, in the form that ``health_of`` takes."""
        gpu, nvml = self._handle(index), self._nvml
        errors: dict[str, str] = {}

        def try_to(name: str, ask: Callable[[], Any]) -> Any:
            try:
                return ask()
            except GpuError as error:
                if error.kind in _GONE:
                    raise
                errors[name] = str(error)
                return None

        def one(name: str, function: str, *arguments: Any) -> Any:
            return try_to(name, lambda: optional(nvml.ask, function, gpu, *arguments))

        def text(name: str, function: str) -> Any:
            return try_to(name, lambda: optional(nvml.text, function, gpu))

        persistence = one("persistence", "nvmlDeviceGetPersistenceMode")
        rows = try_to("rows", lambda: self._rows(gpu))
        temperature = try_to("temperature", lambda: self._temperature(gpu))
        slowdown_at, most = try_to("slowdown_at", lambda: self._temperatures(gpu, temperature)) or (None, None)
        return {
            "index": index,
            "busid": self._busid(gpu),
            "uuid": nvml.text("nvmlDeviceGetUUID", gpu),
            "name": nvml.text("nvmlDeviceGetName", gpu),
            "serial": text("serial", "nvmlDeviceGetSerial"),
            "vbios": text("vbios", "nvmlDeviceGetVbiosVersion"),
            "persistence": None if persistence is None else bool(persistence),
            "mig": try_to("mig", lambda: optional(self._mig, gpu)),
            "reasons": try_to("reasons", lambda: self._reasons(gpu)),
            "temperature": temperature,
            "slowdown_at": slowdown_at,
            "most": most,
            "power": _watts(one("power", "nvmlDeviceGetPowerUsage")),
            "power_limit": _watts(one("power_limit", "nvmlDeviceGetEnforcedPowerLimit")),
            "power_default": _watts(one("power_default", "nvmlDeviceGetPowerManagementDefaultLimit")),
            "graphics_mhz": one("graphics_mhz", "nvmlDeviceGetClockInfo", CLOCK_GRAPHICS),
            "memory_mhz": one("memory_mhz", "nvmlDeviceGetClockInfo", CLOCK_MEMORY),
            "ecc": try_to("ecc", lambda: self._ecc(gpu)),
            "rows": rows,
            # A GPU that remaps rows does not retire pages.
            "pages": try_to("pages", lambda: self._pages(gpu)) if rows is None else None,
            "pcie": try_to("pcie", lambda: self._pcie(gpu)),
            "fabric": try_to("fabric", lambda: self._fabric(gpu)),
            "memory_used": try_to("memory_used", lambda: self._memory_used(gpu)),
            "processes": try_to("processes", lambda: self._pids(gpu)),
            "errors": errors,
        }

    def links(self, index: int) -> dict[str, Any]:
        """Return the state of a GPU's NVLinks, in the form that ``links_of`` takes."""
        gpu = self._handle(index)
        count, *counted = self._nvml.fields(gpu, [_LINK_COUNT, *_LINK_ERRORS.values()])
        states: list[bool] = []
        # If the library does not report the number of links, query them until one does not exist.
        for link in range(_MOST_LINKS if count is None else min(count, _MOST_LINKS)):
            state = self._link(gpu, link)
            if state is None:
                break
            states.append(state)
        return {
            "active": states,
            "errors": {kind: value for kind, value in zip(_LINK_ERRORS, counted) if value is not None},
        }

    def inforom(self, index: int) -> bool | None:
        """Return whether a GPU's InfoROM is valid, read from flash; None if that is unknown."""
        try:
            self._nvml.call("nvmlDeviceValidateInforom", self._handle(index))
        except GpuError as error:
            if error.kind == _WORN:
                return False
            if error.lacking or error.kind == NO_PERMISSION:
                return None
            raise
        return True

    def _link(self, gpu: Any, link: int) -> bool | None:
        try:
            return bool(self._nvml.ask("nvmlDeviceGetNvLinkState", gpu, c_uint(link)))
        except GpuError as error:
            # The answer for the number of a link that the GPU does not have.
            if error.lacking or error.kind == "invalid_argument":
                return None
            raise

    def _temperature(self, gpu: Any) -> int | None:
        found: int | None = optional(self._nvml.ask, "nvmlDeviceGetTemperature", gpu, _GPU_SENSOR)
        if found is not None:
            return found
        # The function's successor, from CUDA 13 on.
        answer = optional(self._nvml.ask, "nvmlDeviceGetTemperatureV", gpu, kind=Temperature)
        return None if answer is None else int(answer.temperature)

    def _temperatures(self, gpu: Any, now: int | None) -> tuple[int | None, int | None]:
        """Return the temperature from which the GPU is slowed down, and the highest operating temperature."""
        function = "nvmlDeviceGetTemperatureThreshold"
        slowdown, most = (optional(self._nvml.ask, function, gpu, kind) for kind in _THRESHOLDS)
        if slowdown is not None or now is None:
            return slowdown, most
        # From Ada on, a GPU may report only its margin to the limit, and the offsets of the thresholds from the limit.
        margin = optional(self._nvml.ask, "nvmlDeviceGetMarginTemperature", gpu, kind=MarginTemperature)
        if margin is None:
            return None, None
        beyond = self._nvml.fields(gpu, _MARGINS)
        slowdown, most = (None if one is None else now + int(margin.marginTemperature) - one for one in beyond)
        return slowdown, most

    def _pcie(self, gpu: Any) -> dict[str, Any]:
        return {
            "width": optional(self._nvml.ask, "nvmlDeviceGetCurrPcieLinkWidth", gpu),
            "generation": optional(self._nvml.ask, "nvmlDeviceGetCurrPcieLinkGeneration", gpu),
            "highest_width": optional(self._nvml.ask, "nvmlDeviceGetMaxPcieLinkWidth", gpu),
            "highest_generation": optional(self._nvml.ask, "nvmlDeviceGetMaxPcieLinkGeneration", gpu),
            "own_generation": optional(self._nvml.ask, "nvmlDeviceGetGpuMaxPcieLinkGeneration", gpu),
        }

    def _fabric(self, gpu: Any) -> dict[str, Any] | None:
        info = self._struct(FabricInfoV2, "nvmlDeviceGetGpuFabricInfoV", gpu)
        if info is None:
            # Drivers before 545 have a structure without the mask.
            info = self._struct(FabricInfo, "nvmlDeviceGetGpuFabricInfo", gpu)
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

    def _ecc(self, gpu: Any) -> dict[str, Any]:
        mode = optional(self._nvml.ask_several, "nvmlDeviceGetEccMode", gpu, kinds=(c_uint, c_uint))
        if not (mode and mode[0]):
            return {"enabled": None if mode is None else False}
        dram = self._counters(gpu, "dram", _DRAM)
        return {"enabled": True, **dram, **(self._sram(gpu) or self._counters(gpu, "sram", _SRAM))}

    def _counters(self, gpu: Any, where: str, location: int) -> dict[str, Any]:
        """Return the four counters of a kind of memory."""

        def count(error: int, counter: int) -> int | None:
            function = "nvmlDeviceGetMemoryErrorCounter"
            return optional(self._nvml.ask, function, gpu, error, counter, location, kind=c_ulonglong)

        # Numbers in nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t.
        return {
            f"{where}_{kind}_{since}": count(error, counter)
            for kind, error in (("uncorrected", 1), ("corrected", 0))
            for since, counter in (("volatile", 0), ("aggregate", 1))
        }

    def _sram(self, gpu: Any) -> dict[str, Any] | None:
        """Return the SRAM's errors from one call; None if the library, the GPU or the user's rights prevent it."""
        status = self._struct(SramErrors, "nvmlDeviceGetSramEccErrorStatus", gpu)
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
        found = optional(self._nvml.ask_several, "nvmlDeviceGetRemappedRows", gpu, kinds=(c_uint,) * 4)
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
        single, double, pending = self._nvml.fields(gpu, _RETIRED_PAGES)
        if single is None or double is None or pending is None:
            return None
        return {"single": single, "double": double, "pending": bool(pending)}

    def _memory_used(self, gpu: Any) -> float | None:
        # The first version of the function includes the driver's own memory.
        memory = optional(self._nvml.ask, "nvmlDeviceGetMemoryInfo_v2", gpu, kind=Memory)
        return None if memory is None else round(memory.used / _MIB, 1)

    def _struct(self, kind: type[Structure], function: str, gpu: Any) -> Any:
        """Return a structure that a function fills; None if the library or the GPU does not support it."""
        try:
            return optional(self._nvml.ask, function, gpu, kind=kind)
        except GpuError as error:
            # The library has the function, but not this version of the structure.
            if error.kind in ("argument_version_mismatch", "invalid_argument"):
                return None
            raise


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def open_session() -> Callable[[str, Sequence[Any]], Any]:
    """Return the function that executes requests in a worker's child.

    :raises GpuError: the library or the driver is missing.
    """
    return HealthSession().serve
