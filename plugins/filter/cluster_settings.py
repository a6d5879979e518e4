# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: a cluster's settings as a node reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import (
    FROM_FILE,
    as_stated,
    settings_from,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import SCHEMA, ConfigError


def cluster_settings(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with all keys and the schema's version, as nodes of this collection read them."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"cluster_settings takes a mapping, not {stated!r}.")
    try:
        return {"schema": SCHEMA, **as_stated(settings_from(stated, FROM_FILE, "the cluster's settings"))}
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's way to find the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"cluster_settings": cluster_settings}
