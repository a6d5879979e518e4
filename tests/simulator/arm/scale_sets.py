# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale sets: listing, showing, changing, and actions on several of their instances."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from simulator.addresses import AddressesExhausted
from simulator.arm import compute_payloads, etags, galleries, lookup, merging
from simulator.arm.context import context, many, one
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.longrunning import accepted
from simulator.arm.paging import page, query
from simulator.arm.provision import changes, rights, schema, sets, sizing
from simulator.arm.provision.kinds import Change
from simulator.arm.provision.targets import target
from simulator.resources import COMPUTE, Instance, ScaleSet

blueprint = Blueprint("scale_sets", __name__)
KIND = "microsoft.compute/virtualmachinescalesets"
SUBSCRIPTION = f"/subscriptions/<subscription>/providers/{KIND}"
GROUP = f"/subscriptions/<subscription>/resourcegroups/<group>/providers/{KIND}"


def encode(item: ScaleSet) -> bytes:
    """A scale set as JSON."""
    return context().encode("scale_set", compute_payloads.scale_set(item))


@blueprint.get(SUBSCRIPTION)
@blueprint.get(GROUP)
def list_sets(subscription: str, group: str | None = None) -> Response:
    """All scale sets of the subscription or of a group."""
    wanted = lookup.group(group)
    model = context().model
    listing = model.listing(
        model.scale_sets.values(), lambda item: wanted is None or item.resource_group.lower() == wanted
    )
    found, next_link = page(listing, context().options.page_size)
    return many([encode(item) for item in found], next_link)


@blueprint.get(f"{GROUP}/<name>")
def show(subscription: str, group: str, name: str) -> Response:
    """One scale set."""
    found = lookup.scale_set(group, name)
    expand = (query().get("$expand") or "").lower()
    if expand not in ("", "userdata"):
        raise bad_parameter("$expand", f"'{expand}' is not supported")
    user_data = context().model.user_data(found) if expand else ""
    payload = compute_payloads.scale_set(found, user_data)
    return one(context().encode("scale_set", payload), headers={"ETag": etags.etag_of(found)})


@blueprint.get(f"{GROUP}/<name>/instanceview")
def view(subscription: str, group: str, name: str) -> Response:
    """The number of its instances per state."""
    return one(context().encode("scale_set_view", compute_payloads.scale_set_view(lookup.scale_set(group, name))))


@blueprint.patch(f"{GROUP}/<name>")
def change(subscription: str, group: str, name: str) -> Response:
    """Change the capacity, size, tags or model of a scale set."""
    scale_set = lookup.scale_set(group, name)
    body = schema.cleaned(f"{COMPUTE}/virtualMachineScaleSets", request.get_json(silent=True))
    rights.check_action(context(), f"{COMPUTE}/virtualMachineScaleSets/write", scale_set.id)
    rights.check_locks(context(), scale_set.id, KIND, deletes=False)
    sizing.check_same_product(scale_set, (body.get("properties") or {}).get("virtualMachineProfile") or {})
    galleries.require_image(body, scale_set.location)
    capacity = merging.capacity(body, scale_set)
    # Also if the capacity stays, and an instance of it was never made.
    more, spot = max(0, capacity - len(scale_set.alive)), scale_set.priority == "Spot"
    wanted = sizing.demand(context().model, scale_set.vm_size, spot, more)
    sizing.check_quota(context(), scale_set.location, wanted)
    with context().model.lock:
        etags.require_match(scale_set)
        try:
            work = context().effects.scale(scale_set, capacity)
        except AddressesExhausted as error:
            subnet = scale_set.subnet.id
            raise ArmError(400, "SubnetIsFull", f"Subnet {subnet} does not have enough capacity: {error}") from error
        if "identity" in body and scale_set.sent is not None:
            place = target(scale_set.id, changes.NAMES)
            assert place is not None
            sets.take_identity(Change(context(), place, body, scale_set), scale_set)
        if merging.merge(body, scale_set):
            context().model.outdate(scale_set)
        encoded = encode(scale_set)
    return accepted(f"scale {scale_set.name} to {capacity}", scale_set.location, work, encoded, status=200, final=False)


@blueprint.post(f"{GROUP}/<name>/<action>")
def act(subscription: str, group: str, name: str, action: str) -> Response:
    """Run an action on the instances in the body, or on all if the action allows that."""
    scale_set = lookup.scale_set(group, name)
    effects = context().effects
    if action != "delete" and action not in effects.actions:
        raise ArmError(404, "InvalidResourceType", f"The action '{action}' could not be found on scale sets.")
    body: dict[str, Any] = request.get_json(silent=True) or {}
    ids = body.get("instanceIds")
    if not ids and action in ("delete", "manualupgrade"):
        raise bad_parameter("instanceIds", "The parameter is required.")
    with context().model.lock:
        everyone = list(scale_set.members.values())
    instances = everyone if not ids or ids == ["*"] else [_member(scale_set, instance_id) for instance_id in ids]
    what = f"{action} {scale_set.name} {','.join(i.instance_id or i.name for i in instances[:10])}"
    work = effects.delete(instances) if action == "delete" else effects.act(action, instances)
    return accepted(what, scale_set.location, work)


def _member(scale_set: ScaleSet, instance_id: Any) -> Instance:
    found = scale_set.members.get(str(instance_id).lower())
    if found is None:
        raise bad_parameter(
            "instanceIds",
            f"The provided instanceId {instance_id} is not an active Virtual Machine Scale Set VM instanceId.",
        )
    return found
