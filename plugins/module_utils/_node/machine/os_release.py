# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which operating system a machine has (os-release(5))."""

from __future__ import annotations

import shlex

from .root import Root


def read_os_release(root: Root) -> dict[str, str]:
    """Return the values of os-release by name, for example ``ID`` and ``ID_LIKE``; none if the file is missing."""
    text = root.text("/etc/os-release") or root.text("/usr/lib/os-release") or ""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key: _unquoted(value) for key, _equals, value in pairs}


def _unquoted(value: str) -> str:
    try:
        return "".join(shlex.split(value))
    except ValueError:  # a quote that is not closed
        return value
