# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""NVML through nvidia-ml-py. Everything here runs in a worker's child process: any of these calls may hang."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Callable

from ..pci import canonical_busid
from .facts import LACKING, NO_BINDINGS, NO_FUNCTION, NO_PERMISSION, GpuError

SITE = "/usr/lib/hpcai/site"
"""Where nvidia-ml-py lies on nodes: distributions' Pythons refuse pip."""

# Reasons for lower clocks that are no slowdown: idle (1), the clocks that were set (2), display clocks (0x100).
_NO_SLOWDOWN = 0x1 | 0x2 | 0x100
# What a GPU or driver may lack without being broken.
_MAY_LACK = (*LACKING, NO_PERMISSION, "not_found")


def _bindings() -> Any:
    if os.path.isdir(SITE) and SITE not in sys.path:
        sys.path.insert(0, SITE)
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        raise GpuError(NO_BINDINGS, f"nvidia-ml-py is neither in {SITE} nor elsewhere on Python's path") from None


class Session:
    """NVML, initialized. Its public methods are the requests that a worker serves; they return what JSON can hold."""

    def __init__(self) -> None:
        self._nvml = _bindings()
        self._kinds = {
            value: name[len("NVML_ERROR_") :].lower()
            for name, value in vars(self._nvml).items()
            if name.startswith("NVML_ERROR_")
        }
        self._call("nvmlInit")

    def serve(self, request: str, arguments: Sequence[Any]) -> Any:
        """Carry out a request by the name of its method."""
        method: Callable[..., Any] = getattr(self, request)
        return method(*arguments)

    def count(self) -> int:
        """Return the number of GPUs, lost ones included."""
        return int(self._call("nvmlDeviceGetCount"))

    def versions(self) -> list[str]:
        """Return the versions of the driver and of the library."""
        return [str(self._call("nvmlSystemGetDriverVersion")), str(self._call("nvmlSystemGetNVMLVersion"))]

    def read(self, index: int) -> dict[str, Any]:
        """Return what is known of a GPU, in the form that ``facts_of`` takes."""
        gpu = self._handle(index)
        mig = self._optional("nvmlDeviceGetMigMode", gpu)
        persistence = self._optional("nvmlDeviceGetPersistenceMode", gpu)
        application, reason = self._application(gpu, "nvmlDeviceGetApplicationsClock")
        return {
            "index": index,
            "uuid": str(self._call("nvmlDeviceGetUUID", gpu)),
            "busid": self._busid(gpu),
            "name": str(self._call("nvmlDeviceGetName", gpu)),
            "mig": None if mig is None else bool(mig[0]),
            "mig_instances": [str(self._call("nvmlDeviceGetUUID", one)) for one in self._instances(gpu, mig)],
            "persistence": None if persistence is None else bool(persistence),
            "supported": self._supported(gpu),
            "highest": self._pair("nvmlDeviceGetMaxClockInfo", gpu),
            "application": application,
            "application_reason": reason,
            "default": self._application(gpu, "nvmlDeviceGetDefaultApplicationsClock")[0],
            "current": self._pair("nvmlDeviceGetClockInfo", gpu),
            "slowed": self._slowed(gpu),
        }

    def processes(self, index: int) -> list[int] | None:
        """Return the ids of the processes that compute on a GPU or on its MIG instances; None if NVML does not say."""
        gpu = self._handle(index)
        mig = self._optional("nvmlDeviceGetMigMode", gpu)
        # The GPU tells of all its instances' processes, but not to everyone.
        found = self._computing(gpu)
        if found is None and mig and mig[0]:
            found = []
            for instance in self._instances(gpu, mig):
                on_instance = self._computing(instance)
                if on_instance is None:
                    return None
                found += on_instance
        return None if found is None else sorted({int(process.pid) for process in found})

    def busid(self, index: int) -> str | None:
        """Return a GPU's PCI address in Linux's spelling."""
        return self._busid(self._handle(index))

    def set_persistence(self, index: int, on: bool) -> None:
        """Switch persistence mode."""
        self._call("nvmlDeviceSetPersistenceMode", self._handle(index), int(on))

    def set_application(self, index: int, memory: int, graphics: int) -> None:
        """Set application clocks, in MHz."""
        self._call("nvmlDeviceSetApplicationsClocks", self._handle(index), memory, graphics)

    def reset_application(self, index: int) -> None:
        """Set application clocks to their default."""
        self._call("nvmlDeviceResetApplicationsClocks", self._handle(index))

    def lock_graphics(self, index: int, mhz: int) -> None:
        """Lock the graphics clock."""
        self._call("nvmlDeviceSetGpuLockedClocks", self._handle(index), mhz, mhz)

    def unlock_graphics(self, index: int) -> None:
        """Unlock the graphics clock."""
        self._call("nvmlDeviceResetGpuLockedClocks", self._handle(index))

    def lock_memory(self, index: int, mhz: int) -> None:
        """Lock the memory clock."""
        self._call("nvmlDeviceSetMemoryLockedClocks", self._handle(index), mhz, mhz)

    def unlock_memory(self, index: int) -> None:
        """Unlock the memory clock."""
        self._call("nvmlDeviceResetMemoryLockedClocks", self._handle(index))

    def _handle(self, index: int) -> Any:
        return self._call("nvmlDeviceGetHandleByIndex", index)

    def _busid(self, gpu: Any) -> str | None:
        busid = self._call("nvmlDeviceGetPciInfo", gpu).busId
        return canonical_busid(busid.decode() if isinstance(busid, bytes) else busid)

    def _instances(self, gpu: Any, mig: Any) -> list[Any]:
        if not mig or not mig[0]:
            return []
        most = self._optional("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0
        found = (self._optional("nvmlDeviceGetMigDeviceHandleByIndex", gpu, number) for number in range(most))
        return [instance for instance in found if instance is not None]

    def _computing(self, gpu: Any) -> list[Any] | None:
        # The name without a version fails with an exception of its own kind where driver and bindings differ in age.
        for version in ("_v3", "_v2"):
            found: list[Any] | None = self._optional(f"nvmlDeviceGetComputeRunningProcesses{version}", gpu)
            if found is not None:
                return found
        return None

    def _supported(self, gpu: Any) -> dict[int, list[int]]:
        return {
            memory: list(self._optional("nvmlDeviceGetSupportedGraphicsClocks", gpu, memory) or ())
            for memory in self._optional("nvmlDeviceGetSupportedMemoryClocks", gpu) or ()
        }

    def _pair(self, function: str, gpu: Any) -> list[int | None]:
        return [
            self._optional(function, gpu, self._nvml.NVML_CLOCK_MEM),
            self._optional(function, gpu, self._nvml.NVML_CLOCK_GRAPHICS),
        ]

    def _application(self, gpu: Any, function: str) -> tuple[list[int] | None, str | None]:
        try:
            kinds = (self._nvml.NVML_CLOCK_MEM, self._nvml.NVML_CLOCK_GRAPHICS)
            return [int(self._call(function, gpu, kind)) for kind in kinds], None
        except GpuError as error:
            if error.kind not in _MAY_LACK:
                raise
            return None, str(error)

    def _slowed(self, gpu: Any) -> bool | None:
        bits = self._optional("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        if bits is None:
            # The function's name before driver 535.
            bits = self._optional("nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
        return None if bits is None else bool(bits & ~_NO_SLOWDOWN)

    def _optional(self, function: str, *arguments: Any) -> Any:
        """Return what the function answers; None where the driver or GPU lacks it or keeps it to itself."""
        with contextlib.suppress(_Lacking):
            return self._call(function, *arguments, lacking=_Lacking)
        return None

    def _call(self, function: str, *arguments: Any, lacking: type[GpuError] = GpuError) -> Any:
        called = getattr(self._nvml, function, None)
        if called is None:
            raise lacking(NO_FUNCTION, f"{function}: the installed nvidia-ml-py does not have it")
        try:
            return called(*arguments)
        except self._nvml.NVMLError as error:
            # A field of its own in some versions; in all it makes the class.
            kind = self._kinds.get(error.value, f"code_{error.value}")
            raise (lacking if kind in _MAY_LACK else GpuError)(kind, f"{function}: {error}") from None


class _Lacking(GpuError):
    """The driver or GPU does not have what was asked for, and that does not matter."""
