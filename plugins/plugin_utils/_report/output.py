# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output of the report: a table for the terminal, report.json, and report.html."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.atomic import write_file

from .._azure.errors import printable
from .gather import SCHEMA, STATES, headline, state_word, what
from .html import page
from .outliers import show

MOST_LINES = 30
_LONGEST = 110


def table(report: Mapping[str, Any], most: int = MOST_LINES) -> list[str]:
    """Return the lines of the table: the counts, the nodes with problems, and the outliers. Pure."""
    nodes = report["nodes"]
    lines = [headline(report)]
    bad = sorted((n for n in nodes if n["state"] not in ("pass", "skip")), key=lambda n: STATES.index(n["state"]))
    rows = [("NODE", "VERDICT", "PHYSICAL HOST", "WHAT")]
    rows += [(n["host_name"], state_word(n["state"]), printable(n["host"]) or "-", what(n)) for n in bad[:most]]
    if bad:
        lines += ["", *_aligned(rows)]
        lines += [f"and {len(bad) - most} more"] if len(bad) > most else []
    odd = report.get("outliers", [])
    if odd:
        rows = [("NODE", "READING", "DEVICE", "OUTLIER")]
        rows += [
            (each["node"], printable(each["reading"]), printable(each["device"]) or "-", _against(each))
            for each in odd[:most]
        ]
        lines += ["", *_aligned(rows)]
        lines += [f"and {len(odd) - most} more"] if len(odd) > most else []
    return lines


def _against(odd: Mapping[str, Any]) -> str:
    value, usual = (show(each) if isinstance(each, (int, float)) else each for each in (odd["value"], odd["usual"]))
    unit = f" {odd['unit']}" if odd["unit"] else ""
    return f"{value}{unit}, usual is {usual}{unit}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), _short(row[3])])
        for row in rows
    ]


def _short(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rstrip()}…"


JSON, HTML = "report.json", "report.html"
_MODE = 0o644


@dataclass(frozen=True)
class Written:
    """Result of writing the files.

    :ivar changed: whether a file changed.
    :ivar before: the table of the old report. Empty if there was none, or if it could not be read.
    """

    changed: bool
    before: str


def write_report(report: Mapping[str, Any], folder: str, dry: bool = False) -> Written:
    """Write both files atomically if they differ.

    :param dry: only return what would change.
    :raises OSError: a file cannot be written. The other one may be written already.
    """
    texts = {JSON: as_json(report), HTML: page(report)}
    before = _table_in(os.path.join(folder, JSON))
    changed = False
    for name, text in texts.items():
        path = os.path.join(folder, name)
        if not _is(path, text):
            changed = True
            if not dry:
                write_file(path, text, _MODE)
    return Written(changed, before)


def as_json(report: Mapping[str, Any]) -> str:
    """Return the report as JSON, with one line per node, so that it can be searched with grep. Pure."""
    parts = []
    for key, value in report.items():
        text = _dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            text = "[\n" + ",\n".join(_dumps(item) for item in value) + "\n]"
        parts.append(f"{_dumps(key)}: {text}")
    return "{" + ",\n".join(parts) + "}\n"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _is(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read() == text and stat.S_IMODE(os.fstat(file.fileno()).st_mode) == _MODE
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _table_in(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        if report["schema"] == SCHEMA:
            return "".join(f"{line}\n" for line in table(report))
    except (OSError, ValueError, LookupError, TypeError):
        # Ignore an invalid old report, because it is only shown, and then replaced.
        pass
    return ""
