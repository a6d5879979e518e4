# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carrying out a teardown. A run that was interrupted is repeated: it goes on with what is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from .._azure.errors import InventoryError, listed
from . import resource as kinds
from .arm import Arm, Refused
from .contents import content_of
from .data import assignments
from .deployments import ENDED, Deployments
from .machines import other_keys
from .model import Stack
from .names import Names
from .ownership import record_from
from .resource import kind_of, label_of
from .teardown import Choices, GroupState, KeptResource, Lock, Teardown, may_be_empty, remaining, teardown
from .template import record_template

_RESOURCES = "api-version=2021-04-01"
_SETTLE_S, _LOOKS = 5, 12
"""Seconds between looks at what is left in the group, and how many looks."""
_RETRY_S, _TRIES = 15, 17
"""Seconds between deletions of what Azure considers to be in use, and how many: together four minutes. Azure reserves
an interface for three minutes for a machine that was deleted or could not be made (NicReservedForAnotherVm, see
https://github.com/gardenlinux/gardenlinux/issues/4133)."""
_IN_USE = re.compile(
    "NicReservedForAnotherVm|InUse[A-Za-z]+CannotBeDeleted|PublicIPAddressCannotBeDeleted|RoleDefinitionHasAssignments"
)
"""Azure's codes for resources whose user is deleted, but not yet everywhere in Azure."""


@dataclass(frozen=True)
class Removed:
    """The result of a teardown.

    :ivar deleted: ids that were deleted.
    :ivar plan: what was planned; its ``stays`` are what is left.
    """

    deleted: tuple[str, ...]
    plan: Teardown


def look(stack: Stack, arm: Arm, choices: Choices) -> Teardown:
    """Read what there is, and return what a teardown deletes.

    :raises InventoryError: something could not be read.
    """
    names = Names(stack)
    deployment, recorded = (names.of(kinds.DEPLOYMENT, name) for name in (names.deployment, names.record))
    answers = arm.read([(stack.group_id, kinds.GROUP), (deployment, kinds.DEPLOYMENT), (recorded, kinds.DEPLOYMENT)])
    group = answers[stack.group_id.lower()]
    try:
        record = record_from(answers[recorded.lower()], stack.owner)
    except ValueError as error:
        raise InventoryError(str(error)) from None
    inside = GroupState(group)
    if group is not None:
        inside = GroupState(group, _listed(stack, arm), _locks(stack, arm))
    wanted = [(one, kind_of(one)) for one in (record.resources if record else {}) if kind_of(one) in kinds.API_VERSIONS]
    found = arm.read(one for one in wanted if one[1] != kinds.GROUP)
    accounts = [
        one
        for one in (record.resources if record else ())
        if record and may_be_empty(one, found.get(one.lower()), stack.owner, record, choices)
    ]
    contents = {one.lower(): content_of(stack, arm, found[one.lower()] or {}) for one in accounts}
    plan = teardown(stack.owner, stack.group_id, record, found, inside, choices, contents)
    plan = replace(
        plan, notes=(*plan.notes, *other_keys(stack, names, found), *_orphans(stack, names, arm, plan, found))
    )
    state = str(((answers[deployment.lower()] or {}).get("properties") or {}).get("provisioningState") or "")
    if state and state.lower() not in ENDED:
        problem = f"a deployment of the stack is still running ({names.deployment}: {state}). Wait until it has ended."
        plan = Teardown(**{**vars(plan), "problems": (*plan.problems, problem)})
    return plan


def remove(
    stack: Stack, arm: Arm, deployments: Deployments, plan: Teardown, choices: Choices, say: Callable[[str], None]
) -> Removed:
    """Delete what is planned, and record what is left.

    :raises InventoryError: a deletion failed. What was deleted before it is named, and recorded as deleted.
    """
    names = Names(stack)
    deleted: list[str] = []
    try:
        for kind, group in groupby(plan.delete, key=kind_of):
            members = list(group)
            if kind == kinds.ACCOUNT:
                _still_empty(stack, arm, [one for one in members if one.rsplit("/", 1)[-1].lower() not in choices.data])
            _delete(arm, kind, members, deleted, say, len(plan.delete))
            if kind == kinds.VAULT and choices.purge:
                _purge(stack, arm, [one for one in plan.delete if kind_of(one) == kind], say)
    except InventoryError as error:
        done = ", ".join(label_of(one) for one in deleted) or "nothing"
        words = f"{error} Deleted: {done}."
        try:
            _record(deployments, names, plan, deleted)
        except InventoryError as second:
            # The next run sees what is gone.
            words += f" This could not be recorded: {second}"
        raise InventoryError(f"{words} Correct this, and run it again.") from None
    left = _left(stack, arm) if plan.group else []
    if plan.group and not left:
        say(f"deleting {label_of(stack.group_id)}")
        arm.begin("DELETE", stack.group_id, kinds.GROUP)()
        deleted.append(stack.group_id)
        return Removed(tuple(deleted), plan)
    if left:
        why = f"Azure lists {listed([label_of(one) for one in left])} in it. Run this again to delete what is ours"
        plan = replace(plan, stays=(*plan.stays, KeptResource(stack.group_id, why)))
    _record(deployments, names, plan, deleted)
    return Removed(tuple(deleted), plan)


def _left(stack: Stack, arm: Arm) -> list[str]:
    """Return what is left in the group. Waits, because Azure lists deleted resources for a while."""
    for _look in range(_LOOKS):
        left = [str(item["id"]) for item in _listed(stack, arm)]
        if not left or not arm.deadline.allows(_SETTLE_S):
            break
        arm.deadline.wait(_SETTLE_S)
    return left


def _listed(stack: Stack, arm: Arm) -> list[dict[str, object]]:
    return arm.read_list(
        f"{stack.group_id}/resources?{_RESOURCES}",
        f"the resources of {label_of(stack.group_id)}",
        "Microsoft.Resources/subscriptions/resourceGroups/resources/read",
    )


def _locks(stack: Stack, arm: Arm) -> list[Lock]:
    # Without a filter, Azure lists the locks at, above and below the group (documentation of Get-AzResourceLock).
    items = arm.read_list(
        f"{stack.group_id}/providers/{kinds.LOCK}?api-version={kinds.API_VERSIONS[kinds.LOCK]}",
        f"the locks of {label_of(stack.group_id)}",
        f"{kinds.LOCK}/read",
    )
    return [Lock(str(item["id"]), str((item.get("properties") or {}).get("level", ""))) for item in items]


def _orphans(
    stack: Stack, names: Names, arm: Arm, plan: Teardown, found: Mapping[str, Mapping[str, Any] | None]
) -> Iterator[str]:
    """Yield notes about roles that owners of other resources gave to identities that are deleted."""
    going = {one.lower() for one in plan.delete}
    principals: dict[str, set[str]] = {}
    for one in assignments(stack, names):
        stays = not f"{one.scope}/".lower().startswith(tuple(f"{gone}/" for gone in going))
        if one.foreign and stays and one.identity.lower() in going:
            properties = (found.get(one.identity.lower()) or {}).get("properties") or {}
            principals.setdefault(one.scope, set()).add(str(properties.get("principalId")).lower())
    left: dict[str, str] = {}
    for scope, deleted in principals.items():
        try:
            there = _roles_on(arm, scope)
        except InventoryError as error:
            yield (
                f"On {label_of(scope)}, owners may have given roles to identities that this deletes: {error} Ask an "
                f"owner to run az role assignment list --scope {scope}, and to delete the roles of the principals "
                f"{', '.join(sorted(deleted))}."
            )
            continue
        left |= {
            str(item["id"]): label_of(str(item["properties"]["scope"]))
            for item in there
            if str(item["properties"]["principalId"]).lower() in deleted and str(item["id"]).lower() not in going
        }
    if left:
        yield (
            f"Owners of {', '.join(sorted(set(left.values())))} gave roles to identities that this deletes. The role "
            "assignments stay, with an unknown principal. Ask the owners to delete them: az role assignment delete "
            f"--ids {' '.join(left)}"
        )


def _roles_on(arm: Arm, scope: str) -> list[dict[str, Any]]:
    version = kinds.API_VERSIONS[kinds.ROLE_ASSIGNMENT]
    return arm.read_list(
        f"{scope}/providers/{kinds.ROLE_ASSIGNMENT}?api-version={version}&$filter=atScope()",
        f"the role assignments on {label_of(scope)}",
        f"{kinds.ROLE_ASSIGNMENT}/read",
    )


def _delete(
    arm: Arm, kind: str, members: list[str], deleted: list[str], say: Callable[[str], None], number: int
) -> None:
    """Delete the resources of one type at the same time. Waits for those that Azure still considers to be in use."""
    say(f"{len(deleted)} of {number} resources are deleted: {', '.join(label_of(one) for one in members[:3])}")
    for attempt in range(_TRIES):
        errors = _delete_once(arm, kind, [one for one in members if one not in deleted], deleted)
        if not errors:
            return
        lasting = [error for error in errors.values() if not _IN_USE.fullmatch(error.code)]
        if lasting or attempt == _TRIES - 1 or not arm.deadline.allows(_RETRY_S):
            break
        codes = ", ".join(sorted({error.code for error in errors.values()}))
        say(f"waiting, because Azure reports as in use: {listed([label_of(one) for one in errors], 3)} ({codes})")
        arm.deadline.wait(_RETRY_S)
    raise InventoryError(" ".join(map(str, errors.values())))


def _delete_once(arm: Arm, kind: str, members: list[str], deleted: list[str]) -> dict[str, Refused]:
    """Delete resources, and return the errors by the ids of those that could not be deleted."""
    errors: dict[str, Refused] = {}
    started: list[tuple[str, Callable[[], None]]] = []
    for one in members:
        try:
            started.append((one, arm.begin("DELETE", one, kind)))
        except Refused as error:
            errors[one] = error
    for one, wait in started:
        try:
            wait()
            deleted.append(one)
        except Refused as error:
            errors[one] = error
    return errors


def _still_empty(stack: Stack, arm: Arm, accounts: list[str]) -> None:
    """Look again into storage accounts that were empty: by now, the machines that could write to them are gone.

    :raises InventoryError: one is not empty any more, or cannot be listed any more.
    """
    answers = arm.read((one, kinds.ACCOUNT) for one in accounts)
    for one in accounts:
        answer = answers[one.lower()]
        content = content_of(stack, arm, answer) if answer else None
        if content and not content.is_empty:
            why = f"contains {content.found}" if content.found else f"cannot be listed any more: {content.problem}"
            raise InventoryError(f"{label_of(one)} was empty, and {why}.")


def _purge(stack: Stack, arm: Arm, vaults: list[str], say: Callable[[str], None]) -> None:
    for one in vaults:
        name = one.rsplit("/", 1)[-1]
        say(f"purging the vault {name}")
        place = f"/subscriptions/{stack.subscription}/providers/Microsoft.KeyVault/locations/{stack.location}"
        arm.begin("POST", f"{place}/deletedVaults/{name}/purge", kinds.DELETED_VAULT)()


def _record(deployments: Deployments, names: Names, plan: Teardown, deleted: list[str]) -> None:
    """Record what is left; if nothing is, delete the stack's records."""
    record = remaining(plan, frozenset(one.lower() for one in deleted))
    if plan.record is None or record == plan.record:
        return
    if record is None:
        for name in (names.record, names.deployment):
            deployments.forget(name)
    else:
        deployments.run(names.record, record_template(record))
