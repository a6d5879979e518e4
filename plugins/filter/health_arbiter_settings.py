# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: the settings of the health checks' arbiter as the controller reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import NAMES
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings_file import unknown_names
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import refusals

CONFIRM = "confirm"


def health_arbiter_settings(stated: Mapping[str, Any], name: str = "health_checks_arbiter") -> dict[str, Any]:
    """Return the settings as they are stated; what the arbiter would not take is an error."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"{name} is no mapping, but {stated!r}.")
    given = {key: value for key, value in stated.items() if value is not None}
    wrong = list(refusals(given)) or list(unknown_names(f"{CONFIRM}: ", given.get(CONFIRM) or {}, NAMES, "check"))
    if wrong:
        raise AnsibleFilterError(f"{name}: {'; '.join(wrong)}.")
    return dict(stated)


class FilterModule:
    """Ansible's way to find the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"health_arbiter_settings": health_arbiter_settings}
