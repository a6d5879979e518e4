# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines: stand-alone ones and those of Flexible scale sets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response

from simulator.arm import compute_payloads, lookup
from simulator.arm.context import context, many, one
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.longrunning import accepted
from simulator.arm.paging import page, query
from simulator.resources import Instance

blueprint = Blueprint("machines", __name__)
KIND = "microsoft.compute/virtualmachines"
SUBSCRIPTION = f"/subscriptions/<subscription>/providers/{KIND}"
GROUP = f"/subscriptions/<subscription>/resourcegroups/<group>/providers/{KIND}"
OF_SET = re.compile(r"'virtualMachineScaleSet/id' eq '([^']+)'", re.IGNORECASE)


def encode_machine(item: Instance, view: bool) -> bytes:
    """A virtual machine as JSON."""
    model = context().model
    return context().encode_instance(
        "machine", item, lambda: compute_payloads.machine(model, item, view), "+view" if view else ""
    )


def encode_user_data(kind: str, item: Instance, payload: dict[str, Any]) -> bytes:
    """A virtual machine or an instance as JSON, with its user data."""
    user_data = context().model.user_data(item)
    if user_data:
        payload["properties"]["userData"] = user_data
    return context().encode(kind, payload)


def encode_status(item: Instance) -> bytes:
    """A virtual machine's state as JSON."""
    return context().encode_instance("machine_status", item, lambda: compute_payloads.machine_status(item))


@blueprint.get(SUBSCRIPTION)
@blueprint.get(GROUP)
def list_machines(subscription: str, group: str | None = None) -> Response:
    """Virtual machines of the subscription or of a group, without instances of Uniform scale sets."""
    wanted = lookup.group(group)
    parameters = query()
    of_set = _filter(parameters.get("$filter"))
    view = (parameters.get("$expand") or "").lower() == "instanceview"
    if view and of_set is None:
        raise bad_parameter("$expand", "'instanceView' can only be used with a $filter on virtualMachineScaleSet/id")
    listing = context().model.listing(
        context().model.machines.values(),
        lambda item: (wanted is None or item.resource_group.lower() == wanted) and (of_set is None or of_set(item)),
    )
    found, next_link = page(listing, context().options.vm_page_size)
    if (parameters.get("statusonly") or "").lower() == "true":
        return many([encode_status(item) for item in found], next_link)
    return many([encode_machine(item, view) for item in found], next_link)


@blueprint.get(f"{GROUP}/<name>")
def show(subscription: str, group: str, name: str) -> Response:
    """One virtual machine."""
    machine, expand = lookup.machine(group, name), (query().get("$expand") or "").lower()
    if expand == "userdata":
        return one(encode_user_data("machine", machine, compute_payloads.machine(context().model, machine, False)))
    return one(encode_machine(machine, expand == "instanceview"))


@blueprint.get(f"{GROUP}/<name>/instanceview")
def view_machine(subscription: str, group: str, name: str) -> Response:
    """The state of one virtual machine."""
    return one(context().encode("machine_view", compute_payloads.machine_view(lookup.machine(group, name))))


@blueprint.post(f"{GROUP}/<name>/<action>")
def act(subscription: str, group: str, name: str, action: str) -> Response:
    """Run an action on a virtual machine."""
    machine = lookup.machine(group, name)
    effects = context().effects
    if action not in effects.actions or action in ("manualupgrade", "reimageall"):
        raise ArmError(404, "InvalidResourceType", f"The action '{action}' could not be found on virtual machines.")
    return accepted(f"{action} {machine.name}", machine.location, effects.act(action, [machine]))


def _filter(text: str | None) -> Callable[[Instance], bool] | None:
    if not text:
        return None
    found = OF_SET.fullmatch(text.strip())
    if not found:
        raise bad_parameter("$filter", f"'{text}' is not supported: use 'virtualMachineScaleSet/id' eq '<id>'")
    wanted = found.group(1).lower()
    return lambda item: item.scale_set is not None and item.scale_set.id.lower() == wanted
