# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.paging import ItemPaged

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import UnreadableAnswer
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.paging import collect, pages


def listing(answers: dict[str | None, tuple[str | None, list[int]]]) -> ItemPaged[int]:
    """What the SDK gives for a list whose pages are these, by their links."""

    def extract(link: str | None) -> tuple[str | None, Iterator[int]]:
        following, items = answers[link]
        return following, iter(items)

    return ItemPaged(lambda link: link, extract)


def test_all_pages_are_read() -> None:
    assert list(pages(listing({None: ("b", [1, 2]), "b": ("c", [3]), "c": (None, [])}))) == [[1, 2], [3], []]


def test_items_are_converted() -> None:
    assert collect(listing({None: ("b", [1]), "b": (None, [2])}), lambda item: item * 10) == [10, 20]


@pytest.mark.parametrize(
    "answers",
    [
        {None: ("a", [1]), "a": ("a", [2])},
        {None: ("a", [1]), "a": ("b", [2]), "b": ("c", [3]), "c": ("a", [4])},
    ],
)
def test_pages_in_a_circle_end(answers: dict[str | None, Any]) -> None:
    with pytest.raises(UnreadableAnswer, match="in a circle"):
        collect(listing(answers), id)
