# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run changes: the desired resources against what Azure has. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._azure.images import ANOTHER_SET, from_body, why_fixed
from . import resource as kinds
from .compare import Difference, differences, merged, patch
from .data import assignments
from .desired import TenantIds
from .machines import ELASTIC, ROLE, STATIC, other_keys
from .model import AZURE_FILES, CLUSTER, COMPUTE, ENDPOINTS, Stack
from .names import Names
from .network import endpoints_of, lacking_endpoints
from .ownership import Record, next_record, owner_of, unique_of, why_foreign
from .resource import Resource, admitted

CREATE, UPDATE, PATCH = "create", "update", "patch"
_STATE = "properties.provisioningState"
_LOCATION = "location"
_RESTARTS = "properties.hardwareProfile.vmSize"
_USER_DATA = "userData"

Found = Mapping[str, Mapping[str, Any] | None]
"""Azure's answers by lower-case resource id; None for a resource that does not exist."""


@dataclass(frozen=True)
class Change:
    """One resource that a run makes or changes.

    :ivar how: CREATE; UPDATE for a complete body in the deployment; PATCH for a request with what differs.
    :ivar body: what is sent, in the format of Azure Resource Manager.
    :ivar differs: the fields that differ; empty with CREATE.
    """

    resource: Resource
    how: str
    body: Mapping[str, Any]
    differs: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a run changes.

    :ivar changes: in the order in which they are made.
    :ivar problems: why the run cannot be made; one line each.
    :ivar notes: what the operator should know.
    :ivar record: what is recorded if everything succeeds, as known before; None if it does not change.
    """

    changes: tuple[Change, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    record: Record | None

    @property
    def changed(self) -> bool:
        """Whether a run sends anything."""
        return bool(self.changes) or self.record is not None

    def of(self, how: str) -> list[Change]:
        """Return the changes of one kind."""
        return [one for one in self.changes if one.how == how]

    def diff(self) -> dict[str, str]:
        """Return the differences in Ansible's format: one line for each field."""
        before: list[str] = []
        after: list[str] = []
        for change in self.changes:
            label = change.resource.label
            if change.how == CREATE:
                after.append(f"{label}: {_summary(change)}")
            for one in change.differs:
                before.append(f"{label} {one.path}: {_shown(one.path, one.before)}")
                after.append(f"{label} {one.path}: {_shown(one.path, one.after)}")
        if self.record is not None:
            after.append("the record of the stack's resources")
        return {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def plan(stack: Stack, resources: Iterable[Resource], found: Found, record: Record | None) -> Plan:
    """Return what a run changes. Pure.

    :param resources: what the stack should have.
    :param found: Azure's answer about each of them. A missing one could not be read yet, and does not exist.
    :param record: what the stack has recorded; None if nothing.
    """
    resources = tuple(_with_withdrawn(one, record) for one in resources)
    changes: list[Change] = []
    problems: list[str] = []
    notes: list[str] = []
    for one in resources:
        there = found.get(one.id.lower())
        if one.adopted:
            problems += _adopted(stack, one, there)
        elif there is None:
            changes.append(Change(one, CREATE, one.body))
        elif foreign := why_foreign(one, there, stack.owner, record):
            problems.append(foreign)
        else:
            _existing(one, there, record, changes, problems, notes)
    if record is not None:
        wanted = {one.id.lower() for one in resources}
        notes += [
            f"{kinds.label_of(one)} is no longer in hpcai_stack. It stays until the teardown of the stack."
            for one in record.resources
            if one.lower() not in wanted and kinds.kind_of(one) != kinds.ROLE_ASSIGNMENT
        ]
    notes += other_keys(stack, Names(stack), found)
    expected = next_record(stack, record, resources, found, frozenset())
    return Plan(
        tuple(changes),
        tuple(dict.fromkeys(problems)),
        tuple(notes),
        expected if record is None or expected != record or any(one.how == CREATE for one in changes) else None,
    )


def _with_withdrawn(one: Resource, record: Record | None) -> Resource:
    """Return a resource with the public ranges that earlier runs admitted, and that the stack no longer admits."""
    withdrawn = record.ranges(one.id) - one.admits if record and not one.adopted else frozenset()
    return replace(one, withdrawn=withdrawn) if withdrawn else one


def assignments_to_request(stack: Stack, known: TenantIds) -> list[str]:
    """Return the commands for role assignments that the stack does not write, for whoever has the right to."""
    return [
        one.command(
            known.principals.get(one.identity, f"$(az identity show --ids {one.identity} --query principalId -o tsv)")
        )
        for one in assignments(stack, Names(stack))
        if one.foreign
    ]


def _existing(
    one: Resource,
    there: Mapping[str, Any],
    record: Record | None,
    changes: list[Change],
    problems: list[str],
    notes: list[str],
) -> None:
    """Compare a resource of the stack, and add what follows."""
    recorded = record.unique(one.id) if record else ""
    if recorded and recorded.lower() != unique_of(one.kind, there).lower():
        notes.append(
            f"{one.label} is not the machine that the stack made: its {kinds.UNIQUE[one.kind]} is "
            f"{unique_of(one.kind, there)}, and {recorded} is recorded. A teardown will not delete it."
        )
    _converted(one, there, problems, notes)
    problems += _other_image(one, there)
    foreign = admitted(there) - one.admits - one.withdrawn
    if "networkAcls" in (one.body.get("properties") or {}) and foreign:
        notes.append(
            f"{one.label} also admits {', '.join(sorted(foreign))}, which hpcai_stack does not name. If nobody needs "
            "this, remove it from the resource's firewall."
        )
    found = differences(one, there)
    fixed = [item for item in found if item.path.startswith(tuple(one.fixed))] if one.fixed else []
    advice = "Restore hpcai_stack, or make a resource with another name."
    if one.kind == kinds.ROLE_ASSIGNMENT:
        advice = f"The identity was made again. Remove what it left: az role assignment delete --ids {one.id}"
    problems += [
        f"{one.label}: {item.path} is {_shown(item.path, item.before)}, not {_shown(item.path, item.after)}, and Azure "
        f"cannot change it. {advice}"
        for item in fixed
    ]
    elsewhere = next((item for item in found if item.path == _LOCATION), None)
    if elsewhere:
        # The same text for all resources, so that it is shown once.
        problems.append(
            f"hpcai_stack.location is {elsewhere.after}, but the stack has resources in {elsewhere.before}, and Azure "
            "cannot move them. Restore it, or give the stack another name."
        )
        return
    if any(item.path == _RESTARTS for item in found):
        notes.append(f"{one.label}: a change of the VM size restarts the machine.")
    failed = _half_made(one, there)
    if fixed or not (found or failed):
        return
    shown = list(found)
    sent = list(found)
    if failed:
        state = (there.get("properties") or {}).get("provisioningState")
        shown.append(Difference(_STATE, state, "Succeeded"))
        if not sent:
            # Any request makes Azure try again; this one changes nothing else.
            sent.append(Difference("tags", None, None))
    if one.kind in kinds.PATCHED:
        changes.append(Change(one, PATCH, patch(one, there, sent), tuple(shown)))
    else:
        changes.append(Change(one, UPDATE, merged(one, there), tuple(shown)))


def _half_made(one: Resource, there: Mapping[str, Any]) -> bool:
    """Say whether Azure could not make or change a resource, and should try again."""
    if one.kind == kinds.SCALE_SET and (there.get("sku") or {}).get("capacity"):
        # Its last growth failed, and any request would order these machines again. That is up to whoever grows the set.
        return False
    return str((there.get("properties") or {}).get("provisioningState", "")).lower() in ("failed", "canceled")


def _converted(one: Resource, there: Mapping[str, Any], problems: list[str], notes: list[str]) -> None:
    """Add what a change between static and elastic means. The daemon deletes machines that it has not ordered."""
    if one.kind != kinds.SCALE_SET:
        return
    roles = [str((body.get("tags") or {}).get(ROLE)) for body in (there, one.body)]
    capacity = (there.get("sku") or {}).get("capacity")
    if roles == [STATIC, ELASTIC] and capacity:
        problems.append(
            f"{one.label} is static and has capacity {capacity}. If it became elastic, the daemon would delete these "
            "machines with their jobs. Delete its instances first, or give another set in hpcai_stack the key elastic."
        )
    elif roles == [ELASTIC, STATIC] and capacity:
        problems.append(
            f"{one.label} is elastic and has capacity {capacity}. If it became static, Slurm would lose these nodes "
            "with their jobs. Set its elastic.min to 0, run provision and site.yml, and wait until the daemon has "
            "deleted its machines."
        )
    elif roles == [ELASTIC, STATIC]:
        notes.append(
            f"{one.label} is no longer elastic, but the daemon deletes its machines until site.yml has run. Before you "
            "raise its capacity, stop the daemon on the controller: sudo systemctl stop hpcai-elastic. Then run "
            "site.yml. The controller keeps its role on this set until the teardown of the stack."
        )


def _other_image(one: Resource, there: Mapping[str, Any]) -> Iterator[str]:
    """Yield why Azure cannot give a scale set the image of the stack."""
    if one.kind != kinds.SCALE_SET:
        return
    before, after = (from_body(_image_in(body)) for body in (there, one.body))
    reason = why_fixed(before, after, bool(there.get("plan")))
    if reason:
        yield (
            f"{one.label} has the image {before}, not {after}. {reason}. Restore the image of this set in hpcai_stack. "
            f"{ANOTHER_SET}"
        )


def _image_in(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    profile = (body.get("properties") or {}).get("virtualMachineProfile") or {}
    found: Mapping[str, Any] | None = (profile.get("storageProfile") or {}).get("imageReference")
    return found


def _adopted(stack: Stack, one: Resource, there: Mapping[str, Any] | None) -> list[str]:
    """Return what is wrong with an adopted resource."""
    if there is None:
        advice = ""
        if one.kind == kinds.SECRET:
            advice = (
                " Create it: (umask 077; head -c 128 /dev/urandom > munge.key); az keyvault secret set --vault-name "
                f"{one.id.split('/')[-3]} --name {one.name} --file munge.key --encoding base64; shred -u munge.key"
            )
        return [f"{one.label} is adopted, and does not exist: {one.id}.{advice}"]
    found = [
        f"{one.label} is adopted, so it is not changed, but {item.path} is {_shown(item.path, item.before)}, and the "
        f"stack needs {_shown(item.path, item.after)}."
        for item in differences(one, there)
    ]
    if one.kind == kinds.VNET:
        found += _adopted_subnets(stack, one, (there.get("properties") or {}).get("subnets") or [])
    if owner_of(there) == stack.owner:
        found.append(f"{one.label} was made by this stack, so it cannot be adopted. Remove adopt.")
    return found


def _adopted_subnets(stack: Stack, network: Resource, there: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the subnets of an adopted network."""
    subnets = {str(item.get("name")).lower(): item for item in there}
    found = []
    for name in (CLUSTER, COMPUTE, *((ENDPOINTS,) if stack.shared_home.source == AZURE_FILES else ())):
        subnet = subnets.get(stack.network.subnets[name].lower())
        if subnet is None:
            found.append(
                f"{network.label} is adopted, and has no subnet {stack.network.subnets[name]}, which "
                f"hpcai_stack.network.subnets.{name} names. It has: {', '.join(sorted(subnets)) or 'none'}."
            )
        elif name != ENDPOINTS and (lacking := lacking_endpoints(stack, subnet)):
            # The command replaces the list.
            services = " ".join([*endpoints_of(subnet), *lacking])
            found.append(
                f"{network.label} is adopted, and its subnet {subnet['name']} has no service endpoint for "
                f"{' and '.join(lacking)}, so Azure would refuse the firewall of what the stack makes there. Ask the "
                f"network's owner to run: az network vnet subnet update --ids {network.id}/subnets/{subnet['name']} "
                f"--service-endpoints {services}. Or adopt the key vault and the storage account."
            )
    return found


def _summary(change: Change) -> str:
    """Return what a new resource is, in a few words."""
    body = change.body
    sku = (body.get("sku") or {}).get("name")
    size = ((body.get("properties") or {}).get("hardwareProfile") or {}).get("vmSize")
    return " ".join(["new", *(str(item) for item in (sku, size) if item)])


def _shown(path: str, value: Any) -> str:
    if value is None:
        return "none"
    if path.endswith(_USER_DATA):
        try:
            return " ".join(base64.b64decode(str(value), validate=True).decode().split())
        except (binascii.Error, ValueError):
            return str(value)
    return str(value)


def made_by(changes: Iterable[Change], found: Found) -> frozenset[str]:
    """Return the lower-case ids of new resources that exist by now."""
    return frozenset(
        one.resource.id.lower()
        for one in changes
        if one.how == CREATE and found.get(one.resource.id.lower()) is not None
    )
