# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: what groups of users are granted in Blob storage, as a node reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.policy import settings_from
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import SCHEMA, ConfigError


def blob_grants(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the schema's version, if nodes of this collection can use them."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"blob_grants takes a mapping, not {stated!r}.")
    try:
        settings_from(stated, "blob_staging_grants")
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error
    return {"schema": SCHEMA, **stated}


class FilterModule:
    """Ansible's way to find the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"blob_grants": blob_grants}
