# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connection of a task to Azure, with its own connection options or those of the inventory's sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .clients import Clients
from .concurrency import Deadline
from .credentials import AUTH_SOURCES, CLOUD_NAMES, make_credential
from .errors import InventoryError
from .options import read_connection, read_options

CONNECTION: dict[str, dict[str, Any]] = {
    "cloud": {"type": "str", "default": "AzureCloud", "choices": list(CLOUD_NAMES)},
    "endpoint": {"type": "str"},
    "auth_source": {"type": "str", "default": "auto", "choices": list(AUTH_SOURCES)},
    "tenant_id": {"type": "str"},
    "client_id": {"type": "str"},
    "client_secret": {"type": "str", "no_log": True},
    "certificate_path": {"type": "str"},
    "token": {"type": "str", "no_log": True},
    "sources": {"type": "list", "elements": "path", "default": []},
    "timeout": {"type": "int", "default": 1800},
}
"""Argument spec of the connection options of a task."""
_ENVIRONMENT = {"endpoint": "HPCAI_AZURE_ENDPOINT", "token": "HPCAI_AZURE_TOKEN"}

Get = Callable[[str], Any]


def connections_for(
    options: Mapping[str, Any], subscriptions: Iterable[str], loader: Any
) -> list[tuple[Get, set[str]]]:
    """Return functions that return connection options, each with the subscriptions to use it for.

    :param loader: Ansible's data loader.
    :raises InventoryError: a source cannot be read, or no source covers a subscription.
    """
    subscription_ids = {subscription.lower() for subscription in subscriptions}
    if not options["sources"]:
        return [
            (lambda name: options[name] if options[name] is not None else _from_environment(name), subscription_ids)
        ]
    sources = {path: options_of_source(path, loader) for path in options["sources"]}
    found: dict[str, set[str]] = {}
    for subscription in sorted(subscription_ids):
        found.setdefault(source_of(subscription, sources), set()).add(subscription)
    return [(sources[path], members) for path, members in found.items()]


@contextmanager
def connect(get: Get, deadline: Deadline, *, only_lists: bool) -> Iterator[Clients]:
    """Provide clients, and close them afterwards.

    :raises InventoryError: sign-in with these options is not possible.
    """
    cloud, identity = read_connection(get)
    clients = Clients(cloud, make_credential(identity, cloud), deadline, only_lists=only_lists)
    try:
        yield clients
    finally:
        clients.close()


def _from_environment(name: str) -> str | None:
    return os.environ.get(_ENVIRONMENT[name]) if name in _ENVIRONMENT else None


PLUGIN = "hpcai.azure.azure_vmss"


def options_of_source(path: str, loader: Any) -> Callable[[str], Any]:
    """Return a function that returns the value of an option of a source, including templates and the environment.

    :param loader: Ansible's data loader, which decrypts vaults.
    :raises InventoryError: the file cannot be read, or is not a source of this collection.
    """
    from ansible.errors import AnsibleError
    from ansible.inventory.data import InventoryData
    from ansible.plugins.inventory import BaseInventoryPlugin
    from ansible.plugins.loader import inventory_loader

    plugin = inventory_loader.get(PLUGIN)
    if not plugin.verify_file(path):
        raise InventoryError(f"{path} is not a source of {PLUGIN}, or no longer exists.")
    try:
        # These are the steps of parsing a source before the requests to Azure.
        BaseInventoryPlugin.parse(plugin, InventoryData(), loader, path)
        plugin.read_source_options(path)
    except AnsibleError as error:
        raise InventoryError(f"{path}: {error}") from None
    get: Callable[[str], Any] = plugin.get_option
    return get


def source_of(subscription: str, sources: Mapping[str, Callable[[str], Any]]) -> str:
    """Return the source that covers a subscription.

    :raises InventoryError: no source covers it.
    """
    for path, get in sources.items():
        if subscription.lower() in read_options(get).selection.subscription_ids:
            return path
    raise InventoryError(f"subscription {subscription} is in none of these sources: {', '.join(sources) or 'none'}.")
