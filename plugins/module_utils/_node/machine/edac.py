# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The memory controllers that the kernel watches (EDAC), with the errors that it has counted.

Few virtual machines have any: the hypervisor keeps the controllers to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from .root import Root

_FOLDER = "/sys/devices/system/edac/mc"


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


def read_controllers(root: Root) -> tuple[MemoryController, ...]:
    """Return the memory controllers that are watched; none where no driver watches any."""
    return tuple(
        MemoryController(f"MC{number}", root.number(f"{path}/ce_count"), root.number(f"{path}/ue_count"))
        for number, path in root.numbered(_FOLDER, "mc")
    )
