# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: the settings of the health checks as a node reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings_file import OFF, problems_of

SKIP = "skip"
"""What the key OFF is called in an inventory."""


def health_settings(stated: Mapping[str, Any], name: str = "health_checks_config") -> dict[str, Any]:
    """Return the settings for health.json; a name that no check of this collection knows is an error."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"{name} is no mapping, but {stated!r}.")
    given = _without_nulls(stated)
    wrong = list(problems_of(given, off=SKIP))
    if wrong:
        raise AnsibleFilterError(f"{name}: {'; '.join(wrong)}. 'hpcnode health list' shows all names.")
    return {OFF if key == SKIP else key: value for key, value in given.items()}


def _without_nulls(stated: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in stated.items()
        if value is not None
    }


class FilterModule:
    """Ansible's way to find the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"health_settings": health_settings}
