# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters that check settings of an inventory, and return the content of the files on a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import settings as elastic
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import checked
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import NAMES
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings_file import (
    OFF,
    problems_of,
    unknown_names,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants import policy as grants
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import cluster_settings as cluster
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import SCHEMA, ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter import settings as arbiter
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.elastic import ONLY_FOR_SLURM, elastic_sets

SKIP = "skip"
"""Name of the key OFF in an inventory."""


def blob_grants(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked grants of groups of users in Blob storage."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"blob_grants takes a mapping, not {stated!r}.")
    try:
        checked(grants.FORM, stated, "blob_staging_grants")
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error
    return {"schema": SCHEMA, **stated}


def cluster_settings(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked settings of the cluster with all keys."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"cluster_settings takes a mapping, not {stated!r}.")
    try:
        settings = cluster.settings_from(stated, cluster.FROM_FILE, "the cluster's settings")
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error
    return {"schema": SCHEMA, **cluster.as_stated(settings)}


def elastic_settings(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked settings of the daemon of elastic sets, without the keys that only slurm.conf needs."""
    if not isinstance(stated, Mapping) or not isinstance(stated.get("sets"), Mapping):
        raise AnsibleFilterError(f"elastic_settings takes a mapping with sets, not {stated!r}.")
    try:
        elastic_sets(stated["sets"])
        sets = {
            name: {key: value for key, value in one.items() if key not in ONLY_FOR_SLURM}
            for name, one in stated["sets"].items()
        }
        settings = {**stated, "sets": sets}
        checked(elastic.FORM, settings, "the settings of elastic sets")
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error
    return {"schema": SCHEMA, **settings}


def health_settings(stated: Mapping[str, Any], name: str = "health_checks_config") -> dict[str, Any]:
    """Return the checked settings for health.json. An unknown name is an error."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"{name} must be a mapping, not {stated!r}.")
    given = _without_nulls(stated)
    wrong = list(problems_of(given, off=SKIP))
    if wrong:
        raise AnsibleFilterError(f"{name}: {'; '.join(wrong)}. 'hpcnode health list' shows all names.")
    return {OFF if key == SKIP else key: value for key, value in given.items()}


def health_arbiter_settings(stated: Mapping[str, Any], name: str = "health_checks_arbiter") -> dict[str, Any]:
    """Return the arbiter's settings unchanged. A setting that the arbiter does not accept is an error."""
    if not isinstance(stated, Mapping):
        raise AnsibleFilterError(f"{name} must be a mapping, not {stated!r}.")
    try:
        settings = checked(arbiter.FORM, stated, name)
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error
    unknown = list(unknown_names("confirm: ", settings.confirm, NAMES, "check"))
    if unknown:
        raise AnsibleFilterError(f"{name}: {'; '.join(unknown)}.")
    return dict(stated)


def _without_nulls(stated: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in stated.items()
        if value is not None
    }


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {
            "blob_grants": blob_grants,
            "cluster_settings": cluster_settings,
            "elastic_settings": elastic_settings,
            "health_arbiter_settings": health_arbiter_settings,
            "health_settings": health_settings,
        }
