# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsing of ``hpcai_stack``: checks every value, fills in every default, and refuses what Azure would refuse later."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...module_utils._node.forms import Malformed, guid
from . import model
from .addresses import RESERVED, controller_address, network_of
from .forms import STACK
from .model import (
    AMLFS,
    AZURE_FILES,
    COMPUTE,
    ENDPOINTS,
    NAME,
    SPOT,
    Image,
    Stack,
    needs_one_placement_group,
    stack_uuid,
)

LARGEST_PLACEMENT_GROUP = 100
"""Instances in one placement group (Azure's documentation of placement groups)."""
_SMALLEST_PREMIUM_SHARE_GIB = 100


def stack_of(stated: Any, subscription: str, cloud: str = "AzureCloud") -> Stack:
    """Return the checked stack with all defaults.

    :param stated: the value of ``hpcai_stack``.
    :param subscription: id of the subscription.
    :param cloud: name of the cloud that it is in.
    :raises Malformed: a key is unknown, missing or invalid; the message is one line with its place.
    """
    guid("subscription_id", subscription)
    given = STACK(NAME, stated)
    name = given.get("name", "hpcai")
    group = given.get("group", model.Group())
    group = replace(group, name=group.adopt.rsplit("/", 1)[-1] if group.adopt else group.name or name)
    _check_same_subscription("group", group.adopt, subscription)
    suffix = stack_uuid(subscription, group.name, name).hex[:8]
    images = _Images(given)
    network = given.get("network", model.Network())
    # Azure connects machines only to networks of their own subscription.
    _check_same_subscription("network", network.adopt, subscription)
    network = network_of(network)
    controller = model.Controller(**images.of(given.get("controller", {}), f"{NAME}.controller"))
    login = model.Login(**images.of(given.get("login", {}), f"{NAME}.login"))
    # Names of vaults and accounts are unique in Azure, so the default contains a part of the stack's own id.
    short = re.sub("[^a-z0-9]", "", name.lower())
    stack = Stack(
        subscription=subscription.lower(),
        suffixes=model.SUFFIXES[cloud],
        name=name,
        location=given["location"],
        ssh_public_keys=given["ssh_public_keys"],
        admin_user=given.get("admin_user", "azureuser"),
        tags=given.get("tags", {}),
        group=group,
        network=network,
        identities=given.get("identities", model.Identities()),
        key_vault=_named(given.get("key_vault", model.KeyVault()), f"{short[:15]}-{suffix}"),
        storage=_named(given.get("storage", model.Storage()), f"{short[:15]}{suffix}"),
        shared_home=_shared_home(
            given.get("shared_home", model.SharedHome()), f"{short[:11]}home{suffix}", model.SUFFIXES[cloud].share_zone
        ),
        controller=replace(controller, private_ip=controller_address(controller, network)),
        login=login,
        scale_sets=tuple(
            _scale_set(f"{NAME}.scale_sets[{position}]", one, images)
            for position, one in enumerate(given["scale_sets"])
        ),
    )
    _check(stack)
    return stack


class _Images:
    """Images with their defaults: a machine's own, else the stack's, else the first scale set's."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        first: Mapping[str, Any] = next((one for one in given["scale_sets"] if one.get("image")), {})
        self._default = _image(given, NAME) or _image(first, f"{NAME}.scale_sets")

    def of(self, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the keys of a machine with its image in place of ``image`` and ``plan``."""
        found = _image(given, path) or self._default
        if not found:
            raise Malformed(f"{path} lacks image, and {NAME}.image, the default for all machines, is missing too.")
        return {**{key: value for key, value in given.items() if key != "plan"}, "image": found}


def _image(given: Mapping[str, Any], path: str) -> Image | None:
    """Return the image of a mapping with its plan; None if it states no image."""
    found: Image | None = given.get("image")
    if found is None and "plan" in given:
        raise Malformed(f"{path}.plan is the plan of an image, and {path}.image is missing. State both.")
    return replace(found, plan=given.get("plan")) if found else None


def _named(one: Any, default: str) -> Any:
    if one.adopt:
        return replace(one, name=one.adopt.rsplit("/", 1)[-1])
    return one if one.name else replace(one, name=default)


def _shared_home(home: model.SharedHome, default: str, zone: str) -> model.SharedHome:
    if (home.source == AMLFS) != bool(home.adopt):
        raise Malformed(
            f"{NAME}.shared_home: source {AMLFS} needs adopt, the id of an existing file system, and only it has this "
            "key."
        )
    if home.dns_zone and home.source != AZURE_FILES:
        raise Malformed(f"{NAME}.shared_home.dns_zone: only source {AZURE_FILES} has this key. Remove it.")
    if home.dns_zone and home.dns_zone.rsplit("/", 1)[-1].lower() != zone:
        raise Malformed(
            f"{NAME}.shared_home.dns_zone: the name of the share is in the zone {zone}. Give its id, not "
            f"{home.dns_zone}."
        )
    if home.source == AZURE_FILES:
        if home.size_gib < _SMALLEST_PREMIUM_SHARE_GIB:
            raise Malformed(
                f"{NAME}.shared_home.size_gib: a premium share has at least {_SMALLEST_PREMIUM_SHARE_GIB} GiB, not "
                f"{home.size_gib}."
            )
        return replace(home, name=home.name or default)
    return home


def _scale_set(path: str, given: Mapping[str, Any], images: _Images) -> model.ScaleSet:
    one_group = given.get("single_placement_group")
    needed = needs_one_placement_group(given["vm_size"])
    if one_group is None:
        one_group = needed
    found = model.ScaleSet(**{**images.of(given, path), "single_placement_group": one_group})
    if needed and not one_group:
        raise Malformed(
            f"{path}.single_placement_group: {found.vm_size} has InfiniBand, which connects only instances of one "
            "placement group. Remove the key."
        )
    if one_group and found.max > LARGEST_PLACEMENT_GROUP:
        raise Malformed(
            f"{path}.max: one placement group has at most {LARGEST_PLACEMENT_GROUP} instances, not {found.max}. Use "
            "several scale sets."
        )
    if found.max_price != -1 and not found.is_spot:
        raise Malformed(f"{path}.max_price: only spot instances have one. Set priority: {SPOT}, or remove it.")
    if found.capacity_reservation_group and found.is_spot:
        raise Malformed(f"{path}.capacity_reservation_group: spot instances cannot use one.")
    if found.capacity_reservation_group and one_group:
        # https://learn.microsoft.com/azure/virtual-machines/capacity-reservation-associate-virtual-machine-scale-set
        advice = (
            f"but {found.vm_size} has InfiniBand, which requires one placement group. Remove the key."
            if needed
            else "so set single_placement_group: false, or remove the key."
        )
        raise Malformed(
            f"{path}.capacity_reservation_group: Azure gives no reserved capacity to a set with a single placement "
            f"group, {advice}"
        )
    if found.elastic and found.elastic.get("min", 0) > found.max:
        raise Malformed(f"{path}.elastic.min is {found.elastic['min']}, which is more than max ({found.max}).")
    return found


def _check(stack: Stack) -> None:
    small = [item for item in stack.storage.allow_from if item.endswith("/31")]
    if small:
        raise Malformed(f"{NAME}.storage.allow_from: Azure Storage accepts no /31 ({small[0]}). Give single addresses.")
    names = [one.name for one in stack.scale_sets]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise Malformed(f"{NAME}.scale_sets: several are named {', '.join(double)}. Give each another name.")
    for one in stack.scale_sets:
        unknown = [name for name in (one.elastic or {}).get("fallback", ()) if name not in names or name == one.name]
        if unknown:
            raise Malformed(
                f"{NAME}.scale_sets: {one.name}.elastic.fallback names {unknown[0]}, which is no other scale set. "
                f"Scale sets are {', '.join(names)}."
            )
    if stack.network.adopt and stack.shared_home.source == AZURE_FILES and ENDPOINTS not in stack.network.subnets:
        raise Malformed(f"{NAME}.network.subnets lacks {ENDPOINTS}, the subnet for the share's private endpoint.")
    if not stack.network.adopt:
        subnet = ipaddress.IPv4Network(stack.network.subnets[COMPUTE])
        room = subnet.num_addresses - RESERVED
        if stack.addresses_needed > room:
            raise Malformed(
                f"{NAME}.network.subnets.{COMPUTE}: {subnet} has {room} addresses, and the scale sets may have "
                f"{stack.addresses_needed} instances. Enlarge it."
            )


def _check_same_subscription(key: str, adopted: str, subscription: str) -> None:
    if adopted and adopted.split("/")[2].lower() != subscription.lower():
        raise Malformed(f"{NAME}.{key}.adopt: {adopted} is not in the subscription {subscription}.")
