# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machine's memory, out of /proc/meminfo."""

from __future__ import annotations

import re

from .root import Root

_LINE = re.compile(r"^(\w[\w()]*):\s+(\d+)(?: kB)?$", re.MULTILINE)


def read_meminfo(root: Root) -> dict[str, int]:
    """Return the lines by name, in KiB, or as a number of pages where the kernel counts those; none if unreadable."""
    return {name: int(value) for name, value in _LINE.findall(root.text("/proc/meminfo") or "")}
