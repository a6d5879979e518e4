# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as one HTML file that needs no network, no fonts and no other file.

Texts from nodes are not trusted. The page contains them as escaped text (markup.py), and as JSON that is escaped for
HTML, which its script inserts as text, never as HTML. Its content security policy only allows the script with the given
digest. The sources of the page are in the folder page/.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from .commands import commands_of, documentation_link, in_slurm_order, is_usable, portal_link
from .gather import headline
from .verdicts import attention, copy_panel, head, without_script
from .words import ACTIONS, states_for_script

_FOLDER = Path(__file__).parent / "page"
SCRIPTS = (
    *("data", "words", "time", "hostlist", "state", "dom", "drawing", "map", "values", "nodes", "node", "tiles"),
    *("suspects", "static", "commands", "start"),
)
"""In this order, because each script uses earlier ones."""


def read_template() -> str:
    """Return the page without style sheet, script and data."""
    return _read("page.html")


def read_style() -> str:
    """Return the style sheet."""
    return _read("style.css")


def read_program() -> str:
    """Return the script, joined from all its files."""
    return "\n".join(['"use strict";', "(() => {", *(_read(f"{name}.js") for name in SCRIPTS), "})();"])


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


_IDENTITY = (
    *("host_name", "name", "vm_id", "vm_size", "host", "image", "boot_id", "collection", "problem", "time"),
    *("state", "azure_id", "slurm_name"),
)
_PAST_FAULT = ("check", "code", "device", "summary", "node", "first", "last")
_FINDING = ("verdict", "device", "summary", "hint", "action", "fault", "cause")


class _Texts:
    """Numbers the texts in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: Any) -> int:
        return self.numbers.setdefault(str(text), len(self.numbers))


def pack(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of the page for a report from ``compare``. Pure.

    To keep it small, it contains each text once, and lists instead of mappings, because six hundred nodes repeat the
    same few hundred sentences thousands of times. The page's data.js reads this format.
    """
    texts = _Texts()
    checks = {name: place for place, name in enumerate(report["checks"])}
    measures = {
        (each["reading"], each["unit"], each["vm_size"], each["kind"] == "word"): place
        for place, each in enumerate(report["measures"])
    }
    node_numbers = {node["host_name"]: place for place, node in enumerate(report["nodes"])}
    nodes = [_node(node, checks, measures, texts) for node in report["nodes"]]
    outliers = []
    for odd in report["outliers"]:
        measure = measures[odd["reading"], odd["unit"], odd["vm_size"], isinstance(odd["value"], str)]
        outliers.append([measure, node_numbers[odd["node"]], texts(odd["device"]), odd["value"], texts(odd["why"])])
    suspects = []
    for one in report.get("suspects", ()):
        faults = sorted(one["faults"], key=lambda fault: str(fault["last"]), reverse=True)
        packed = [[texts(fault[key]) for key in _PAST_FAULT] for fault in faults]
        suspects.append([node_numbers[one["host_name"]], texts(one["host"]), packed])
    plain = ("time", "tier", "cluster", "limit", "collection", "verdict", "counts", "checks", "measures")
    return {
        **{key: report[key] for key in plain},
        "states": states_for_script(),
        "actions": ACTIONS,
        "documentation": [documentation_link(name) for name in report["checks"]],
        "commands": [asdict(command) for command in commands_of(report)],
        "slurm_order": in_slurm_order(report["nodes"]),
        "nodes": nodes,
        "outliers": outliers,
        "suspects": suspects,
        # At the end, when all texts have their numbers.
        "texts": list(texts.numbers),
    }


Key = tuple[str, str, str, bool]
"""Name of the reading, unit, VM size, and whether the values are words."""


def _node(node: Mapping[str, Any], checks: Mapping[str, int], measures: Mapping[Key, int], texts: _Texts) -> list[Any]:
    packed = [_check(check, checks[check["name"]], node["vm_size"], measures, texts) for check in node["checks"]]
    identity = [*(texts(node[key]) for key in _IDENTITY), texts(portal_link(node["azure_id"]))]
    return [*identity, node["seconds"], int(is_usable(node)), packed]


def _check(check: Mapping[str, Any], place: int, vm_size: str, measures: Mapping[Key, int], texts: _Texts) -> list[Any]:
    readings = []
    for reading in check["readings"]:
        value = reading["value"]
        measure = measures[reading["name"], reading["unit"], vm_size, isinstance(value, str)]
        readings.append([measure, texts(reading["device"]), value, reading["limit"]])
    findings = [[texts(finding[key]) for key in _FINDING] for finding in check["findings"]]
    words = [texts(check[key]) for key in ("verdict", "summary", "hint", "action", "fault", "cause", "limit")]
    return [place, *words, check["seconds"], int(check["latched"]), findings, readings]


# In JSON, these characters only occur in strings, where an escape has the same meaning.
_HARMLESS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def page(report: Mapping[str, Any]) -> str:
    """Return the page for a report from ``compare``. Pure, except that it reads the page's source files."""
    style, program = read_style(), read_program()
    policy = (
        f"default-src 'none'; script-src '{_digest(program)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "POLICY": escape(policy),
        "TITLE": escape(headline(report)),
        "STYLE": style,
        "HEAD": head(report),
        "ATTENTION": attention(report),
        "COPY": copy_panel(report),
        "VERDICTS": without_script(report),
        "DATA": as_data(pack(report)),
        "PROGRAM": program,
    }
    # Split the template first, so that placeholders are not searched in inserted texts.
    first, *rest = read_template().split("@@")
    return "".join([first, *(parts[word] if place % 2 == 0 else word for place, word in enumerate(rest))])


def as_data(value: Any) -> str:
    """Return the value as JSON that is safe in an HTML file.

    :raises ValueError: it contains a number that JSON does not support.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_HARMLESS)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
