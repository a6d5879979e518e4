# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Pages that a node writes: one HTML file without scripts, which needs no network and no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """\
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:15px/1.45 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);
vertical-align:top}th{background:var(--soft)}.n{text-align:right;font-variant-numeric:tabular-nums}
.bad{color:#b3261e}@media(prefers-color-scheme:dark){.bad{color:#ff8a80}}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{opacity:.7}dd{margin:0}
"""


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def document(title: str, body: Iterable[str]) -> str:
    """Return a complete page.

    :param body: HTML.
    """
    policy = f"default-src 'none'; style-src 'sha256-{_digest(_STYLE)}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n"
        f"{chr(10).join(body)}\n</body></html>\n"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table.

    :param rows: HTML of the cells.
    :param numbers: places of columns with numbers.
    """

    def row_of(kind: str, cells: Sequence[str]) -> str:
        classes = [' class="n"' if place in numbers else "" for place in range(len(cells))]
        return f"<tr>{''.join(f'<{kind}{one}>{cell}</{kind}>' for one, cell in zip(classes, cells))}</tr>"

    head = row_of("th", [escape(name) for name in heads])
    lines = "\n".join(row_of("td", row) for row in rows)
    return f"<table><thead>{head}</thead><tbody>\n{lines}\n</tbody></table>"
