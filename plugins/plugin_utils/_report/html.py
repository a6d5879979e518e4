# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as one HTML file that needs nothing else: no network, no fonts, no second file.

What nodes say is foreign text. It is in the page as JSON that no parser of HTML can leave, it comes into the document
as text and never as HTML, and the page's own policy lets no program run but the one whose digest it names.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

from .console import headline
from .pack import pack
from .page_files import read_program, read_style, read_template

# In JSON these occur inside of strings only, where an escape means the same.
_HARMLESS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def page(report: Mapping[str, Any]) -> str:
    """Return the page that shows a report which ``compare`` has been over. Pure but for the page's own files."""
    style, program = read_style(), read_program()
    policy = (
        f"default-src 'none'; script-src '{_digest(program)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "POLICY": escape(policy),
        "TITLE": escape(headline(report)),
        "STYLE": style,
        "DATA": as_data(pack(report)),
        "PROGRAM": program,
    }
    # Cut at the places first: what is put in is never looked through for further places.
    first, *rest = read_template().split("@@")
    return "".join([first, *(parts[word] if place % 2 == 0 else word for place, word in enumerate(rest))])


def as_data(value: Any) -> str:
    """Return the value as JSON that can stand in an HTML file.

    :raises ValueError: it holds a number that JSON does not know.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_HARMLESS)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
