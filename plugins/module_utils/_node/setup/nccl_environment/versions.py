# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Versions of NCCL: out of file names and of ``ncclGetVersion``, compared as numbers."""

from __future__ import annotations

import re

Version = tuple[int, int, int]

RECOMMENDED = "2.9.9"
"""What Microsoft advises for ND A100 v4 at scale: "It is recommended that you use NCCL version >= 2.9.9"."""

_TEXT = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[^0-9.].*)?")
_FILE = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)")


def parse_version(text: str) -> Version:
    """Return the version that a text such as ``2.18.5``, ``2.9`` or ``2.18.5-1+cuda12.2`` begins with.

    :raises ValueError: it is no version.
    """
    match = _TEXT.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no version of NCCL, such as {RECOMMENDED}.")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def version_of_file(name: str) -> Version | None:
    """Return the version that a file's name ends in (``libnccl.so.2.18.5``); None where it has none."""
    match = _FILE.fullmatch(name)
    return parse_version(match[1]) if match else None


def version_of_code(code: int) -> Version:
    """Return the version out of NCCL's number of it: 2809 is 2.8.9, and from 2.9 on 20909 is 2.9.9 (``nccl.h``)."""
    unit = 1000 if code < 10000 else 10000
    return code // unit, code % unit // 100, code % 100


def as_text(version: Version) -> str:
    """Return it as it is written."""
    return ".".join(map(str, version))
