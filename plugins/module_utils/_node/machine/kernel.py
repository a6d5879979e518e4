# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the kernel says of itself: its boot, loaded modules, memory, the memory controllers' errors (EDAC)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .root import Root
from .run import Run, last_line

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_id(root: Root) -> str:
    """Return the kernel's id of this boot; nothing if it cannot be read."""
    return root.text(_BOOT_ID) or ""


LOADED, ABSENT, REFUSED = "loaded", "absent", "refused"
# kmod's words, and busybox's.
_NO_SUCH_MODULE = re.compile(r"module \S+ not found|can't find module|no such module", re.IGNORECASE)


@dataclass(frozen=True)
class Loading:
    """How loading a module ended.

    :ivar state: LOADED, ABSENT (the running kernel has no such module) or REFUSED.
    :ivar words: what modprobe said; empty where the module is loaded.
    """

    state: str
    words: str = ""


def is_loaded(root: Root, name: str) -> bool:
    """Whether the module is there and has begun its work; one that is still loading is not."""
    folder = f"/sys/module/{name}"
    # A module that is built into the kernel has no such file.
    return root.exists(folder) and root.text(f"{folder}/initstate") in (None, "live")


def load_module(name: str, run: Run) -> Loading:
    """Load a module and those it needs; one that is loaded already is no error. Waits for one that is just loading."""
    result = run(["modprobe", name])
    if result.rc == 0:
        return Loading(LOADED)
    message = last_line(result, f"exit status {result.rc}")
    return Loading(ABSENT if _NO_SUCH_MODULE.search(message) else REFUSED, message)


_MEMINFO_LINE = re.compile(r"^(\w[\w()]*):\s+(\d+)(?: kB)?$", re.MULTILINE)


def read_meminfo(root: Root) -> dict[str, int]:
    """Return the lines by name, in KiB, or as a number of pages where the kernel counts those; none if unreadable."""
    return {name: int(value) for name, value in _MEMINFO_LINE.findall(root.text("/proc/meminfo") or "")}


_CONTROLLERS = "/sys/devices/system/edac/mc"


@dataclass(frozen=True)
class MemoryController:
    """A controller and its errors since its driver was loaded (the kernel's Documentation/admin-guide/RAS/main.rst).

    :ivar name: as the kernel's log has it, e.g. ``MC0``.
    :ivar corrected: number of corrected errors (``ce_count``); None if it is not told.
    :ivar uncorrected: number of others (``ue_count``); None if it is not told.
    """

    name: str
    corrected: int | None
    uncorrected: int | None


def read_memory_controllers(root: Root) -> tuple[MemoryController, ...]:
    """Return the memory controllers that are watched; none where no driver watches any."""
    return tuple(
        MemoryController(f"MC{number}", root.number(f"{path}/ce_count"), root.number(f"{path}/ue_count"))
        for number, path in root.numbered(_CONTROLLERS, "mc")
    )
