# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter scratch_disks, in templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleError

Render = Callable[..., Any]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"expected_count": 0, "devices": ["/dev/nvme0n1"], "nvme_count": 8}, 0),
        ({"expected_count": None, "devices": [], "nvme_count": 8}, 8),
        ({"expected_count": None, "devices": [], "nvme_count": None}, None),
        # As -e scratch_expected_count=4 and -e scratch_devices=... give them.
        ({"expected_count": "4", "devices": [], "nvme_count": "8"}, 4),
        ({"devices": "/dev/nvme0n1,/dev/nvme1n1", "nvme_count": 8}, 2),
        ({"nvme_count": "0"}, 0),
    ],
)
def test_returns_the_number_that_the_module_expects(render: Render, options: dict[str, Any], count: int | None) -> None:
    assert render("options | hpcai.azure.scratch_disks", options=options) == count


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"expected_count": "many"}, "scratch_disks: .*'expected_count' is of type"),
        ({"expected": 1}, "scratch_disks: expected. Supported parameters include"),
        ({"devices": ["nvme0n1"]}, r"scratch_disks: .*must be a path below /dev"),
        (8, "scratch_disks takes a mapping of options, not 8"),
    ],
)
def test_invalid_options_are_an_error_in_one_line(render: Render, options: Any, words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        render("options | hpcai.azure.scratch_disks", options=options)
