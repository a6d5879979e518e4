# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight checks of the subscription and the resource group. Pure.

Subscription, rights, resource providers, subnets, names, locks, and policies.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, UNKNOWN, WARN

from .._azure.errors import listed
from .._azure.resources import name_of
from .preflight_facts import Answer, Facts, Lock, NameUse, Permission, SubnetUse, Verdict
from .preflight_needs import Assignment, Machines, Needs, Subnet

SUBSCRIPTION, RIGHTS, ROLE_RIGHTS, PROVIDERS = "subscription", "rights", "role_rights", "providers"
SUBNET, NAMES, LOCKS, VALIDATION, POLICIES = "subnet", "names", "locks", "validation", "policies"
ROLE_WRITE = "Microsoft.Authorization/roleAssignments/write"
RESERVED = 5
"""Addresses of each subnet that Azure keeps for itself: the first four and the last."""
_PERMISSIONS = "Microsoft.Authorization/permissions"
_POLICY_CODES = ("requestdisallowedbypolicy", "policyviolation")


def judge_subscription(needs: Needs, facts: Facts) -> Verdict:
    """Check that the subscription can be read and used."""
    about, source = needs.subscription, "GET /subscriptions"
    answer = facts.subscription
    if answer.value is None:
        # Also a failure of the request: without the subscription, nothing can be made.
        summary = answer.problem or "this subscription does not exist for the identity that signs in"
        action = (
            "Sign in to the tenant of the subscription (tenant_id, or az login --tenant TENANT), check its id with "
            "'az account list --output table', and give the identity the role Reader on it."
        )
        return Verdict(SUBSCRIPTION, about, FAIL, summary, source=source, action=action)
    if answer.value.lower() != "enabled":
        action = "Ask the subscription's owner or Azure's billing support to enable it."
        summary = f"its state is {answer.value}"
        return Verdict(SUBSCRIPTION, about, FAIL, summary, answer.value, "Enabled", source, action)
    return Verdict(SUBSCRIPTION, about, PASS, "it can be read, and is enabled", answer.value, "Enabled", source)


def judge_rights(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Check that the identity may make the resources, and the role assignments."""
    about = needs.scope
    permissions = facts.permissions
    if permissions.value is None:
        yield permissions.unknown(RIGHTS, about, _PERMISSIONS)
        if needs.assignments:
            yield permissions.unknown(ROLE_RIGHTS, about, _PERMISSIONS)
        return
    missing = [action for action in needs.actions if not may(permissions.value, action)]
    value = f"{len(needs.actions) - len(missing)} of {len(needs.actions)} actions"
    if missing:
        summary = f"the identity lacks {listed(missing, 3)}"
        action = (
            f"Ask an owner of {needs.scope}: az role assignment create --assignee IDENTITY --role Contributor --scope "
            f"{needs.scope}. Needed actions: {', '.join(missing)}"
        )
        yield Verdict(RIGHTS, about, FAIL, summary, value, "all", _PERMISSIONS, action)
    else:
        yield Verdict(RIGHTS, about, PASS, "the identity may make all resources", value, "all", _PERMISSIONS)
    if needs.assignments:
        yield _role_rights(needs, facts, permissions.value)


def _role_rights(needs: Needs, facts: Facts, permissions: list[Permission]) -> Verdict:
    about = f"{len(needs.assignments)} role assignment{'s' if len(needs.assignments) > 1 else ''}"
    granting = [one for one in permissions if _grants(one, ROLE_WRITE)]
    if any(not one.condition for one in granting):
        return Verdict(ROLE_RIGHTS, about, PASS, "the identity may assign roles", "yes", "yes", _PERMISSIONS)
    if facts.assigned.value is None:
        return facts.assigned.unknown(ROLE_RIGHTS, about, "Microsoft.Authorization/roleAssignments")
    missing = [one for one in needs.assignments if one not in facts.assigned.value]
    if not missing:
        summary = "the identity cannot assign roles, but all assignments exist already"
        return Verdict(ROLE_RIGHTS, about, PASS, summary, "no", "yes", _PERMISSIONS)
    action = "Give these commands to an owner, to run once the identities exist: " + "; ".join(
        assignment_command(one) for one in missing
    )
    if granting:
        summary = "the identity may assign roles under a condition, which cannot be evaluated here"
        return Verdict(ROLE_RIGHTS, about, UNKNOWN, summary, granting[0].condition, "yes", _PERMISSIONS, action)
    summary = f"the identity cannot assign roles ({ROLE_WRITE}); {len(missing)} assignments are missing"
    return Verdict(ROLE_RIGHTS, about, FAIL, summary, "no", "yes", _PERMISSIONS, action)


def assignment_command(one: Assignment) -> str:
    """Return the command with which an owner makes a role assignment."""
    identity = f"$(az identity show --ids {one.identity} --query principalId --output tsv)"
    return (
        f"az role assignment create --assignee-object-id {identity} --assignee-principal-type ServicePrincipal "
        f"--role '{one.role}' --scope {one.scope}"
    )


def may(permissions: Iterable[Permission], action: str) -> bool:
    """Say whether one of the roles permits an action. Azure ignores case, and ``*`` matches anything."""
    return any(_grants(one, action) for one in permissions)


def _grants(one: Permission, action: str) -> bool:
    return _matches(one.actions, action) and not _matches(one.not_actions, action)


def _matches(patterns: Iterable[str], action: str) -> bool:
    # Not fnmatch, for which [ and ? are special too.
    parts = (map(re.escape, pattern.split("*")) for pattern in patterns)
    return any(re.fullmatch(".*".join(part), action, re.IGNORECASE) for part in parts)


def judge_providers(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Check that the resource providers are registered. Registering one is a write, which preflight never does."""
    source = "GET providers/NAMESPACE"
    for name in needs.providers:
        answer: Answer[str] = facts.providers.get(name) or Answer(problem="it was not asked for")
        if answer.value is None:
            yield answer.unknown(PROVIDERS, name, source)
        elif answer.value.lower() == "registered":
            yield Verdict(PROVIDERS, name, PASS, "it is registered", answer.value, "Registered", source)
        else:
            action = f"az provider register --namespace {name} --subscription {needs.subscription} --wait"
            verdict = WARN if answer.value.lower() == "registering" else FAIL
            summary = f"its state is {answer.value}"
            yield Verdict(PROVIDERS, name, verdict, summary, answer.value, "Registered", source, action)


def judge_subnets(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Check that each subnet has room for all machines at the largest size."""
    for subnet in needs.subnets:
        yield _subnet(needs, subnet, facts)


def _subnet(needs: Needs, subnet: Subnet, facts: Facts) -> Verdict:
    about = name_of(subnet.id)
    members = [one for one in needs.machines if one.subnet.lower() == subnet.id.lower()]
    answer: Answer[SubnetUse] = facts.subnets.get(subnet.id.lower()) or Answer()
    if answer.problem:
        return answer.unknown(SUBNET, about, "virtual network usages")
    if answer.value is not None:
        return _existing_subnet(about, answer.value, members, facts)
    if not subnet.prefix:
        action = f"Check the id, and that the identity may read it: az network vnet subnet show --ids {subnet.id}"
        return Verdict(
            SUBNET, about, FAIL, "this subnet does not exist", source="virtual network usages", action=action
        )
    needed = sum(one.maximum for one in members)
    room = ipaddress.ip_network(subnet.prefix, strict=False).num_addresses - RESERVED
    return _room(about, needed, max(0, room), members, f"{subnet.prefix} without {RESERVED} reserved addresses")


def _existing_subnet(about: str, use: SubnetUse, members: list[Machines], facts: Facts) -> Verdict:
    source = "virtual network usages"
    if use.limit is None or use.used is None:
        action = "Count its free addresses by hand, and compare them with the sum of the maxima."
        return Verdict(SUBNET, about, UNKNOWN, "Azure does not say how full it is", source=source, action=action)
    existing = facts.existing.value or {}
    needed = sum(max(0, one.maximum - existing.get(one.name.lower(), 0)) for one in members)
    return _room(about, needed, int(max(0, use.limit - use.used)), members, source)


def _room(about: str, needed: int, room: int, members: list[Machines], source: str) -> Verdict:
    value, limit = f"{needed} addresses needed", f"{room} free"
    if needed <= room:
        summary = f"it has room for {room} more machines, {needed} are needed at the largest size"
        return Verdict(SUBNET, about, PASS, summary, value, limit, source)
    names = ", ".join(one.label for one in members)
    summary = f"it has room for {room} more machines, but {names} can need {needed}"
    # Azure changes the range of a subnet only while nothing is in it.
    action = f"Use a larger address range or another subnet, or lower the maximum of {names}. It cannot grow later."
    return Verdict(SUBNET, about, FAIL, summary, value, limit, source, action)


def judge_names(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Check that the names of vault and storage account, which are unique in all of Azure, can be used."""
    if needs.vault:
        yield _vault(needs, facts.vault)
    if needs.storage:
        yield _name(f"storage account {needs.storage}", facts.storage, "Microsoft.Storage/checkNameAvailability")


def _vault(needs: Needs, answer: Answer[NameUse]) -> Verdict:
    about = f"key vault {needs.vault}"
    if answer.value and answer.value.deleted and not answer.value.ours:
        summary = f"a vault of this name is soft-deleted, and blocks it until {answer.value.deleted}"
        action = (
            f"Recover it (az keyvault recover --name {needs.vault}), purge it if nobody needs its secrets (az keyvault "
            f"purge --name {needs.vault} --location {needs.location}), or choose another name."
        )
        return Verdict(NAMES, about, FAIL, summary, source="Microsoft.KeyVault/deletedVaults", action=action)
    return _name(about, answer, "Microsoft.KeyVault/checkNameAvailability")


def _name(about: str, answer: Answer[NameUse], source: str) -> Verdict:
    use = answer.value
    if use is None:
        return answer.unknown(NAMES, about, source)
    if use.ours:
        return Verdict(NAMES, about, PASS, "it exists in the stack's resource group", source=source)
    if use.reason:
        summary = f"Azure refuses the name ({use.reason}); these names are unique in all of Azure"
        return Verdict(NAMES, about, FAIL, summary, use.reason, "", source, "Choose another name.")
    return Verdict(NAMES, about, PASS, "nobody uses the name", source=source)


def judge_locks(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Check that no lock prevents writes to what the stack makes, and warn about those that prevent teardown."""
    source = "Microsoft.Authorization/locks"
    if facts.locks.value is None:
        yield facts.locks.unknown(LOCKS, needs.group, source)
        return
    ours = [lock for lock in facts.locks.value if _concerns(lock, needs)]
    for lock in ours:
        about = f"lock {lock.name} on {lock.scope}"
        if lock.level.lower() == "readonly":
            summary = "a read-only lock prevents all writes"
            action = f"Ask its owner to delete it: az lock delete --name {lock.name} --resource {lock.scope}"
            yield Verdict(LOCKS, about, FAIL, summary, lock.level, "", source, action)
        else:
            summary = "it prevents teardown and the deletion of machines in sets"
            action = "Ask its owner whether machines may be deleted below it."
            yield Verdict(LOCKS, about, WARN, summary, lock.level, "", source, action)
    if not ours:
        yield Verdict(LOCKS, needs.group, PASS, "no lock concerns what the stack makes", source=source)


def _concerns(lock: Lock, needs: Needs) -> bool:
    """Say whether a lock is on the group, on something above it, or on a resource that the stack makes."""
    scope = lock.scope.rstrip("/").lower()
    group = needs.scope.lower()
    if f"{group}/".startswith(f"{scope}/"):
        return True
    return any(f"{made.lower()}/".startswith(f"{scope}/") for made in needs.resources)


def judge_validation(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Report what Azure's validation of the deployment refuses, policies separately."""
    source = "deployments validate"
    refusals = facts.refusals.value
    if refusals is None:
        answer: Answer[Any] = facts.refusals
        yield answer.unknown(POLICIES, needs.group, source)
        return
    denied = [one for one in refusals if one.code.lower() in _POLICY_CODES]
    for one in refusals:
        about = one.target or needs.group
        if one in denied:
            names = ", ".join(one.policies) or "a policy"
            action = (
                f"Ask the owner of the policy assignment {names} for an exemption of {needs.scope}, or change the "
                f"model so that it complies. Azure says: {one.message}"
            )
            yield Verdict(POLICIES, about, FAIL, f"denied by {names}", one.code, "", source, action)
        else:
            action = "Mend what Azure names, and run it again."
            yield Verdict(VALIDATION, about, FAIL, f"{one.code}: {one.message}", one.code, "", source, action)
    if not denied:
        # A policy can deny at the write what the validation could not evaluate.
        yield Verdict(POLICIES, needs.group, PASS, "no policy denies what the validation evaluates", source=source)
    if not refusals:
        yield Verdict(VALIDATION, needs.group, PASS, "Azure accepts the deployment", source=source)
