# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts from the kernel: boot id, loaded modules, memory, errors of the memory controllers (EDAC)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .root import Root
from .run import Run, last_line

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_id(root: Root) -> str:
    """Return the kernel's id of this boot; an empty text if it cannot be read."""
    return root.text(_BOOT_ID) or ""


_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIGNED_ONLY = (
    "Secure Boot is on, and then the kernel refuses drivers without a signature that it knows. Turn Secure Boot off in "
    "the security profile of the virtual machine or scale set, and restart it"
)
"""What to do about a driver that was compiled on a machine with Secure Boot."""


def has_secure_boot(root: Root) -> bool:
    """Whether the firmware has Secure Boot turned on.

    The file contains four bytes of attributes, and then the variable's value, 0 or 1 (the kernel's
    Documentation/filesystems/efivarfs.rst; UEFI specification, globally defined variables).
    """
    return (root.text(_SECURE_BOOT) or "").endswith("\x01")


LOADED, ABSENT, REFUSED = "loaded", "absent", "refused"
# The messages of kmod and of busybox.
_NO_SUCH_MODULE = re.compile(r"module \S+ not found|can't find module|no such module", re.IGNORECASE)


@dataclass(frozen=True)
class Loading:
    """The result of loading a module.

    :ivar state: LOADED, ABSENT (the running kernel has no such module) or REFUSED.
    :ivar words: modprobe's error; empty if the module is loaded.
    """

    state: str
    words: str = ""


def is_loaded(root: Root, name: str) -> bool:
    """Whether the module is loaded and live; a module that is still loading does not count."""
    folder = f"/sys/module/{name}"
    # A built-in module has no file initstate.
    return root.exists(folder) and root.text(f"{folder}/initstate") in (None, "live")


def load_module(name: str, run: Run) -> Loading:
    """Load a module and its dependencies. A module that is loaded is not an error; modprobe waits for a loading one."""
    result = run(["modprobe", name])
    if result.rc == 0:
        return Loading(LOADED)
    message = last_line(result, f"exit status {result.rc}")
    return Loading(ABSENT if _NO_SUCH_MODULE.search(message) else REFUSED, message)


_MEMINFO_LINE = re.compile(r"^(\w[\w()]*):\s+(\d+)(?: kB)?$", re.MULTILINE)


def read_meminfo(root: Root) -> dict[str, int]:
    """Return the values by name, in KiB, or as a number of pages for lines without a unit; none if unreadable."""
    return {name: int(value) for name, value in _MEMINFO_LINE.findall(root.text("/proc/meminfo") or "")}


_CONTROLLERS = "/sys/devices/system/edac/mc"


@dataclass(frozen=True)
class MemoryController:
    """A controller and its errors since its driver was loaded (the kernel's Documentation/admin-guide/RAS/main.rst).

    :ivar name: as in the kernel log, e.g. ``MC0``.
    :ivar corrected: number of corrected errors (``ce_count``); None if unknown.
    :ivar uncorrected: number of uncorrected errors (``ue_count``); None if unknown.
    """

    name: str
    corrected: int | None
    uncorrected: int | None


def read_memory_controllers(root: Root) -> tuple[MemoryController, ...]:
    """Return the memory controllers that have an EDAC driver."""
    return tuple(
        MemoryController(f"MC{number}", root.number(f"{path}/ce_count"), root.number(f"{path}/ue_count"))
        for number, path in root.numbered(_CONTROLLERS, "mc")
    )
