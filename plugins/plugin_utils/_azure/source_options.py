# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an inventory source, for what acts on the instances that the source brought."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import InventoryError
from .options import read_options

PLUGIN = "hpcai.azure.azure_vmss"


def options_of_source(path: str, loader: Any) -> Callable[[str], Any]:
    """Return what gives the value of each option of a source: of the file, its templates and the environment.

    :param loader: Ansible's data loader, which opens a vault.
    :raises InventoryError: the file cannot be read, or is no source of this collection.
    """
    from ansible.errors import AnsibleError
    from ansible.inventory.data import InventoryData
    from ansible.plugins.inventory import BaseInventoryPlugin
    from ansible.plugins.loader import inventory_loader

    plugin = inventory_loader.get(PLUGIN)
    if not plugin.verify_file(path):
        raise InventoryError(f"{path} is no source of {PLUGIN}, or is not there any more.")
    try:
        # All that parsing a source does before it asks Azure.
        BaseInventoryPlugin.parse(plugin, InventoryData(), loader, path)
        plugin.read_source_options(path)
    except AnsibleError as error:
        raise InventoryError(f"{path}: {error}") from None
    get: Callable[[str], Any] = plugin.get_option
    return get


def source_of(subscription: str, sources: Mapping[str, Callable[[str], Any]]) -> str:
    """Return which of the sources looks into a subscription.

    :raises InventoryError: none does.
    """
    for path, get in sources.items():
        if subscription.lower() in read_options(get).selection.subscription_ids:
            return path
    raise InventoryError(f"subscription {subscription} is in none of these sources: {', '.join(sources) or 'none'}.")
