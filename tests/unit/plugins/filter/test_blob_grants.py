# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter hpcai.azure.blob_grants, as a role calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleError

EXPRESSION = "settings | hpcai.azure.blob_grants"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("none", "blob_grants takes a mapping, not 'none'"),
        ({"grants": [{"groups": ["a"]}]}, r"blob_staging_grants: grants\[0\] lacks account_url, container, rights"),
        ({"life_s": 1}, "blob_staging_grants: life_s must be a whole number from 300 to 302400, not 1"),
    ],
)
def test_invalid_settings_are_an_error_on_the_controller(
    render: Callable[..., Any], settings: Any, message: str
) -> None:
    with pytest.raises(AnsibleError, match=message):
        render(EXPRESSION, settings=settings)
