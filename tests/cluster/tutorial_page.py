# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code blocks of a guide, by section. The caption of a block says where a reader runs or writes it."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^\.\. code-block:: (?P<language>\w+)\n(?: +:caption: (?P<caption>.+)\n)?\n(?P<text>(?:(?: .*)?\n)+)", re.MULTILINE
)
_TITLE = re.compile(r"^(?P<title>\S.*)\n-{3,}$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block.

    :ivar section: the title of its section.
    :ivar caption: where to run it, or the name of the file that it is.
    """

    section: str
    language: str
    caption: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return all code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    titles = [(found.start(), found["title"]) for found in _TITLE.finditer(text)]
    return [
        Block(
            next((title for place, title in reversed(titles) if place < found.start()), ""),
            found["language"],
            found["caption"] or "",
            textwrap.dedent(found["text"]).strip("\n") + "\n",
        )
        for found in _BLOCK.finditer(text)
    ]
