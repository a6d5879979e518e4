# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output of the report: a table for the terminal, report.json, and report.html."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._azure.errors import printable
from .gather import SCHEMA, STATES, headline, state_word, what
from .html import page
from .outliers import show
from .text import aligned, as_json, write_if_changed

MOST_LINES = 30


def table(report: Mapping[str, Any], most: int = MOST_LINES) -> list[str]:
    """Return the lines of the table: the counts, the nodes with problems, and the outliers. Pure."""
    nodes = report["nodes"]
    lines = [headline(report)]
    bad = sorted((n for n in nodes if n["state"] not in ("pass", "skip")), key=lambda n: STATES.index(n["state"]))
    rows = [("NODE", "VERDICT", "PHYSICAL HOST", "WHAT")]
    rows += [(n["host_name"], state_word(n["state"]), printable(n["host"]) or "-", what(n)) for n in bad[:most]]
    if bad:
        lines += ["", *aligned(rows)]
        lines += [f"and {len(bad) - most} more"] if len(bad) > most else []
    odd = report.get("outliers", [])
    if odd:
        rows = [("NODE", "READING", "DEVICE", "OUTLIER")]
        rows += [
            (each["node"], printable(each["reading"]), printable(each["device"]) or "-", _against(each))
            for each in odd[:most]
        ]
        lines += ["", *aligned(rows)]
        lines += [f"and {len(odd) - most} more"] if len(odd) > most else []
    return lines


def _against(odd: Mapping[str, Any]) -> str:
    value, usual = (show(each) if isinstance(each, (int, float)) else each for each in (odd["value"], odd["usual"]))
    unit = f" {odd['unit']}" if odd["unit"] else ""
    return f"{value}{unit}, usual is {usual}{unit}"


JSON, HTML = "report.json", "report.html"


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
    changed = [write_if_changed(os.path.join(folder, name), text, dry) for name, text in texts.items()]
    return Written(any(changed), before)


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
