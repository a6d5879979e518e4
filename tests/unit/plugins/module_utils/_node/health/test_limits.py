# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits in words."""

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.limits import in_words, source_in_words
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import FILE, SITE
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.table import SOURCES
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import Threshold


def test_a_limit_tells_its_unit_its_conditions_and_its_source() -> None:
    assert in_words(Threshold(228.0, "GB/s", SITE, at="8G")) == f"at least 228 GB/s at 8G ({FILE})"
    assert in_words(Threshold(512.0, "", SITE, at_most=True)) == f"at most 512 ({FILE})"


def test_the_first_source_is_named_without_its_details() -> None:
    letter, words = next((letter, words) for letter, words in SOURCES.items() if ": " in words)
    assert source_in_words(letter) == source_in_words(f"{letter}, {letter}") == words.split(": ")[0]
