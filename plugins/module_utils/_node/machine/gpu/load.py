# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which load of the driver this is: what was set is gone with the next one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..root import Root

_MODULE = "/sys/module/nvidia"


@dataclass(frozen=True)
class DriverLoad:
    """A load of the driver in a boot of the machine; two are equal if and only if the driver was not reloaded.

    :ivar boot_id: the kernel's id of this boot.
    :ivar module: inode number of the driver's folder in sysfs. Version and file names are the same after a reload,
        the times are those of the last look at the folder, but the number is new for each folder: the kernel's kernfs
        hands them out in turn (``idr_alloc_cyclic``), and with 64 bits a reused one has another generation in it.
    """

    boot_id: str
    module: int


def read_load(root: Root) -> DriverLoad | None:
    """Return the present load of the driver; None if it is not loaded."""
    boot_id = root.text("/proc/sys/kernel/random/boot_id")
    try:
        module = os.stat(root.at(_MODULE)).st_ino
    except OSError:
        return None
    return DriverLoad(boot_id, module) if boot_id else None
