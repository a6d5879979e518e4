# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report in its folder: report.json, and report.html made from it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.atomic import write_file

from . import console
from .gather import SCHEMA
from .html import page

JSON, HTML = "report.json", "report.html"
_MODE = 0o644


@dataclass(frozen=True)
class Written:
    """What became of the files.

    :ivar changed: whether one of them was not as it is now.
    :ivar before: the table of the report that was there; empty where there was none, or none that can be read.
    """

    changed: bool
    before: str


def put(report: Mapping[str, Any], folder: str, dry: bool = False) -> Written:
    """Write both files where they are not as they should be, each in one step.

    :param dry: only say what would be done.
    :raises OSError: one cannot be written; the other may have been.
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
    """Return the report as JSON, with a line for each node, so that one can be looked for with grep. Pure."""
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
            return "".join(f"{line}\n" for line in console.table(report))
    except (OSError, ValueError, LookupError, TypeError):
        # It may be anything: it is only shown, and replaced.
        pass
    return ""
