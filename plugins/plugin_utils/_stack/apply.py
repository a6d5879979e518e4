# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Provisioning: reads what there is, plans, and carries the plan out. The next run goes on after any failure."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._azure.errors import InventoryError, listed
from . import resource as kinds
from .arm import Arm
from .compare import merged
from .deployments import ENDED, Deployments, NotYetKnown
from .desired import TenantIds, desired, first, tenant_ids
from .model import Stack
from .names import Names
from .ownership import Record, next_record, record_from
from .plan import CREATE, PATCH, UPDATE, Change, Plan, made_by, plan
from .resource import Resource
from .template import SECRET_PARAMETER, record_template, template

_KEY_LETTERS = 128
"""Length of a new munge key. munge accepts 32 to 1024 bytes, and 128 letters and digits have 762 bits of entropy."""
_LONGEST_LIST = 8
_SPREAD_S = 30.0
"""Seconds until a deployment is tried once more that failed because a role or an identity is new."""
Found = dict[str, dict[str, Any] | None]


@dataclass(frozen=True)
class AzureState:
    """What Azure has.

    :ivar known: tenant and principals.
    :ivar resources: the desired resources.
    :ivar found: Azure's answers by lower-case id.
    :ivar record: what the stack has recorded.
    :ivar deployment: state of the stack's last deployment; empty if there is none.
    """

    known: TenantIds
    resources: tuple[Resource, ...]
    found: Found
    record: Record | None
    deployment: str

    @property
    def at_work(self) -> bool:
        """Whether the stack's last deployment has not ended yet."""
        return bool(self.deployment) and self.deployment.lower() not in ENDED

    def plan(self, stack: Stack) -> Plan:
        """Return what a run changes."""
        return plan(stack, self.resources, self.found, self.record)


def look(stack: Stack, arm: Arm) -> AzureState:
    """Read everything about the stack, about one request for each resource.

    :raises InventoryError: something could not be read.
    """
    names = Names(stack)
    subscription = f"/subscriptions/{stack.subscription}"
    deployment, record = (names.of(kinds.DEPLOYMENT, name) for name in (names.deployment, names.record))
    begin = first(stack)
    found = arm.read(
        [
            (subscription, kinds.SUBSCRIPTION),
            (deployment, kinds.DEPLOYMENT),
            (record, kinds.DEPLOYMENT),
            *((one.id, one.kind) for one in begin),
        ]
    )
    answer = found.pop(subscription.lower())
    if answer is None:
        raise InventoryError(
            f"could not read the subscription {stack.subscription}: it is not in the directory of this identity. Check "
            "subscription_id, and sign in to its directory: az login --tenant TENANT, or tenant_id."
        )
    state = str(((found.pop(deployment.lower()) or {}).get("properties") or {}).get("provisioningState") or "")
    try:
        recorded = record_from(found.pop(record.lower()), stack.owner)
    except ValueError as error:
        raise InventoryError(str(error)) from None
    known = tenant_ids(stack, str(answer.get("tenantId") or ""), found)
    resources = desired(stack, known)
    inside = f"{stack.group_id}/".lower()
    exists = found[stack.group_id.lower()] is not None
    rest = [one for one in resources if one.id.lower() not in found]
    found |= {one.id.lower(): None for one in rest if not exists and one.id.lower().startswith(inside)}
    found |= arm.read([(one.id, one.kind) for one in rest if one.id.lower() not in found])
    return AzureState(known, resources, found, recorded, state)


def why_not(stack: Stack, azure: AzureState, arm: Arm) -> list[str]:
    """Return what Azure would refuse only after it has made something: a vault's name that is blocked."""
    names = Names(stack)
    if stack.key_vault.adopt or azure.found[names.vault.lower()] is not None:
        return []
    deleted = (
        f"/subscriptions/{stack.subscription}/providers/Microsoft.KeyVault/locations/{stack.location}/deletedVaults/"
        f"{stack.key_vault.name}"
    )
    # It belongs to the subscription, but rights on an adopted group are enough. Then Azure refuses the vault itself.
    answer = arm.get(deleted, kinds.DELETED_VAULT, if_allowed=True)
    if answer is None:
        return []
    until = (answer.get("properties") or {}).get("scheduledPurgeDate") or "an unknown date"
    return [
        f"the name {stack.key_vault.name} is blocked until {until}, because a vault of this name was deleted. Recover "
        f"it (az keyvault recover --name {stack.key_vault.name}), purge it (az keyvault purge --name "
        f"{stack.key_vault.name}), or set key_vault.name."
    ]


def new_key() -> str:
    """Return a new munge key, a text of letters and digits."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _number in range(_KEY_LETTERS))


class Apply:
    """Carries a plan out."""

    def __init__(self, stack: Stack, arm: Arm, deployments: Deployments, say: Callable[[str], None]) -> None:
        self._stack = stack
        self._arm = arm
        self._deployments = deployments
        self._say = say
        self._names = Names(stack)
        self._made: list[str] = []

    def run(self, azure: AzureState) -> AzureState:
        """Make and change what differs, and record it. Returns what Azure has then.

        :raises InventoryError: a request failed. What was made is recorded, so that the next run goes on from there.
        """
        try:
            return self._attempt(azure)
        except NotYetKnown:
            if not self._arm.deadline.allows(_SPREAD_S):
                raise
            self._say(f"Azure does not know a new role or identity everywhere yet: trying once more in {_SPREAD_S:g} s")
            self._arm.deadline.wait(_SPREAD_S)
        # What was made is recorded, so this continues as another run would.
        azure = look(self._stack, self._arm)
        problems = azure.plan(self._stack).problems
        if problems:
            raise InventoryError(" ".join(problems))
        return self._attempt(azure)

    def _attempt(self, azure: AzureState) -> AzureState:
        planned = azure.plan(self._stack)
        try:
            self._carry_out(azure, planned)
        except InventoryError as error:
            kind = NotYetKnown if isinstance(error, NotYetKnown) else InventoryError
            raise kind(self._after_failure(azure, planned, str(error))) from None
        return self._record(azure, planned)

    def _carry_out(self, azure: AzureState, planned: Plan) -> None:
        self._direct([one for one in planned.changes if one.resource.kind in kinds.DIRECT])
        identities = [
            one.resource for one in planned.changes if one.resource.kind == kinds.IDENTITY and one.how == CREATE
        ]
        if identities:
            # Role assignments contain the ids of the new principals, and user data the client ids.
            azure.found.update(self._arm.read([(one.id, one.kind) for one in identities]))
            known = tenant_ids(self._stack, azure.known.tenant, azure.found)
            planned = plan(self._stack, desired(self._stack, known), azure.found, azure.record)
        rest = [one for one in planned.changes if one.resource.kind not in kinds.DIRECT]
        whole = [one for one in rest if one.how in (CREATE, UPDATE)]
        if whole:
            content = template((one.resource, one.body) for one in whole)
            # The value is in no template, no record, no diff, and nowhere on this machine.
            secret = {SECRET_PARAMETER: new_key()} if SECRET_PARAMETER in content.get("parameters", {}) else {}
            self._say(f"Azure checks the deployment of {len(whole)} resources")
            self._deployments.check(self._names.deployment, content, secret)
            self._refuse_outdated(whole)
            self._deployments.run(self._names.deployment, content, secret)
        self._direct([one for one in rest if one not in whole])

    def _refuse_outdated(self, changes: list[Change]) -> None:
        """Refuse to send a complete resource that somebody made or changed meanwhile.

        Azure's checks take minutes, and what the body lacks would be removed, such as a subnet that was added. A new
        resource that exists by now would get another munge key, or capacity 0.

        :raises InventoryError: a resource changed.
        """
        now = self._arm.read([(one.resource.id, one.resource.kind) for one in changes])
        outdated = [one.resource.label for one in changes if _is_outdated(one, now[one.resource.id.lower()])]
        if outdated:
            raise InventoryError(
                f"{listed(outdated, _LONGEST_LIST)} changed while Azure checked the deployment. It was not started, "
                "because it would undo that change."
            )

    def _direct(self, changes: list[Change]) -> None:
        """Make and change resources by requests of their own, one after the other."""
        for one in changes:
            self._say(f"{'changing' if one.how == PATCH else 'making'} {one.resource.label}")
            method = "PATCH" if one.how == PATCH else "PUT"
            self._arm.begin(method, one.resource.id, one.resource.kind, one.body)()

    def _record(self, azure: AzureState, planned: Plan) -> AzureState:
        """Record what there is now, if that differs from the last record."""
        changed = [
            (one.resource.id, one.resource.kind)
            for one in planned.changes
            if one.how == CREATE or one.resource.withdrawn
        ]
        found = {**azure.found, **self._arm.read(changed)}
        record = next_record(self._stack, azure.record, azure.resources, found, made_by(planned.changes, found))
        if record != azure.record and found.get(self._stack.group_id.lower()) is not None:
            self._say("recording what the stack has")
            self._deployments.run(self._names.record, record_template(record))
        return AzureState(azure.known, azure.resources, found, record, "Succeeded")

    def _after_failure(self, azure: AzureState, planned: Plan, error: str) -> str:
        try:
            now = self._record(azure, planned)
        except InventoryError as second:
            return f"{error} It is not known what was made: {second} Correct this, and run it again."
        made = made_by(planned.changes, now.found)
        self._made += [one.resource.label for one in planned.changes if one.resource.id.lower() in made]
        if not self._made:
            return f"{error} Nothing was made. Correct this, and run it again."
        more = len(self._made) - _LONGEST_LIST
        shown = ", ".join(self._made[:_LONGEST_LIST]) + (f" and {more} more" if more > 0 else "")
        return f"{error} Made and recorded: {shown}. Correct this, and run it again: it continues from there."


def _is_outdated(change: Change, now: dict[str, Any] | None) -> bool:
    """Say whether a resource is no longer as it was planned to be sent."""
    if change.how == CREATE or now is None:
        return (now is None) != (change.how == CREATE)
    return merged(change.resource, now) != change.body
