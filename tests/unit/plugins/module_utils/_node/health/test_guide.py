# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide describes each check as its manifest does."""

from __future__ import annotations

import health_checks_guide
import pytest


def test_the_guides_sections_about_the_checks_are_up_to_date() -> None:
    text = health_checks_guide.GUIDE.read_text(encoding="utf-8")
    assert health_checks_guide.page(text) == text, "run PYTHONPATH=.collections tests/setup/health_checks_guide.py"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("topology/*.xml", r"topology/\*.xml"),
        ("a `b` |c| d\\e", r"a \`b\` \|c\| d\\e"),
        ("check_gpu_bw, name_ and name_.", r"check_gpu_bw, name\_ and name\_."),
    ],
)
def test_signs_of_markup_are_escaped(text: str, escaped: str) -> None:
    assert health_checks_guide.escaped(text) == escaped
