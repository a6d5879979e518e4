# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A session with the GPUs' driver through NVML. It runs in a worker's child process, because any call may hang."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from ctypes import c_uint, c_ulonglong, c_void_p
from typing import Any, Callable, TypeVar

from ..pci import canonical_busid
from .nvml_library import Lacking, Nvml, PciInfo, ProcessInfo

CLOCK_GRAPHICS, CLOCK_MEMORY = 0, 2
"""nvmlClockType_t."""
# Reasons for lower clocks that are not a slowdown: idle (1), clocks set by a user (2), display clocks (0x100).
_NO_SLOWDOWN = 0x1 | 0x2 | 0x100

_T = TypeVar("_T")


def optional(ask: Callable[..., _T], *arguments: Any, **named: Any) -> _T | None:
    """Return the result of ``ask``; None if the driver or GPU does not support or permit it."""
    with contextlib.suppress(Lacking):
        return ask(*arguments, **named)
    return None


class Session:
    """An NVML session. Its public methods are the requests that a worker executes; they return JSON values."""

    def __init__(self) -> None:
        self._nvml = Nvml()

    def serve(self, request: str, arguments: Sequence[Any]) -> Any:
        """Execute a request by the name of its method."""
        method: Callable[..., Any] = getattr(self, request)
        return method(*arguments)

    def count(self) -> int:
        """Return the number of GPUs, lost ones included."""
        return int(self._nvml.ask("nvmlDeviceGetCount_v2"))

    def versions(self) -> list[str]:
        """Return the versions of the driver and of the library."""
        return [self._nvml.text("nvmlSystemGetDriverVersion"), self._nvml.text("nvmlSystemGetNVMLVersion")]

    def read(self, index: int) -> dict[str, Any]:
        """Return the facts of a GPU, in the form that ``facts_of`` takes."""
        gpu = self._handle(index)
        mig = optional(self._mig, gpu)
        persistence = optional(self._nvml.ask, "nvmlDeviceGetPersistenceMode", gpu)
        application, reason = self._application(gpu, "nvmlDeviceGetApplicationsClock")
        return {
            "index": index,
            "uuid": self._nvml.text("nvmlDeviceGetUUID", gpu),
            "busid": self._busid(gpu),
            "name": self._nvml.text("nvmlDeviceGetName", gpu),
            "mig": mig,
            "mig_instances": [self._nvml.text("nvmlDeviceGetUUID", one) for one in self._instances(gpu, mig)],
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
        """Return the ids of the compute processes on a GPU or its MIG instances; None if NVML does not report them."""
        gpu = self._handle(index)
        mig = optional(self._mig, gpu)
        # The GPU lists the processes of all its instances, but only to privileged users.
        found = self._computing(gpu)
        if found is None and mig:
            found = []
            for instance in self._instances(gpu, mig):
                on_instance = self._computing(instance)
                if on_instance is None:
                    return None
                found += on_instance
        return None if found is None else sorted({int(process.pid) for process in found})

    def busid(self, index: int) -> str | None:
        """Return a GPU's PCI address in Linux's format."""
        return self._busid(self._handle(index))

    def set_persistence(self, index: int, on: bool) -> None:
        """Switch persistence mode on or off."""
        self._nvml.call("nvmlDeviceSetPersistenceMode", self._handle(index), int(on))

    def set_application(self, index: int, memory: int, graphics: int) -> None:
        """Set application clocks, in MHz."""
        self._nvml.call("nvmlDeviceSetApplicationsClocks", self._handle(index), memory, graphics)

    def reset_application(self, index: int) -> None:
        """Reset application clocks to their defaults."""
        self._nvml.call("nvmlDeviceResetApplicationsClocks", self._handle(index))

    def lock_graphics(self, index: int, mhz: int) -> None:
        """Lock the graphics clock."""
        self._nvml.call("nvmlDeviceSetGpuLockedClocks", self._handle(index), mhz, mhz)

    def unlock_graphics(self, index: int) -> None:
        """Unlock the graphics clock."""
        self._nvml.call("nvmlDeviceResetGpuLockedClocks", self._handle(index))

    def lock_memory(self, index: int, mhz: int) -> None:
        """Lock the memory clock."""
        self._nvml.call("nvmlDeviceSetMemoryLockedClocks", self._handle(index), mhz, mhz)

    def unlock_memory(self, index: int) -> None:
        """Unlock the memory clock."""
        self._nvml.call("nvmlDeviceResetMemoryLockedClocks", self._handle(index))

    def _handle(self, index: int) -> Any:
        return self._nvml.ask("nvmlDeviceGetHandleByIndex_v2", c_uint(index), kind=c_void_p)

    def _busid(self, gpu: Any) -> str | None:
        return canonical_busid(self._nvml.ask("nvmlDeviceGetPciInfo_v3", gpu, kind=PciInfo).busId.decode())

    def _mig(self, gpu: Any) -> bool:
        current, _pending = self._nvml.ask_several("nvmlDeviceGetMigMode", gpu, kinds=(c_uint, c_uint))
        return bool(current)

    def _instances(self, gpu: Any, mig: Any) -> list[Any]:
        if not mig:
            return []
        most = optional(self._nvml.ask, "nvmlDeviceGetMaxMigDeviceCount", gpu) or 0
        by_index = "nvmlDeviceGetMigDeviceHandleByIndex"
        found = (optional(self._nvml.ask, by_index, gpu, c_uint(number), kind=c_void_p) for number in range(most))
        return [instance for instance in found if instance is not None]

    def _computing(self, gpu: Any) -> list[Any] | None:
        for version in ("_v3", "_v2"):
            function = f"nvmlDeviceGetComputeRunningProcesses{version}"
            found: list[Any] | None = optional(self._nvml.array, function, gpu, kind=ProcessInfo)
            if found is not None:
                return found
        return None

    def _supported(self, gpu: Any) -> dict[int, list[int]]:
        return {
            memory: optional(self._nvml.array, "nvmlDeviceGetSupportedGraphicsClocks", gpu, c_uint(memory)) or []
            for memory in optional(self._nvml.array, "nvmlDeviceGetSupportedMemoryClocks", gpu) or ()
        }

    def _pair(self, function: str, gpu: Any) -> list[int | None]:
        return [optional(self._nvml.ask, function, gpu, clock) for clock in (CLOCK_MEMORY, CLOCK_GRAPHICS)]

    def _application(self, gpu: Any, function: str) -> tuple[list[int] | None, str | None]:
        try:
            return [int(self._nvml.ask(function, gpu, clock)) for clock in (CLOCK_MEMORY, CLOCK_GRAPHICS)], None
        except Lacking as error:
            return None, str(error)

    def _slowed(self, gpu: Any) -> bool | None:
        bits = self._reasons(gpu)
        return None if bits is None else bool(bits & ~_NO_SLOWDOWN)

    def _reasons(self, gpu: Any) -> int | None:
        # The second is the function's name in drivers before 535.
        for name in ("EventReasons", "ThrottleReasons"):
            bits: int | None = optional(self._nvml.ask, f"nvmlDeviceGetCurrentClocks{name}", gpu, kind=c_ulonglong)
            if bits is not None:
                return bits
        return None
