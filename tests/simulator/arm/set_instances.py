# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances of scale sets, at paths below their set."""

from __future__ import annotations

import re
from collections.abc import Callable

from flask import Blueprint, Response

from simulator.arm import compute_payloads, lookup
from simulator.arm.context import context, many, one
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.longrunning import accepted
from simulator.arm.machines import encode_machine, encode_user_data
from simulator.arm.paging import page, query
from simulator.resources import Instance

blueprint = Blueprint("set_instances", __name__)
SET = "/subscriptions/<subscription>/resourcegroups/<group>/providers/microsoft.compute/virtualmachinescalesets/<name>"
ALL = f"{SET}/virtualmachines"

FILTERS: tuple[tuple[str, Callable[[Instance, str], bool]], ...] = (
    (
        r"properties/latestModelApplied eq (true|false)",
        lambda item, value: item.latest_model is (value.lower() == "true"),
    ),
    (
        r"startswith\(instanceView/statuses/code, *'PowerState/?'\) eq (true)",
        lambda item, value: item.power_state is not None,
    ),
    (
        r"instanceView/statuses/code eq 'PowerState/(\w+)'",
        lambda item, value: item.power_state == value.lower(),
    ),
    (
        r"properties/provisioningState eq '(\w+)'",
        lambda item, value: item.provisioning_state.lower() == value.lower(),
    ),
)


def encode(item: Instance, view: bool) -> bytes:
    """An instance as JSON: a Uniform one in its own format, a Flexible one as a virtual machine."""
    if not item.uniform:
        return encode_machine(item, view)
    model = context().model
    return context().encode_instance(
        "uniform_instance",
        item,
        lambda: compute_payloads.uniform_instance(model, item, view),
        "+view" if view else "",
    )


@blueprint.get(ALL)
def list_instances(subscription: str, group: str, name: str) -> Response:
    """The instances of a scale set."""
    scale_set = lookup.scale_set(group, name)
    parameters = query()
    view = _wants_view(parameters.get("$expand"))
    wanted = _filter(parameters.get("$filter"))
    listing = context().model.listing(
        scale_set.members.values(), lambda item: item.is_listed and (wanted is None or wanted(item))
    )
    found, next_link = page(listing, context().options.vm_page_size)
    return many([encode(item, view) for item in found], next_link)


@blueprint.get(f"{ALL}/<instance_id>")
def show(subscription: str, group: str, name: str, instance_id: str) -> Response:
    """One instance."""
    instance, expand = lookup.member(group, name, instance_id), query().get("$expand")
    view = _wants_view(expand)
    if (expand or "").lower() != "userdata":
        return one(encode(instance, view))
    model, kind = context().model, "uniform_instance" if instance.uniform else "machine"
    payload = (compute_payloads.uniform_instance if instance.uniform else compute_payloads.machine)(
        model, instance, False
    )
    return one(encode_user_data(kind, instance, payload))


@blueprint.get(f"{ALL}/<instance_id>/instanceview")
def view_instance(subscription: str, group: str, name: str, instance_id: str) -> Response:
    """The state of one instance."""
    instance = lookup.member(group, name, instance_id)
    if not instance.uniform:
        # Azure's own message for a Flexible set, whose instances are virtual machines: see steampipe issue 829.
        raise bad_parameter("instanceId", "The value of parameter instanceId is invalid: it must be a number.")
    return one(context().encode("uniform_view", compute_payloads.uniform_view(instance)))


@blueprint.delete(f"{ALL}/<instance_id>")
def remove(subscription: str, group: str, name: str, instance_id: str) -> Response:
    """Delete one instance and reduce the scale set's capacity by one."""
    instance = lookup.member(group, name, instance_id)
    return accepted(f"delete {instance.name}", instance.location, context().effects.delete([instance]))


@blueprint.post(f"{ALL}/<instance_id>/<action>")
def act(subscription: str, group: str, name: str, instance_id: str, action: str) -> Response:
    """Run an action on one instance."""
    instance = lookup.member(group, name, instance_id)
    effects = context().effects
    if action not in effects.actions:
        raise ArmError(404, "InvalidResourceType", f"The action '{action}' could not be found on instances.")
    return accepted(f"{action} {instance.name}", instance.location, effects.act(action, [instance]))


def _wants_view(expand: str | None) -> bool:
    if expand and expand.lower() not in ("instanceview", "userdata"):
        raise bad_parameter("$expand", f"'{expand}' is not supported")
    return bool(expand) and expand is not None and expand.lower() == "instanceview"


def _filter(text: str | None) -> Callable[[Instance], bool] | None:
    if not text:
        return None
    for pattern, test in FILTERS:
        found = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
        if found:
            value = found.group(1)
            return lambda item: test(item, value)
    raise bad_parameter("$filter", f"'{text}' is not supported")
