# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a list page by page, without trusting it to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .errors import UnreadableAnswer


def pages(listing: Any) -> Iterator[list[Any]]:
    """Yield the pages of an SDK list.

    :raises UnreadableAnswer: a page leads to one that was read already; the SDK would go round for ever.
    """
    iterator = listing.by_page()
    followed: set[str] = set()
    for page in iterator:
        yield list(page)
        link = iterator.continuation_token
        if link in followed:
            raise UnreadableAnswer("its pages lead in a circle (a nextLink repeats).")
        if link:
            followed.add(link)


def collect(listing: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """Read all pages and convert each item at once, so that no more than one page of SDK objects is held."""
    return [convert(item) for page in pages(listing) for item in page]
