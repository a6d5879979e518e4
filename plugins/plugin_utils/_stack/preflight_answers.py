# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Single answers of Azure, read and converted to the plain data of ``preflight_facts``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from .._azure.clients import Clients, read_list
from .._azure.errors import UnreadableAnswer
from .._azure.images import plan_words
from .._azure.resources import name_of, resource_group_of, segment, subscription_of
from . import preflight_facts as facts_of
from . import resource as kinds
from .data import Assignment
from .preflight_facts import folded, number_of
from .preflight_json import ResourceManager
from .preflight_needs import Needs

AUTHORIZATION = "providers/Microsoft.Authorization"
_VERSION_OF_PERMISSIONS, _VERSION_OF_PROVIDERS, _VERSION_OF_TERMS = "2022-04-01", "2021-04-01", "2021-01-01"


def is_missing(error: BaseException) -> bool:
    """Say whether Azure answered that something does not exist; a proxy's 404 has no such code."""
    code = str(getattr(getattr(error, "error", None), "code", None) or "")
    return getattr(error, "status_code", None) == 404 and code.lower().endswith("notfound")


def usage_of(row: Any) -> facts_of.Usage:
    """Return a row of the quota."""
    name = row.name.value if row.name else ""
    return facts_of.Usage(str(name or ""), number_of(row.current_value), number_of(row.limit))


def skus_of(compute: Any, needs: Needs) -> list[facts_of.Sku]:
    """Return the VM sizes of the region that the cluster needs, or another one if it has none of them."""
    wanted = {one.vm_size.lower() for one in needs.machines}
    listed = read_list(compute.resource_skus.list(filter=f"location eq '{needs.location}'"), _sku)
    machines = [sku for sku in listed if sku]
    # The others only say that the list is not empty, which means that the location is spelt right.
    return [sku for sku in machines if sku.name.lower() in wanted] or machines[:1]


def _sku(item: Any) -> facts_of.Sku | None:
    if str(item.resource_type).lower() != "virtualmachines":
        return None
    return facts_of.Sku(
        name=str(item.name),
        family=str(item.family or ""),
        zones=tuple(sorted({zone for place in item.location_info or () for zone in place.zones or ()})),
        capabilities={str(one.name): str(one.value) for one in item.capabilities or ()},
        restrictions=tuple(
            facts_of.Restriction(
                _text(one.type),
                _text(one.reason_code),
                tuple((one.restriction_info.zones if one.restriction_info else None) or ()),
            )
            for one in item.restrictions or ()
        ),
    )


def _text(value: Any) -> str:
    """Return the text of a value, also of the SDK's enumerations."""
    return str(getattr(value, "value", value) or "")


def image_reader(clients: Clients, needs: Needs, image: str) -> Callable[[], facts_of.Image] | None:
    """Return the function that reads an image; None if its kind is not known."""
    if not image.startswith("/"):
        return partial(_marketplace_image, clients.compute(needs.subscription), needs.location, image)
    subscription, group = subscription_of(image), resource_group_of(image)
    gallery, definition = segment(image, "galleries"), segment(image, "images")
    if not subscription or not group or not definition:
        return None
    compute = clients.compute(subscription)
    if not gallery:
        return partial(_managed_image, compute, group, definition)
    version = segment(image, "versions")
    return partial(_gallery_image, compute, group, gallery, definition, version) if version else None


def _managed_image(compute: Any, group: str, name: str) -> facts_of.Image:
    found = compute.images.get(group, name)
    return facts_of.Image(_text(found.hyper_v_generation), regions=frozenset([folded(found.location)]))


def _marketplace_image(compute: Any, location: str, image: str) -> facts_of.Image:
    found = compute.virtual_machine_images.get(location, *image.split(":"))
    return facts_of.Image(_text(found.hyper_v_generation), _text(found.architecture), plan_words(found.plan))


def _gallery_image(compute: Any, group: str, gallery: str, definition: str, version: str) -> facts_of.Image:
    found = compute.gallery_image_versions.get(group, gallery, definition, version)
    image = compute.gallery_images.get(group, gallery, definition)
    targets = (found.publishing_profile.target_regions if found.publishing_profile else None) or ()
    return facts_of.Image(
        _text(image.hyper_v_generation),
        _text(image.architecture),
        plan_words(image.purchase_plan),
        frozenset(folded(target.name) for target in targets),
    )


def terms_accepted(manager: ResourceManager, subscription: str, plan: str) -> bool:
    """Return whether the terms of a plan are accepted in the subscription."""
    publisher, product, name = plan.split(":")
    path = (
        f"/subscriptions/{subscription}/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/"
        f"{publisher}/offers/{product}/plans/{name}/agreements/current"
    )
    return (manager.get(path, _VERSION_OF_TERMS).get("properties") or {}).get("accepted") is True


def permissions_on(manager: ResourceManager, scope: str) -> list[facts_of.Permission]:
    """Return what the identity may do on a scope."""
    return [_permission(item) for item in manager.list(f"{scope}/{AUTHORIZATION}/permissions", _VERSION_OF_PERMISSIONS)]


def _permission(item: Mapping[str, Any]) -> facts_of.Permission:
    actions, not_actions = (tuple(map(str, item.get(key) or ())) for key in ("actions", "notActions"))
    return facts_of.Permission(actions, not_actions, str(item.get("condition") or ""))


def registration_of(manager: ResourceManager, subscription: str, name: str) -> str:
    """Return the registration state of a resource provider."""
    return str(
        manager.get(f"/subscriptions/{subscription}/providers/{name}", _VERSION_OF_PROVIDERS)["registrationState"]
    )


def locks_on(manager: ResourceManager, scope: str) -> list[facts_of.Lock]:
    """Return the locks on a scope and below it."""
    return [_lock(item) for item in manager.list(f"{scope}/{AUTHORIZATION}/locks", kinds.API_VERSIONS[kinds.LOCK])]


def _lock(item: Mapping[str, Any]) -> facts_of.Lock:
    # The id of a lock is the locked resource's, followed by the lock.
    scope = str(item["id"]).lower().rpartition(f"/{AUTHORIZATION}/locks/".lower())[0]
    scope = str(item["id"])[: len(scope)]
    return facts_of.Lock(str(item["name"]), str((item.get("properties") or {}).get("level") or ""), scope)


def name_use(manager: ResourceManager, needs: Needs, kind: str, name: str) -> facts_of.NameUse:
    """Return who has a name that is unique in all of Azure, if it is not a resource of the stack.

    :param kind: type of a key vault or a storage account.
    """
    provider = f"/subscriptions/{needs.subscription}/providers/{kind.partition('/')[0]}"
    version = kinds.API_VERSIONS[kind]
    if kind == kinds.VAULT:
        try:
            deleted = manager.get(f"{provider}/locations/{needs.location}/deletedVaults/{name}", version)
        except Exception as error:
            if not is_missing(error):
                raise
        else:
            until = (deleted.get("properties") or {}).get("scheduledPurgeDate")
            return facts_of.NameUse(deleted=str(until or "somebody purges it"))
    answer = manager.post(f"{provider}/checkNameAvailability", version, {"name": name, "type": kind})
    if not isinstance(answer.get("nameAvailable"), bool):
        raise UnreadableAnswer("the answer does not say whether the name can be used.")
    return facts_of.NameUse(reason="" if answer["nameAvailable"] else str(answer.get("reason") or "no reason given"))


def existing_assignments(manager: ResourceManager, assignments: Iterable[Assignment]) -> list[Assignment]:
    """Return the assignments that exist, including those on scopes above."""
    found = []
    principals: dict[str, str] = {}
    roles: dict[str, set[tuple[str, str]]] = {}
    for one in assignments:
        if one.identity not in principals:
            principals[one.identity] = _principal(manager, one.identity)
        if one.scope not in roles:
            roles[one.scope] = _roles_on(manager, one.scope)
        if (principals[one.identity].lower(), one.role_id) in roles[one.scope]:
            found.append(one)
    return found


def _principal(manager: ResourceManager, identity: str) -> str:
    try:
        return str(manager.get(identity, kinds.API_VERSIONS[kinds.IDENTITY])["properties"]["principalId"])
    except Exception as error:
        if not is_missing(error):
            raise
        return ""


def _roles_on(manager: ResourceManager, scope: str) -> set[tuple[str, str]]:
    path = f"{scope}/{AUTHORIZATION}/roleAssignments"
    try:
        items = manager.list(path, kinds.API_VERSIONS[kinds.ROLE_ASSIGNMENT], **{"$filter": "atScope()"})
    except Exception as error:
        if not is_missing(error):
            raise
        return set()
    return {
        (str(item["properties"]["principalId"]).lower(), name_of(str(item["properties"]["roleDefinitionId"])).lower())
        for item in items
    }
