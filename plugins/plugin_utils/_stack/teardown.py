# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Teardown of a stack: what is deleted, what stays and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import resource as kinds
from .compare import writable
from .ownership import Record, owner_of, unique_of
from .resource import kind_of, label_of

ORDER: Sequence[str] = (
    # Assignments of a deleted identity would stay behind as unknown principals. Without its own, the controller cannot
    # grow an elastic scale set that is about to be deleted.
    kinds.ROLE_ASSIGNMENT,
    kinds.ROLE,
    kinds.SCALE_SET,
    kinds.VM,
    kinds.BASTION_HOST,
    kinds.ENDPOINT,
    kinds.NIC,
    kinds.DISK,
    kinds.DNS_LINK,
    kinds.DNS_ZONE,
    kinds.VAULT,
    kinds.ACCOUNT,
    kinds.VNET,
    kinds.NAT,
    kinds.PUBLIC_ADDRESS,
    kinds.NSG,
    kinds.IDENTITY,
)
"""The types in the order of deletion; resources of one type are deleted at the same time."""
_PARTS = frozenset({kinds.BLOBS, kinds.CONTAINER, kinds.FILES, kinds.SHARE, kinds.SECRET, kinds.ENDPOINT_ZONES})
"""Types that go with the resource that contains them."""
_DATA = frozenset({kinds.ACCOUNT, kinds.DISK})


@dataclass(frozen=True)
class KeptResource:
    """A resource that is not deleted.

    :ivar why: the reason, which continues "stays: ".
    """

    id: str
    why: str

    def __str__(self) -> str:
        return f"{label_of(self.id)} stays: {self.why}"


@dataclass(frozen=True)
class Lock:
    """A management lock.

    :ivar id: its resource id.
    :ivar level: ``CanNotDelete`` or ``ReadOnly``.
    """

    id: str
    level: str

    @property
    def scope(self) -> str:
        """What it protects."""
        return self.id.lower().rsplit(f"/providers/{kinds.LOCK}/".lower(), 1)[0]


@dataclass(frozen=True)
class Content:
    """What is known about the content of a storage account.

    :ivar found: the first thing that it contains; empty if nothing was found.
    :ivar problem: why not everything could be listed; empty if it could.
    """

    found: str = ""
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it certainly contains nothing."""
        return not (self.found or self.problem)


@dataclass(frozen=True)
class Choices:
    """What the operator asked for.

    :ivar data: lower-case names of accounts and disks whose data may be deleted.
    :ivar purge: whether the vault is purged, so that its name is free at once and its secrets are lost.
    """

    data: frozenset[str] = frozenset()
    purge: bool = False


@dataclass(frozen=True)
class Teardown:
    """What is deleted.

    :ivar delete: ids, in the order of deletion.
    :ivar group: whether the group is deleted in the end, if nothing is left in it.
    :ivar gone: ids of recorded resources that no longer exist.
    :ivar stays: what is not deleted.
    :ivar notes: what stays behind in Azure nevertheless.
    :ivar problems: why nothing is deleted at all.
    """

    delete: tuple[str, ...] = ()
    group: bool = False
    gone: tuple[str, ...] = ()
    stays: tuple[KeptResource, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    record: Record | None = field(default=None)


@dataclass(frozen=True)
class GroupState:
    """What is in the stack's group.

    :ivar group: its answer; None if it does not exist.
    :ivar listed: all resources in it.
    :ivar locks: the locks that concern it.
    """

    group: Mapping[str, Any] | None
    listed: Sequence[Mapping[str, Any]] = ()
    locks: Sequence[Lock] = ()


def teardown(
    owner: str,
    group_id: str,
    record: Record | None,
    found: Mapping[str, Mapping[str, Any] | None],
    inside: GroupState,
    choices: Choices,
    contents: Mapping[str, Content] | None = None,
) -> Teardown:
    """Return what is deleted: what is recorded, still has the stack's tag, and is still the same resource. Pure.

    :param owner: the value of the tag.
    :param found: Azure's answers about the recorded resources, by lower-case id.
    :param contents: what storage accounts contain, by lower-case id, of those that were looked into.
    """
    if inside.group is None:
        return Teardown()
    if record is None:
        return _without_record(owner, inside)
    delete: list[str] = []
    gone: list[str] = []
    stays: list[KeptResource] = []
    for one in record.resources:
        kind = kind_of(one)
        if kind == kinds.GROUP or kind in _PARTS:
            continue
        there = found.get(one.lower())
        if there is None:
            gone.append(one)
        elif why := _why_it_stays(one, kind, there, owner, record, choices, (contents or {}).get(one.lower())):
            stays.append(KeptResource(one, why))
        else:
            delete.append(one)
    stays += _used_by_others(delete, found)
    stays += _needed_by(stays, delete, found)
    kept = {one.id.lower() for one in stays}
    delete = sorted((one for one in delete if one.lower() not in kept), key=lambda one: ORDER.index(kind_of(one)))
    going = {one.lower() for one in delete} | _with_them(delete, found)
    # Azure lists what is gone for a while, and extensions as resources, which it deletes with their machine.
    expected = going | kept | {one.lower() for one in gone}
    foreign = [
        KeptResource(one, "the stack did not make it")
        for one in (str(item["id"]) for item in inside.listed)
        if one.lower() not in expected and not one.lower().startswith(tuple(f"{parent}/" for parent in going))
    ]
    group, group_stays = _group(owner, group_id, record, inside, bool(foreign or stays))
    return Teardown(
        delete=tuple(delete),
        group=group,
        gone=tuple(gone),
        stays=(*stays, *foreign, *group_stays),
        notes=tuple(_notes(delete, found, choices)),
        problems=tuple(_locked(inside.locks, group_id, [*delete, *([group_id] if group else [])])),
        record=record,
    )


def remaining(plan: Teardown, deleted: frozenset[str]) -> Record | None:
    """Return the record after these resources were deleted; None if nothing is left to record.

    :param deleted: lower-case ids.
    """
    if plan.record is None:
        return None
    gone = deleted | {one.lower() for one in plan.gone}
    rest = {
        key: value
        for key, value in plan.record.resources.items()
        if key.lower() not in gone and not key.lower().startswith(tuple(f"{one}/" for one in gone))
    }
    # The group is still ours if only foreign resources keep it. Parts alone are not worth a record.
    alive = [key for key in rest if kind_of(key) not in _PARTS]
    left = {key.lower() for key in rest}
    admitted = {key: ranges for key, ranges in plan.record.admitted.items() if key in left}
    return Record(plan.record.owner, rest, admitted) if alive else None


def _without_record(owner: str, inside: GroupState) -> Teardown:
    ours = [str(item["id"]) for item in inside.listed if owner_of(item) == owner]
    if not ours and owner_of(inside.group or {}) != owner:
        return Teardown()
    names = ", ".join(label_of(one) for one in ours) or "its group"
    return Teardown(
        problems=(
            f"there is no record of what the stack {owner} made, and {names} with its tag. A tag alone proves nothing. "
            "Complete a run of hpcai.azure.provision, which records them, and then run this again.",
        )
    )


def may_be_empty(
    resource_id: str, there: Mapping[str, Any] | None, owner: str, record: Record, choices: Choices
) -> bool:
    """Say whether only its content decides if a storage account is deleted."""
    kind = kind_of(resource_id)
    return (
        kind == kinds.ACCOUNT
        and there is not None
        and bool(_why_it_stays(resource_id, kind, there, owner, record, choices, Content("anything")))
        and not _why_it_stays(resource_id, kind, there, owner, record, choices, Content())
    )


def _why_it_stays(
    resource_id: str,
    kind: str,
    there: Mapping[str, Any],
    owner: str,
    record: Record,
    choices: Choices,
    content: Content | None,
) -> str:
    if kind not in ORDER:
        return f"this release does not know how to delete a {kind}"
    if kind not in kinds.UNTAGGED:
        tag = owner_of(there)
        if tag != owner:
            return f"its tag hpcai_stack is {tag}, not {owner}" if tag else "its tag hpcai_stack is gone"
    recorded, now = record.unique(resource_id), unique_of(kind, there)
    if recorded.lower() != now.lower():
        return f"it is not what the stack made: its {kinds.UNIQUE[kind]} is {now}, and {recorded} is recorded"
    name = resource_id.rsplit("/", 1)[-1]
    if kind in _DATA and name.lower() not in choices.data and not (content and content.is_empty):
        # Azure Resource Manager does not tell whether a container, a share or a disk is empty.
        prefix = f"{resource_id}/".lower()
        parts = [
            key.rsplit("/", 1)[-1]
            for key in record.resources
            if key.lower().startswith(prefix) and kind_of(key) in (kinds.CONTAINER, kinds.SHARE)
        ]
        inside = f" ({', '.join(parts)})" if parts else ""
        named = f"to delete it with its data, name it: teardown_data: [{name}]"
        if content and content.found:
            return f"it contains {content.found}; {named}"
        return f"it may contain data{inside}{f', because {content.problem}' if content else ''}; {named}"
    return ""


def _used_by_others(delete: Sequence[str], found: Mapping[str, Mapping[str, Any] | None]) -> list[KeptResource]:
    """Return the networks in which there is an interface of a resource that is not deleted."""
    going = tuple(f"{one.lower()}/" for one in delete) + tuple(f"{one}/" for one in _with_them(delete, found))
    stays = []
    for one in delete:
        if kind_of(one) != kinds.VNET:
            continue
        subnets = ((found.get(one.lower()) or {}).get("properties") or {}).get("subnets") or []
        users = [
            str(item.get("id", ""))
            for subnet in subnets
            for item in (subnet.get("properties") or {}).get("ipConfigurations") or []
        ]
        foreign = next((user for user in users if not user.lower().startswith(going)), None)
        if foreign is not None:
            stays.append(KeptResource(one, f"{label_of(foreign.rsplit('/ipConfigurations/', 1)[0])} uses it"))
    return stays


def _needed_by(
    stays: Iterable[KeptResource], delete: Iterable[str], found: Mapping[str, Mapping[str, Any] | None]
) -> list[KeptResource]:
    """Return what else must stay, because something that stays refers to it."""

    def text_of(resource_id: str) -> str:
        return str(writable(kind_of(resource_id), found.get(resource_id.lower()) or {})).lower()

    texts = {one.id: text_of(one.id) for one in stays}
    extra: list[KeptResource] = []
    waiting = [one for one in delete if one not in texts]
    again = True
    while again:
        again = False
        for one in list(waiting):
            # A storage account's rules for subnets do not need the network.
            user = next(
                (
                    user
                    for user, text in texts.items()
                    if kind_of(user) not in _DATA and (f"'{one.lower()}'" in text or f"'{one.lower()}/" in text)
                ),
                None,
            )
            if user is not None:
                extra.append(KeptResource(one, f"{label_of(user)}, which stays, needs it"))
                texts[one] = text_of(one)
                waiting.remove(one)
                again = True
    return extra


def _with_them(delete: Iterable[str], found: Mapping[str, Mapping[str, Any] | None]) -> set[str]:
    """Return the lower-case ids of what Azure deletes with these resources: system disks, interfaces of endpoints."""
    result: set[str] = set()
    for one in delete:
        properties = (found.get(one.lower()) or {}).get("properties") or {}
        disk = ((properties.get("storageProfile") or {}).get("osDisk")) or {}
        if str(disk.get("deleteOption", "")).lower() == "delete":
            result.add(str((disk.get("managedDisk") or {}).get("id", "")).lower())
        if kind_of(one) == kinds.ENDPOINT:
            result |= {str(item.get("id", "")).lower() for item in properties.get("networkInterfaces") or []}
    return result - {""}


def _group(
    owner: str, group_id: str, record: Record, inside: GroupState, more: bool
) -> tuple[bool, list[KeptResource]]:
    if not record.has(group_id):
        return False, [KeptResource(group_id, "the stack did not make it")]
    if owner_of(inside.group or {}) != owner:
        return False, [KeptResource(group_id, f"its tag hpcai_stack is not {owner}")]
    if more:
        return False, [KeptResource(group_id, "there are other resources in it")]
    return True, []


def _locked(locks: Iterable[Lock], group_id: str, delete: Sequence[str]) -> list[str]:
    """Return the locks that forbid to delete, or to write in the group."""
    problems = []
    for lock in locks:
        inside = lock.scope == group_id.lower() or lock.scope.startswith(f"{group_id}/".lower())
        above = group_id.lower().startswith(f"{lock.scope}/")
        if delete and (inside or above):
            problems.append(
                f"the lock {lock.id.rsplit('/', 1)[-1]} ({lock.level}) on {label_of(lock.scope)} forbids the teardown. "
                f"Whoever set it may remove it: az lock delete --ids {lock.id}"
            )
    return problems


def _notes(delete: Iterable[str], found: Mapping[str, Mapping[str, Any] | None], choices: Choices) -> Iterable[str]:
    for one in delete:
        if kind_of(one) == kinds.VAULT and not choices.purge:
            days = ((found.get(one.lower()) or {}).get("properties") or {}).get(
                "softDeleteRetentionInDays"
            ) or "up to 90"
            yield (
                f"Azure keeps the deleted vault {one.rsplit('/', 1)[-1]} with its secrets for {days} days, and blocks "
                "its name. To free the name at once, add -e teardown_purge_vault=true, or purge it: az keyvault purge "
                f"--name {one.rsplit('/', 1)[-1]}"
            )
