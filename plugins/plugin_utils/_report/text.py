# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text output of reports: aligned tables for the terminal, and JSON files of which each line can be searched."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.atomic import write_file

from .._azure.errors import printable

_LONGEST = 110
_MODE = 0o644


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the rows with aligned columns. The last column, which can contain any text, is shortened."""
    last = len(rows[0]) - 1
    widths = [max(len(row[column]) for row in rows) for column in range(last)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), short(row[last])])
        for row in rows
    ]


def short(text: str) -> str:
    """Return a text as one line of limited length."""
    line = printable(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rstrip()}…"


def as_json(report: Mapping[str, Any]) -> str:
    """Return a report as JSON, with one line per entry of its lists, so that it can be searched with grep. Pure."""
    parts = []
    for key, value in report.items():
        text = _dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            text = "[\n" + ",\n".join(_dumps(item) for item in value) + "\n]"
        parts.append(f"{_dumps(key)}: {text}")
    return "{" + ",\n".join(parts) + "}\n"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_if_changed(path: str, text: str, dry: bool = False) -> bool:
    """Write a file atomically if its content or mode differs. Return whether it differed.

    :param dry: only return it.
    :raises OSError: the file cannot be written.
    """
    if _is(path, text):
        return False
    if not dry:
        write_file(path, text, _MODE)
    return True


def _is(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read() == text and stat.S_IMODE(os.fstat(file.fileno()).st_mode) == _MODE
    except (FileNotFoundError, UnicodeDecodeError):
        return False
