# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter hpcai.azure.cluster_settings, as a role calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleError

EXPRESSION = "settings | hpcai.azure.cluster_settings"
SETTINGS: dict[str, Any] = {"cluster": "training", "functions": ["compute"], "controllers": ["10.0.0.4"]}


def test_adds_the_defaults_of_missing_settings(render: Callable[..., Any]) -> None:
    assert render(EXPRESSION, settings=SETTINGS) == {
        "schema": 1,
        **SETTINGS,
        "key": {"source": "push", "vault": None, "secret": "munge-key", "client_id": None},
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("training", "cluster_settings takes a mapping, not 'training'"),
        ({**SETTINGS, "controllers": []}, "the cluster's settings: controllers is empty"),
        (
            {**SETTINGS, "key": {"source": "key_vault", "vault": "my-vault"}},
            "the cluster's settings: key.vault: 'my-vault' is not the URL of a key vault: expected https://NAME",
        ),
    ],
)
def test_invalid_settings_are_an_error_on_the_controller(
    render: Callable[..., Any], settings: Any, message: str
) -> None:
    with pytest.raises(AnsibleError, match=message):
        render(EXPRESSION, settings=settings)
