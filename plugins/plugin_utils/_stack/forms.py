# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forms of ``hpcai_stack``: its keys and values, each checked alone."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ...module_utils._node.forms import (
    Form,
    Malformed,
    boolean,
    choice,
    integer,
    list_of,
    mapping_of,
    matching,
    number,
    optional,
    or_empty,
    record,
    text,
    wrong,
)
from ...module_utils._node.sku.lookup import canonical_size
from . import model
from .model import ACCESS, REGULAR, SHARED_HOMES, SPOT, SUBNETS, Image, PurchasePlan

_T = TypeVar("_T")

GUID_TEXT = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
LARGEST_SET = 1000
"""Instances of a Uniform scale set with an image of the marketplace or a gallery."""


def keys_of(made: Callable[..., _T] | None, keys: Mapping[str, Form[Any]], required: Iterable[str] = ()) -> Form[Any]:
    """Return the form of a mapping with known keys. An unknown key is refused with the most similar known one.

    :param made: makes the result of the checked values; None for a dict.
    """
    form = record(keys, tuple(required), null_is_absent=True)

    def check(path: str, value: Any) -> Any:
        for key in value if isinstance(value, Mapping) else ():
            if key not in keys:
                near = difflib.get_close_matches(str(key), list(keys), n=1, cutoff=0)[0]
                raise Malformed(
                    f"{path}.{key} is unknown; the nearest known key is {near}. Known are {', '.join(keys)}."
                )
        checked = form(path, value)
        return made(**checked) if made else checked

    return check


def _as_id(kind: str) -> Form[str]:
    """Return the form of a resource id of one kind, or an empty text."""
    example = f"/subscriptions/ID/resourceGroups/GROUP/providers/{kind}/NAME"
    if kind == "Microsoft.Resources/resourceGroups":
        example = "/subscriptions/ID/resourceGroups/GROUP"
    pattern = example.replace("ID", GUID_TEXT).replace("GROUP", r"[\w.()-]+").replace("NAME", r"[\w.-]+")
    return or_empty(matching(re.compile(pattern, re.IGNORECASE), f"a resource id such as {example}"))


def network_range(path: str, value: Any) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except (ValueError, TypeError):
        raise wrong(path, "an IPv4 range such as 10.42.0.0/16, without host bits", value) from None


def _address(path: str, value: Any) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except (ValueError, TypeError):
        raise wrong(path, "an IPv4 address", value) from None


_MARKETPLACE = re.compile(r"(?P<publisher>[\w.-]+):(?P<offer>[\w.-]+):(?P<sku>[\w.-]+):(?P<version>[0-9]+(\.[0-9]+)+)")
_GALLERY = re.compile(
    rf"/subscriptions/{GUID_TEXT}/resourceGroups/[\w.()-]+/providers/Microsoft\.Compute/galleries/[\w.]+/images/"
    r"[\w.-]+/versions/[0-9]+\.[0-9]+\.[0-9]+",
    re.IGNORECASE,
)


def image(path: str, value: Any) -> Image:
    """An image by exact version: PUBLISHER:OFFER:SKU:VERSION, or the id of a version in a gallery."""
    found = _MARKETPLACE.fullmatch(value) if isinstance(value, str) else None
    if found:
        publisher, offer, sku, version = found.group("publisher", "offer", "sku", "version")
        return Image(publisher=publisher, offer=offer, sku=sku, version=version)
    if isinstance(value, str) and _GALLERY.fullmatch(value):
        return Image(id=value)
    if isinstance(value, str) and value.lower().endswith((":latest", "/latest")):
        raise Malformed(f"{path}: {value} moves to another image at any time. Give an exact version.")
    raise wrong(path, "PUBLISHER:OFFER:SKU:VERSION, or the resource id of a version in a gallery", value)


_PLAN = matching(re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+"), "PUBLISHER:PRODUCT:NAME")


def _plan(path: str, value: Any) -> PurchasePlan:
    return PurchasePlan(*_PLAN(path, value).split(":"))


_stack_name = matching(
    r"[a-z](?:-?[a-z0-9]){1,29}", "2 to 30 lower-case letters, digits and single hyphens, first a letter"
)
_set_name = matching(r"[a-z](?:-?[a-z0-9]){0,29}", "up to 30 lower-case letters, digits and single hyphens")
_vault_name = matching(r"[a-zA-Z](?:-?[a-zA-Z0-9]){2,23}", "3 to 24 letters, digits and single hyphens, first a letter")
_account_name = matching(r"[a-z0-9]{3,24}", "3 to 24 lower-case letters and digits")
_container = matching(r"[a-z0-9](?:-?[a-z0-9]){2,62}", "3 to 63 lower-case letters, digits and single hyphens")
_subnet = matching(r"[\w./-]+", "a range such as 10.42.0.0/24; with network.adopt, a subnet's name")
_key = matching(
    r"ssh-(rsa|ed25519) [A-Za-z0-9+/=]+( [^\r\n]*)?",
    "a public key in OpenSSH's format; Azure accepts only ssh-rsa and ssh-ed25519",
)
_tag = matching(r"[^<>%&\\?/]{1,512}", "the name of a tag")
_days = integer(1, 365)
_seconds = number(0, above=True)
_elastic = keys_of(
    None,
    {
        "min": integer(0, LARGEST_SET),
        "idle_s": _seconds,
        "boot_s": _seconds,
        "order_s": _seconds,
        "fallback": list_of(_set_name),
        "price": number(0),
    },
)


def _size(path: str, value: Any) -> str:
    return canonical_size(text(path, value))


def _number_or_minus_one(path: str, value: Any) -> float:
    return -1.0 if value in (-1, "-1") else float(number(above=True)(path, value))


def _zone(path: str, value: Any) -> str:
    return "" if value == "" else choice("1", "2", "3")(path, str(value))


_MACHINE: dict[str, Form[Any]] = {"vm_size": _size, "image": image, "plan": _plan, "os_disk_gib": integer(30, 4095)}
STACK = keys_of(
    None,
    {
        "name": _stack_name,
        "location": matching(r"[a-z0-9]+", "a region in Azure's short form, such as swedencentral"),
        "ssh_public_keys": list_of(_key, 1),
        "admin_user": matching(r"[a-z][a-z0-9_-]{0,31}", "the name of a Linux user"),
        "image": image,
        "plan": _plan,
        # A deployment would evaluate a text in brackets as an expression.
        "tags": mapping_of(
            _tag, matching(r"(?!\[).{0,256}", "a text of up to 256 characters that does not begin with [")
        ),
        "group": keys_of(
            model.Group,
            {
                "name": or_empty(matching(r"[\w.()-]{1,89}[\w()-]", "the name of a resource group")),
                "adopt": _as_id("Microsoft.Resources/resourceGroups"),
            },
        ),
        "network": keys_of(
            model.Network,
            {
                "adopt": _as_id("Microsoft.Network/virtualNetworks"),
                "address_space": list_of(network_range, 1),
                "subnets": keys_of(None, dict.fromkeys(SUBNETS, _subnet)),
                "nat": boolean,
                "access": or_empty(choice(*ACCESS)),
                "ssh_from": list_of(network_range),
            },
        ),
        "identities": keys_of(
            model.Identities,
            {
                "nodes": _as_id("Microsoft.ManagedIdentity/userAssignedIdentities"),
                "controller": _as_id("Microsoft.ManagedIdentity/userAssignedIdentities"),
                "assign_roles": boolean,
            },
        ),
        "key_vault": keys_of(
            model.KeyVault,
            {
                "name": or_empty(_vault_name),
                "adopt": _as_id("Microsoft.KeyVault/vaults"),
                "secret": matching(r"[0-9A-Za-z-]{1,127}", "letters, digits and hyphens"),
                "soft_delete_days": integer(7, 90),
                "allow_from": list_of(network_range),
            },
        ),
        "storage": keys_of(
            model.Storage,
            {
                "name": or_empty(_account_name),
                "adopt": _as_id("Microsoft.Storage/storageAccounts"),
                "containers": list_of(_container),
                "redundancy": choice("LRS", "ZRS", "GRS", "GZRS", "RAGRS", "RAGZRS"),
                "soft_delete_days": _days,
                "allow_from": list_of(network_range),
            },
        ),
        "shared_home": keys_of(
            model.SharedHome,
            {
                "source": choice(*SHARED_HOMES),
                "size_gib": integer(32, 32767),
                "name": or_empty(_account_name),
                "adopt": _as_id("Microsoft.StorageCache/amlFilesystems"),
                "dns_zone": _as_id("Microsoft.Network/privateDnsZones"),
            },
        ),
        "controller": keys_of(None, {**_MACHINE, "private_ip": or_empty(_address)}),
        "login": keys_of(None, {**_MACHINE, "count": integer(0, 9)}),
        "scale_sets": list_of(
            keys_of(
                None,
                {
                    **_MACHINE,
                    "name": _set_name,
                    "max": integer(1, LARGEST_SET),
                    "priority": choice(REGULAR, SPOT),
                    "max_price": _number_or_minus_one,
                    "zone": _zone,
                    "single_placement_group": optional(boolean),
                    "ephemeral_os_disk": boolean,
                    "health_extension": boolean,
                    "capacity_reservation_group": _as_id("Microsoft.Compute/capacityReservationGroups"),
                    "elastic": _elastic,
                },
                ["vm_size", "max"],
            ),
            1,
        ),
    },
    ["location", "ssh_public_keys", "scale_sets"],
)
