# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the page is made of, in the folder page/."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "page"
SCRIPTS = ("words", "data", "state", "dom", "drawing", "map", "values", "nodes", "node", "summary", "suspects", "start")
"""In this order: each uses those before it."""


def read_template() -> str:
    """Return the page without style, program and data."""
    return _read("page.html")


def read_style() -> str:
    """Return the style sheet."""
    return _read("style.css")


def read_program() -> str:
    """Return the program, of all its files."""
    return "\n".join(['"use strict";', "(() => {", *(_read(f"{name}.js") for name in SCRIPTS), "})();"])


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
