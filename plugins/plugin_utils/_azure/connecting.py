# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a task comes to Azure: by connection options of its own, or by those of the inventory's sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .clients import Clients
from .cloud import CLOUD_NAMES, Cloud
from .credentials import AUTH_SOURCES, Identity, make_credential
from .deadline import Deadline
from .errors import InventoryError
from .options import read_connection
from .source_options import options_of_source, source_of

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
"""Argument spec of everything that a task can say about it."""
_ENVIRONMENT = {"endpoint": "HPCAI_AZURE_ENDPOINT", "token": "HPCAI_AZURE_TOKEN"}

Get = Callable[[str], Any]


def by_door(options: Mapping[str, Any], subscriptions: Iterable[str], loader: Any) -> list[tuple[Get, set[str]]]:
    """Return what gives the connection options, with the subscriptions that each such way leads to.

    :param loader: Ansible's data loader.
    :raises InventoryError: a source cannot be read, or none looks into a subscription.
    """
    wanted = {subscription.lower() for subscription in subscriptions}
    if not options["sources"]:
        return [(lambda name: options[name] if options[name] is not None else _from_environment(name), wanted)]
    sources = {path: options_of_source(path, loader) for path in options["sources"]}
    found: dict[str, set[str]] = {}
    for subscription in sorted(wanted):
        found.setdefault(source_of(subscription, sources), set()).add(subscription)
    return [(sources[path], members) for path, members in found.items()]


@contextmanager
def connected(get: Get, deadline: Deadline, *, only_lists: bool) -> Iterator[Clients]:
    """Give clients that are closed afterwards.

    :raises InventoryError: nobody can sign in by these options.
    """
    cloud, identity = read_connection(get)
    clients = Clients(cloud, _credential(identity, cloud), deadline, only_lists=only_lists)
    try:
        yield clients
    finally:
        clients.close()


def _from_environment(name: str) -> str | None:
    return os.environ.get(_ENVIRONMENT[name]) if name in _ENVIRONMENT else None


def _credential(identity: Identity, cloud: Cloud) -> Any:
    try:
        return make_credential(identity, cloud)
    except ImportError:
        raise InventoryError(
            "the Python package azure-identity is missing where Ansible runs; install what the collection's "
            "requirements.txt lists."
        ) from None
    except ValueError as error:
        raise InventoryError(f"auth_source: {identity.auth_source} cannot be used: {error}") from error
