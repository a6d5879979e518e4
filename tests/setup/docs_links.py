#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpack the documentation site as a reader would, and follow the links of its pages: docs_links.py ARCHIVE."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """Collects the links and the targets of a page.

    :ivar links: URLs as the page has them.
    :ivar ids: names that a link may have behind its ``#``.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Save the link and the id of an element."""
        for name, value in attrs:
            if value and name == LINKS.get(tag):
                self.links.append(value)
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.ids.add(value)


def broken(folder: pathlib.Path) -> list[str]:
    """Return the links that lead nowhere, or out of the folder. Links to other sites are not followed."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    return [
        f"{path.relative_to(folder)}: {link}: {problem}"
        for path, page in pages.items()
        for link in dict.fromkeys(page.links)
        if (problem := _problem(folder, pages, path, link))
    ]


def _problem(folder: pathlib.Path, pages: dict[pathlib.Path, Page], path: pathlib.Path, link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    if parts.path.startswith("/"):
        return "is absolute"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(folder) or not target.is_file():
        return "no such file"
    known = pages.get(target)
    # Sphinx's own pages, such as the search, have anchors that a script makes.
    if parts.fragment and known and unquote(parts.fragment) not in known.ids:
        return "no such place on the page"
    return ""


def main(archive: str) -> int:
    """Print the broken links of an archive; return an exit status."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["tar", "-xzf", archive, "-C", name], check=True)
        folder = pathlib.Path(name).resolve()
        pages = len(list(folder.rglob("*.html")))
        found = broken(folder)
    for one in found:
        print(f"docs_links.py: {one}", file=sys.stderr)
    print(f"[docs] {pages} pages, {len(found)} broken links")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
