# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a PATCH of a scale set changes."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from simulator import userdata
from simulator.arm.errors import bad_parameter
from simulator.resources import ScaleSet
from simulator.scenario import Image


def capacity(body: dict[str, Any], scale_set: ScaleSet) -> int:
    """The capacity that the body requests."""
    wanted = (body.get("sku") or {}).get("capacity")
    if wanted is None:
        return scale_set.capacity
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 0:
        raise bad_parameter("sku.capacity", f"{wanted!r} is not a capacity")
    if scale_set.uniform and scale_set.single_placement_group and wanted > 100:
        raise bad_parameter(
            "sku.capacity", f"{wanted} is more than the 100 instances that a single placement group holds"
        )
    return wanted


def merge(body: dict[str, Any], scale_set: ScaleSet) -> bool:
    """Merge the rest of the body into the scale set. Returns whether its model changed."""
    if isinstance(body.get("tags"), dict):
        scale_set.tags = {str(key): str(value) for key, value in body["tags"].items()}
    before = (scale_set.vm_size, copy.deepcopy(scale_set.profile), scale_set.user_data)
    scale_set.vm_size = (body.get("sku") or {}).get("name") or scale_set.vm_size
    profile = (body.get("properties") or {}).get("virtualMachineProfile")
    if scale_set.sent is not None:
        others = {key: value for key, value in (body.get("properties") or {}).items() if key != "virtualMachineProfile"}
        _merge(scale_set.sent["properties"], others)
        scale_set.single_placement_group = scale_set.sent["properties"]["singlePlacementGroup"]
        _merge(scale_set.sent, {key: body[key] for key in ("zones", "plan") if key in body})
    if isinstance(profile, dict):
        # The published body of a PATCH, VirtualMachineScaleSetUpdateVMProfile, does not have this field.
        profile = {key: value for key, value in profile.items() if key != "capacityReservation"}
        _merge(scale_set.profile, profile)
        _take_image(scale_set)
        _take_user_data(scale_set)
        scale_set.priority = scale_set.profile.get("priority", scale_set.priority)
    return before != (scale_set.vm_size, scale_set.profile, scale_set.user_data)


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif value is not None:
            target[key] = value


def _take_image(scale_set: ScaleSet) -> None:
    reference = scale_set.profile["storageProfile"]["imageReference"]
    azure_id = str(reference.get("id") or "")
    if azure_id:
        scale_set.image = Image(id=azure_id, exact_version=azure_id.rstrip("/").rpartition("/")[2])
        return
    known = {key: reference[key] for key in ("publisher", "offer", "sku", "version") if reference.get(key)}
    changed = dataclasses.replace(scale_set.image, id="", **known)
    if changed != scale_set.image:
        exact = changed.version if changed.version != "latest" else changed.exact_version
        scale_set.image = dataclasses.replace(changed, exact_version=exact)


def _take_user_data(scale_set: ScaleSet) -> None:
    """Move the user data out of the profile, because Resource Manager returns it only on request."""
    encoded = scale_set.profile.pop("userData", None)
    if encoded is None:
        return
    try:
        scale_set.user_data = userdata.decode(encoded)
    except (ValueError, TypeError):
        raise bad_parameter("userData", "Userdata should be Base64 encoded") from None
