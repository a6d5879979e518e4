# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Comparison of what the model sets with what Azure has, and what to send about a difference. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from . import resource as kinds
from .resource import Resource, address_of

_KEYS = ("name", "id", "service", "value", "path", "lun")
"""What identifies an entry of a list, the first of them that the model sets."""
_EXACT = frozenset({"userData", "keyData"})
"""Fields in which the case of letters matters. Azure changes it in ids, enumerations and regions."""
_SHARED = frozenset({"addressPrefixes"})
"""Lists to which others may add entries, such as another address range of the network."""
_UNITS = frozenset({"imageReference", "billingProfile"})
"""What a request about a machine contains exactly as the model has it, without what Azure adds to it."""
_IP_RULES = "properties.networkAcls.ipRules"
_IDENTITIES = "userAssignedIdentities"
_NO_IDENTITY = "none"
_WITHOUT_EFFECT = ("NetworkSourceDeleted", "Failed")
"""States of a storage account's rule for a subnet: the rule is there, and has no effect until it is sent again."""
_READ_ONLY = frozenset(
    {"etag", "state", "systemData", "provisioningState", "resourceGuid", "ipConfigurationProfiles", "purpose"}
)
# What Azure derives, by type: these fields of "properties", and of the properties of the entries of a list.
_DERIVED: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    kinds.NSG: (
        frozenset({"defaultSecurityRules", "networkInterfaces", "subnets", "flowLogs"}),
        frozenset(),
    ),
    kinds.VNET: (
        frozenset({"defaultPublicNatGateway"}),
        frozenset(
            {
                "ipConfigurations",
                "privateEndpoints",
                "resourceNavigationLinks",
                "serviceAssociationLinks",
                "peeringState",
                "peeringSyncLevel",
                "remoteVirtualNetworkAddressSpace",
                "remoteVirtualNetworkEncryption",
            }
        ),
    ),
    kinds.NAT: (frozenset({"subnets"}), frozenset()),
    kinds.PUBLIC_ADDRESS: (frozenset({"ipConfiguration", "natGateway", "ipAddress"}), frozenset()),
    kinds.BASTION_HOST: (frozenset({"dnsName"}), frozenset()),
    kinds.NIC: (
        frozenset(
            {
                "macAddress",
                "virtualMachine",
                "hostedWorkloads",
                "vnetEncryptionSupported",
                "tapConfigurations",
                "privateEndpoint",
                "privateLinkService",
            }
        ),
        frozenset({"privateLinkConnectionProperties"}),
    ),
    kinds.ENDPOINT: (frozenset({"networkInterfaces", "customDnsConfigs"}), frozenset()),
}


@dataclass(frozen=True)
class Difference:
    """A field that differs.

    :ivar path: its dotted path; entries of lists by name: ``properties.securityRules[hpcai-ssh].properties.access``.
    :ivar before: Azure's value; None if absent.
    :ivar after: the model's value; None if the field is removed.
    """

    path: str
    before: Any
    after: Any


def differences(resource: Resource, found: Mapping[str, Any]) -> list[Difference]:
    """Return the fields that the model sets and Azure has differently. Nothing else is compared."""
    result = list(_compare("", resource.body, found, resource))
    result += [
        Difference(f"{_IP_RULES}[{item['value']}]", item["value"], None)
        for item in _at(found, _IP_RULES) or []
        if address_of(item) in resource.withdrawn
    ]
    if resource.owned:
        names = {str(item["name"]).lower() for item in _at(resource.body, resource.owned) or []}
        result += [
            Difference(f"{resource.owned}[{item['name']}]", item.get("properties"), None)
            for item in _at(found, resource.owned) or []
            if _is_ours(item, resource.prefix) and str(item["name"]).lower() not in names
        ]
    return result


def merged(resource: Resource, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Azure has, with what the model sets: foreign tags, rules and subnets stay as they are."""
    have = writable(resource.kind, found)
    want = dict(_without(resource.body, resource.once))
    result: dict[str, Any] = _merge(have, want)
    if resource.owned:
        names = {str(item["name"]).lower() for item in _at(resource.body, resource.owned) or []}
        *parents, last = resource.owned.split(".")
        parent = _at(result, ".".join(parents))
        parent[last] = [
            item
            for item in parent.get(last) or []
            if not _is_ours(item, resource.prefix) or str(item["name"]).lower() in names
        ]
    return result


def patch(resource: Resource, found: Mapping[str, Any], changed: list[Difference]) -> dict[str, Any]:
    """Return the smallest request that makes these fields as the model has them.

    Tags and lists are complete, because a request replaces them. For a machine, only the branch that differs is sent;
    for others, the complete property of the first level, because their interfaces replace it.
    """
    complete = _merge(_strip(found), dict(_without(resource.body, resource.once)))
    if resource.withdrawn and _at(complete, _IP_RULES):
        rules = _at(complete, "properties.networkAcls")
        rules["ipRules"] = [item for item in rules["ipRules"] if address_of(item) not in resource.withdrawn]
    body: dict[str, Any] = {}
    for one in changed:
        path = one.path.split("[", maxsplit=1)[0].split(".")
        if resource.kind not in kinds.MACHINES:
            path = path[:2]
        if path[0] in ("tags", "identity"):
            path = path[:1]
        unit = next((number for number, name in enumerate(path) if name in _UNITS), None)
        if unit is not None:
            path = path[: unit + 1]
        value: Any = complete if unit is None else resource.body
        target = body
        for position, name in enumerate(path):
            value = value[name]
            if position == len(path) - 1:
                target[name] = deepcopy(value)
            else:
                target = target.setdefault(name, {})
    return body


def _compare(path: str, want: Any, have: Any, resource: Resource) -> Iterator[Difference]:
    if path in resource.once:
        return
    if have is None:
        have = resource.defaults.get(path)
    if isinstance(want, Mapping) and (have is None or isinstance(have, Mapping)):
        there = {str(key).lower(): value for key, value in (have or {}).items()}
        if path.endswith(_IDENTITIES):
            if not {str(key).lower() for key in want} <= there.keys():
                yield Difference(path, sorted(have or {}), sorted(want))
            return
        for key, value in want.items():
            yield from _compare(f"{path}.{key}" if path else str(key), value, there.get(str(key).lower()), resource)
    elif isinstance(want, list) and want and isinstance(want[0], Mapping):
        yield from _compare_lists(path, want, have or [], resource)
    elif not _equal(path, want, have):
        yield Difference(path, have, want)


def _compare_lists(path: str, want: list[Any], have: Any, resource: Resource) -> Iterator[Difference]:
    key = _key_of(want)
    if key is None or not isinstance(have, list):
        for position, item in enumerate(want):
            other = have[position] if isinstance(have, list) and position < len(have) else None
            yield from _compare(f"{path}[{position}]", item, other, resource)
        return
    there = {str(item.get(key)).lower(): item for item in have}
    for item in want:
        other = there.get(str(item[key]).lower())
        where = f"{path}[{_short(item[key])}]"
        if other is None:
            yield Difference(where, None, item.get("properties", item))
        else:
            yield from _compare(where, item, other, resource)
            if other.get("state") in _WITHOUT_EFFECT:
                yield Difference(f"{where}.state", other["state"], "Succeeded")


def _equal(path: str, want: Any, have: Any) -> bool:
    if have is None or want == []:
        # Azure leaves out what is empty or off. An empty list demands nothing: its entries belong to others.
        return want in (False, [], {}, "", None)
    name = path.rsplit(".", 1)[-1]
    if path == "identity.type":
        return _types(want).keys() <= _types(have).keys()
    if isinstance(want, list) and isinstance(have, list):
        wanted, there = ({str(item).lower() for item in items} for items in (want, have))
        return wanted <= there if name in _SHARED else wanted == there
    if isinstance(want, bool) or isinstance(have, bool):
        return want is have or str(want).lower() == str(have).lower()
    if isinstance(want, (int, float)) and isinstance(have, (int, float)):
        return want == have
    if path.startswith("tags.") or name in _EXACT:
        return str(want) == str(have)
    if name == "location":
        return _folded(want) == _folded(have)
    return str(want).lower() == str(have).lower()


def _folded(location: Any) -> str:
    """Return a region's name in Azure's short form: ``Sweden Central`` becomes ``swedencentral``."""
    return str(location).replace(" ", "").lower()


def _key_of(items: list[Any]) -> str | None:
    return next((key for key in _KEYS if all(key in item for item in items)), None)


def _short(key: Any) -> str:
    return str(key).rsplit("/", 1)[-1]


def _is_ours(item: Mapping[str, Any], prefix: str) -> bool:
    return str(item.get("name", "")).lower().startswith(prefix)


def _at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def _without(body: Mapping[str, Any], once: frozenset[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a body without the fields that are sent only when the resource is made."""
    for key, value in body.items():
        where = f"{path}.{key}" if path else key
        if where in once:
            continue
        yield key, dict(_without(value, once, where)) if isinstance(value, Mapping) and value else value


def _merge(have: Any, want: Any, name: str = "") -> Any:
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        result = dict(have)
        spelt = {str(key).lower(): key for key in have}
        for key, value in want.items():
            known = spelt.get(str(key).lower(), key)
            result[known] = _merge(result.get(known), value, str(key))
        return _identity(have, result) if name == "identity" else result
    if isinstance(want, list) and isinstance(have, list):
        return _merge_lists(have, want, name)
    return want


def _types(stated: Any) -> dict[str, str]:
    """Return the types of identities in a text such as ``SystemAssigned, UserAssigned``, by lower-case names."""
    found = {one.strip().lower(): one.strip() for one in str(stated).split(",")}
    return {key: value for key, value in found.items() if key != _NO_IDENTITY}


def _identity(have: Mapping[str, Any], both: Mapping[str, Any]) -> dict[str, Any]:
    """Return a machine's merged identity without what Azure derives.

    A type that others have added stays: Azure Policy adds one for its agents, and would add it again.
    """
    types = {**_types(have.get("type")), **_types(both["type"])}
    return {"type": ", ".join(types[key] for key in sorted(types)), _IDENTITIES: {one: {} for one in both[_IDENTITIES]}}


def _merge_lists(have: list[Any], want: list[Any], name: str) -> list[Any]:
    if not want:
        return have
    key = _key_of(want) if isinstance(want[0], Mapping) else None
    if key is not None:
        wanted = {str(item[key]).lower(): item for item in want}
        kept = [_merge(item, wanted.pop(str(item.get(key)).lower(), item)) for item in have]
        return [*kept, *wanted.values()]
    if name in _SHARED:
        there = {str(item).lower() for item in have}
        return [*have, *(item for item in want if str(item).lower() not in there)]
    return want


def _strip(body: Any) -> Any:
    """Return a body without what Azure sets itself."""
    if isinstance(body, Mapping):
        # A resource has an id and a type; elsewhere, a type is a setting.
        derived = _READ_ONLY | {"type"} if "id" in body else _READ_ONLY
        return {
            # Tags have names of users, which may be those of what Azure sets.
            key: value if key == "tags" else _strip(value)
            for key, value in body.items()
            if key not in derived and value is not None
        }
    return [_strip(item) for item in body] if isinstance(body, list) else body


def writable(kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return Azure's answer about a resource as it can be sent back."""
    body = {key: value for key, value in _strip(found).items() if key not in ("id", "name")}
    derived, below = _DERIVED.get(kind, (frozenset(), frozenset()))
    properties = {key: value for key, value in body.get("properties", {}).items() if key not in derived}
    for key, value in properties.items():
        if isinstance(value, list):
            properties[key] = [_entry(item, below) for item in value]
    return {**body, "properties": properties} if properties else body


def _entry(item: Any, derived: frozenset[str]) -> Any:
    """Return an entry of a list without what Azure derives. A named entry loses its id, which its name implies."""
    if not isinstance(item, Mapping) or "properties" not in item:
        return item
    properties = {key: value for key, value in item["properties"].items() if key not in derived}
    return {
        **{key: value for key, value in item.items() if key != "id" or "name" not in item},
        "properties": properties,
    }
