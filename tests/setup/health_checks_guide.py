#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the sections about each check in docs/docsite/rst/guide_health.rst, from the checks' manifests.

The health report page links to these sections. Run it with PYTHONPATH=.collections.
"""

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Iterator

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import all_checks
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Check

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GUIDE = REPOSITORY / "docs/docsite/rst/guide_health.rst"
MARK = ".. The rest of this page is written by tests/setup/health_checks_guide.py.\n"
# Signs that reStructuredText would read as markup.
MARKUP = re.compile(r"([*`|\\]|_(?!\w))")


def page(guide: str) -> str:
    """Return the guide's text with current sections about the checks, which are its end."""
    return guide.partition(MARK)[0] + MARK + "".join(f"\n{line}" for check in all_checks() for line in section(check))


def section(check: Check) -> Iterator[str]:
    """Yield the lines about a check."""
    title = check.title[0].upper() + check.title[1:]
    tiers = ", ".join(f"``{tier}``" for tier in check.tiers)
    last = f"Tiers: {tiers}. Action for a failure: ``{check.action}``."
    yield from (check.name, "~" * len(check.name), "")
    yield from wrapped(f"**{escaped(title)}.** {escaped(check.explain)}")
    yield from ("", *wrapped(last), "")


def escaped(text: str) -> str:
    """Return a text without meaning for reStructuredText."""
    return MARKUP.sub(r"\\\1", text)


def wrapped(text: str) -> list[str]:
    """Return the lines of a paragraph."""
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    GUIDE.write_text(page(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
