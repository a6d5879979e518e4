# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a source, all checked before the first request."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .credentials import Cloud, Identity, check_identity, find_cloud
from .errors import InventoryError
from .hosts import PUBLIC, AddressChoice, check_name_choices, compile_query, make_address_choice
from .selection import Selection

FAIL = "fail"
WARN = "warn"
USE_CACHE = "use_cache"

_SUBSCRIPTION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# The placeholder in the shipped inventory, which users replace with their own id.
_PLACEHOLDER = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Options:
    """All options of a source."""

    selection: Selection
    cloud: Cloud
    identity: Identity
    connection: AddressChoice
    hostnames: tuple[str, ...]
    wants: Callable[[Mapping[str, Any]], bool]
    on_error: str
    min_hosts: int
    max_drop_percent: float | None
    timeout: float
    max_concurrency: int

    @property
    def needs_cache(self) -> str | None:
        """Return the option that requires a cache that outlives the run, or None."""
        if self.on_error == USE_CACHE:
            return "on_error: use_cache"
        return "max_drop_percent" if self.max_drop_percent is not None else None


def read_options(get: Callable[[str], Any]) -> Options:
    """Check and convert the options.

    :param get: returns the templated value of an option.
    :raises InventoryError: an option is invalid. The message names it.
    """
    cloud, identity = read_connection(get)
    connection = make_address_choice(_texts(get("connect_with")), get("connect_subnet"), get("connect_nic"))
    hostnames = _texts(get("hostnames"))
    check_name_choices(hostnames)
    public = bool(get("list_public_addresses")) or PUBLIC in connection.choices or PUBLIC in hostnames
    return Options(
        selection=Selection(
            subscription_ids=_subscriptions(get("subscription_ids")),
            resource_groups=_texts(get("resource_groups")),
            scale_sets=_scale_sets(get("scale_sets")),
            locations=_texts(get("locations")),
            tags=_tags(get("tags")),
            include_vms=get("include_vms"),
            role_tag=get("role_tag"),
            public_addresses=public,
            virtual_networks=bool(get("list_virtual_networks")),
        ),
        cloud=cloud,
        identity=identity,
        connection=connection,
        hostnames=hostnames,
        wants=compile_query(get("query")),
        on_error=get("on_error"),
        min_hosts=_at_least("min_hosts", get("min_hosts"), 0),
        max_drop_percent=_percent(get("max_drop_percent")),
        timeout=_at_least("timeout", get("timeout"), 1),
        max_concurrency=_at_least("max_concurrency", get("max_concurrency"), 1),
    )


def check_names(given: Iterable[str], known: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse unknown options, because a misspelt filter would have no effect.

    :param known: the definitions of the options, by their names.
    :raises InventoryError: an option is unknown. The message names the most similar one.
    """
    names = set(known).union(*(definition.get("aliases") or () for definition in known.values()))
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), sorted(names), n=1, cutoff=0)
            raise InventoryError(f"there is no option {name}; the most similar one is {near[0]}.")


def read_connection(get: Callable[[str], Any]) -> tuple[Cloud, Identity]:
    """Check and convert the options for endpoint and credentials.

    :param get: returns the templated value of an option.
    :raises InventoryError: an option is invalid. The message names it.
    """
    cloud = find_cloud(get("cloud"), get("endpoint"))
    identity = Identity(
        auth_source=get("auth_source"),
        tenant_id=get("tenant_id"),
        client_id=get("client_id"),
        client_secret=get("client_secret"),
        certificate_path=get("certificate_path"),
        token=get("token"),
    )
    check_identity(identity, cloud)
    return cloud, identity


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for value in values or () if (text := str(value).strip())))


def _subscriptions(values: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.lower() for text in _texts(values)))
    if not found:
        raise InventoryError(
            "subscription_ids: the list is empty; set the option, or the environment variable "
            "HPCAI_AZURE_SUBSCRIPTION_IDS or AZURE_SUBSCRIPTION_ID."
        )
    for subscription in found:
        if not _SUBSCRIPTION.fullmatch(subscription):
            raise InventoryError(
                f"subscription_ids: {subscription!r} is not a subscription id; `az account list` shows yours."
            )
        if subscription == _PLACEHOLDER:
            raise InventoryError(
                f"subscription_ids: {subscription} is a placeholder; replace it with your id (`az account list`)."
            )
    return found


def _scale_sets(values: Any) -> tuple[str, ...]:
    found = _texts(values)
    for pattern in found:
        group, slash, name = pattern.partition("/")
        if slash and (not group or not name or "/" in name or set(group) & set("*?[")):
            raise InventoryError(
                f"scale_sets: {pattern!r} is neither NAME nor RESOURCE-GROUP/NAME; only NAME may contain wildcards."
            )
    return found


def _tags(stated: Any) -> dict[str, tuple[str, ...] | None]:
    tags: dict[str, tuple[str, ...] | None] = {}
    for name, value in (stated or {}).items():
        if value is None:
            tags[str(name)] = None
        elif isinstance(value, (list, tuple)):
            tags[str(name)] = tuple(_tag_text(name, item) for item in value)
        else:
            tags[str(name)] = (_tag_text(name, value),)
    return tags


def _tag_text(name: Any, value: Any) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        # YAML reads an unquoted `yes` as true, but tag values are text.
        raise InventoryError(f"tags: {name}: {value!r} is not a text; put it in quotes.")
    return str(value)


def _at_least(name: str, value: Any, least: int) -> int:
    if int(value) < least:
        raise InventoryError(f"{name}: {value} is less than {least}.")
    return int(value)


def _percent(value: Any) -> float | None:
    if value is None:
        return None
    if not 0 <= float(value) <= 100:
        raise InventoryError(f"max_drop_percent: {value} is not between 0 and 100.")
    return float(value)
