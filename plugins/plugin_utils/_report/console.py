# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report for a terminal: a line for each node that needs a look, and where the page is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .gather import NO_ANSWER, STATES, worst
from .outliers import show

MOST_LINES = 30
_WORDS = {NO_ANSWER: "no answer"}
_LONGEST = 110


def table(report: Mapping[str, Any], most: int = MOST_LINES) -> list[str]:
    """Return the lines: the counts, the nodes that are not as they should be, the odd values. Pure."""
    nodes = report["nodes"]
    lines = [headline(report)]
    bad = sorted((n for n in nodes if n["state"] not in ("pass", "skip")), key=lambda n: STATES.index(n["state"]))
    rows = [("NODE", "VERDICT", "PHYSICAL HOST", "WHAT")]
    rows += [(n["host_name"], _WORDS.get(n["state"], n["state"]), plain(n["host"]) or "-", what(n)) for n in bad[:most]]
    if bad:
        lines += ["", *_aligned(rows)]
        lines += [f"and {len(bad) - most} more"] if len(bad) > most else []
    odd = report.get("outliers", [])
    if odd:
        rows = [("NODE", "READING", "DEVICE", "UNLIKE THE OTHER NODES")]
        rows += [
            (each["node"], plain(each["reading"]), plain(each["device"]) or "-", _against(each)) for each in odd[:most]
        ]
        lines += ["", *_aligned(rows)]
        lines += [f"and {len(odd) - most} more"] if len(odd) > most else []
    return lines


def headline(report: Mapping[str, Any]) -> str:
    """Return the counts in one line."""
    counts = ", ".join(f"{report['counts'][s]} {_WORDS.get(s, s)}" for s in STATES if report["counts"].get(s))
    of = f" of {report['cluster']}" if report["cluster"] else ""
    limited = f", limited to {report['limit']}" if report["limit"] else ""
    many = f"{len(report['nodes'])} node{'s' if len(report['nodes']) != 1 else ''}"
    return f"Health{of}, tier {report['tier']}, {many}{limited}: {counts or 'nothing was checked'}"


def what(node: Mapping[str, Any]) -> str:
    """Return what is wrong with a node, in one line."""
    if node["problem"]:
        return str(node["problem"])
    check = worst(node)
    if check is None:
        return ""
    more = sum(other["verdict"] == check["verdict"] for other in node["checks"]) - 1
    return f"{check['name']}: {check['summary']}" + (f" (and {more} more)" if more else "")


def _against(odd: Mapping[str, Any]) -> str:
    value, usual = (show(each) if isinstance(each, (int, float)) else each for each in (odd["value"], odd["usual"]))
    unit = f" {odd['unit']}" if odd["unit"] else ""
    return f"{value}{unit}, usual is {usual}{unit}"


def plain(text: str) -> str:
    """Return the text as one line without characters that would command a terminal: nodes write what they like."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), _short(row[3])])
        for row in rows
    ]


def _short(text: str) -> str:
    line = plain(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rstrip()}…"
