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

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import FAIL, PASS, UNKNOWN, WARN

from .._azure.errors import listed
from .._azure.resources import name_of
from . import resource as kinds
from .addresses import RESERVED
from .data import Assignment
from .deployments import advice_for
from .plan import CREATE
from .preflight_facts import Answer, Facts, Lock, NameUse, Permission, Refusal, SubnetUse, Verdict
from .preflight_needs import Machines, Needs, Subnet

SUBSCRIPTION, RIGHTS, ROLE_RIGHTS, PROVIDERS = "subscription", "rights", "role_rights", "providers"
RESOURCES = "resources"
SUBNET, NAMES, LOCKS, VALIDATION, POLICIES = "subnet", "names", "locks", "validation", "policies"
ROLE_WRITE = "Microsoft.Authorization/roleAssignments/write"
_PERMISSIONS = "Microsoft.Authorization/permissions"
_NETWORK = "the virtual network in Azure"
_ASSIGNMENTS = "Microsoft.Authorization/roleAssignments"
_ROLES_TO_USE = {
    f"{kinds.VNET}/subnets": "Network Contributor",
    kinds.VNET: "Network Contributor",
    kinds.IDENTITY: "Managed Identity Operator",
    kinds.DNS_ZONE: "Private DNS Zone Contributor",
}
"""Built-in roles with the rights to use an adopted resource. Source: MicrosoftDocs/azure-docs, built-in-roles."""
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
    yield from _rights_elsewhere(needs, facts)
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
    yield from _role_rights(needs, facts, permissions.value)


def _rights_elsewhere(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Yield verdicts on the rights on adopted resources. That one does not exist is a verdict of ``resources``."""
    for scope, actions in needs.elsewhere.items():
        answer = facts.permissions_elsewhere.get(scope) or Answer(problem="it was not asked for")
        if answer.value is None:
            if answer.problem:
                yield answer.unknown(RIGHTS, scope, _PERMISSIONS)
            continue
        missing = [action for action in actions if not may(answer.value, action)]
        value = f"{len(actions) - len(missing)} of {len(actions)} actions"
        if missing:
            role = _ROLES_TO_USE[missing[0].rsplit("/", 2)[0]]
            action = (
                f"Ask an owner of {scope}: az role assignment create --assignee IDENTITY --role '{role}' --scope "
                f"{scope}. Needed actions: {', '.join(missing)}"
            )
            summary = f"the identity lacks {listed(missing, 3)}"
            yield Verdict(RIGHTS, scope, FAIL, summary, value, "all", _PERMISSIONS, action)
        else:
            yield Verdict(RIGHTS, scope, PASS, "the identity may use it", value, "all", _PERMISSIONS)


def _role_rights(needs: Needs, facts: Facts, permissions: list[Permission]) -> Iterator[Verdict]:
    """Yield verdicts on the assignments that the stack writes, and on those that owners of adopted resources write."""
    own = [one for one in needs.assignments if not one.foreign]
    foreign = [one for one in needs.assignments if one.foreign]
    rights = rights_to_assign(own)
    lacking = next((right for right in rights if not may(permissions, right)), "")
    unconditional = [one for one in permissions if not one.condition]
    if own and all(may(unconditional, right) for right in rights):
        yield Verdict(ROLE_RIGHTS, _count(own), PASS, "the identity may assign roles", "yes", "yes", _PERMISSIONS)
        own = []
    for members, verdict in ((own, FAIL if lacking else UNKNOWN), (foreign, WARN)):
        if members and facts.assigned.value is None:
            yield facts.assigned.unknown(ROLE_RIGHTS, _count(members), _ASSIGNMENTS)
        elif members:
            missing = [one for one in members if one not in (facts.assigned.value or ())]
            yield _assigned(members, missing, verdict, lacking)


def rights_to_assign(members: Iterable[Assignment]) -> tuple[str, ...]:
    """Return the actions that writing these assignments needs, with the role that the stack makes for some of them."""
    return (ROLE_WRITE, f"{kinds.ROLE}/write") if any(one.own for one in members) else (ROLE_WRITE,)


def _assigned(members: list[Assignment], missing: list[Assignment], verdict: str, lacking: str) -> Verdict:
    value = f"{len(members) - len(missing)} of {len(members)} exist"
    if not missing:
        return Verdict(ROLE_RIGHTS, _count(members), PASS, "all assignments exist", value, "all", _ASSIGNMENTS)
    summary = {
        FAIL: f"the identity lacks {lacking}, so an owner must assign the roles",
        UNKNOWN: "the identity may assign roles under a condition, which cannot be evaluated here",
        WARN: "owners of resources that the stack does not change must assign the roles",
    }[verdict]
    # The stack's identities exist only after its first run.
    action = "Give these commands to an owner, to run as soon as the identities exist: " + "; ".join(
        one.command(f"$(az identity show --ids {one.identity} --query principalId --output tsv)") for one in missing
    )
    if verdict == FAIL:
        action += ". Set identities.assign_roles to false in hpcai_stack."
    return Verdict(ROLE_RIGHTS, _count(members), verdict, summary, value, "all", _ASSIGNMENTS, action)


def _count(members: list[Assignment]) -> str:
    return f"{len(members)} role assignment{'s' if len(members) > 1 else ''}"


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
    if facts.subnets.value is None:
        return facts.subnets.unknown(SUBNET, about, _NETWORK)
    use = facts.subnets.value.get(subnet.id.lower())
    if use is not None:
        return _existing_subnet(about, use, members, facts)
    if not subnet.prefix:
        action = f"Check the id, and that the identity may read it: az network vnet subnet show --ids {subnet.id}"
        return Verdict(SUBNET, about, FAIL, "this subnet does not exist", source=_NETWORK, action=action)
    needed = sum(one.maximum for one in members)
    room = ipaddress.ip_network(subnet.prefix, strict=False).num_addresses - RESERVED
    return _room(about, needed, max(0, room), members, f"{subnet.prefix} without {RESERVED} reserved addresses")


def _existing_subnet(about: str, use: SubnetUse, members: list[Machines], facts: Facts) -> Verdict:
    if use.limit is None or use.used is None:
        action = "Count its free addresses by hand, and compare them with the sum of the maxima."
        return Verdict(SUBNET, about, UNKNOWN, "Azure does not say how full it is", source=_NETWORK, action=action)
    existing = facts.existing.value or {}
    needed = sum(max(0, one.maximum - existing.get(one.name.lower(), 0)) for one in members)
    return _room(about, needed, int(max(0, use.limit - use.used)), members, _NETWORK)


def _room(about: str, needed: int, room: int, members: list[Machines], source: str) -> Verdict:
    value, limit = f"{needed} addresses needed", f"{room} free"
    if needed <= room:
        summary = f"it has room for {room} more machines, {needed} are needed for the largest number of machines"
        return Verdict(SUBNET, about, PASS, summary, value, limit, source)
    names = ", ".join(one.label for one in members)
    summary = f"it has room for {room} more machines, but {names} can need {needed}"
    # Azure changes the range of a subnet only while nothing is in it.
    action = f"Use a larger address range or another subnet, or lower the maximum of {names}. It cannot grow later."
    return Verdict(SUBNET, about, FAIL, summary, value, limit, source, action)


def judge_names(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Check that the names of vault and storage account, which are unique in all of Azure, can be used."""
    for name, azure_id in needs.names.items():
        answer: Answer[NameUse] = facts.names.get(name) or Answer(problem="it was not asked for")
        if kinds.kind_of(azure_id) == kinds.VAULT:
            yield _vault(needs, name, answer)
        else:
            yield _name(f"storage account {name}", answer, "Microsoft.Storage/checkNameAvailability")


def _vault(needs: Needs, name: str, answer: Answer[NameUse]) -> Verdict:
    about = f"key vault {name}"
    if answer.value and answer.value.deleted:
        summary = f"a vault of this name is soft-deleted, and blocks it until {answer.value.deleted}"
        action = (
            f"Recover it (az keyvault recover --name {name}), purge it if nobody needs its secrets (az keyvault purge "
            f"--name {name} --location {needs.location}), or choose another name."
        )
        return Verdict(NAMES, about, FAIL, summary, source="Microsoft.KeyVault/deletedVaults", action=action)
    return _name(about, answer, "Microsoft.KeyVault/checkNameAvailability")


def _name(about: str, answer: Answer[NameUse], source: str) -> Verdict:
    use = answer.value
    if use is None:
        return answer.unknown(NAMES, about, source)
    if use.ours:
        return Verdict(NAMES, about, PASS, "it is the stack's own", source=source)
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
        action = "Correct this, or continue: provision validates before it makes the first resource in the group."
        yield answer.unknown(POLICIES, needs.group, source, action)
        return
    # A quota or a lock refuses many resources for one reason.
    reasons: dict[tuple[str, tuple[str, ...]], list[Refusal]] = {}
    for one in refusals:
        reasons.setdefault((one.code, one.policies), []).append(one)
    denied = False
    for (code, policies), members in reasons.items():
        about = listed([one.target for one in members if one.target]) or needs.group
        message = members[0].message
        if code.lower() in _POLICY_CODES:
            denied = True
            names = ", ".join(policies) or "a policy"
            action = (
                f"Ask the owner of the policy assignment {names} for an exemption of {needs.scope}, or change the "
                f"model so that it complies. Azure says: {message}"
            )
            yield Verdict(POLICIES, about, FAIL, f"denied by {names}", code, "", source, action)
        else:
            action = advice_for(code) or "Correct what Azure names, and run it again."
            yield Verdict(VALIDATION, about, FAIL, f"{code}: {message}", code, "", source, action)
    if not denied:
        # A policy can deny at the write what the validation could not evaluate.
        yield Verdict(POLICIES, needs.group, PASS, "no policy denies what the validation evaluates", source=source)
    if not refusals:
        yield Verdict(VALIDATION, needs.group, PASS, "Azure accepts the deployment", source=source)


def judge_resources(needs: Needs, facts: Facts) -> Iterator[Verdict]:
    """Report what is in the way of the plan: foreign resources, missing adopted ones, and what cannot be changed."""
    source = "the plan of provision"
    planned = facts.plan
    if planned.value is None:
        yield planned.unknown(RESOURCES, needs.group, source)
        return
    for problem in planned.value.problems:
        action = "Do what the message says. Provision refuses to run until then."
        yield Verdict(RESOURCES, needs.group, FAIL, problem, source=source, action=action)
    if not planned.value.problems:
        new = len(planned.value.of(CREATE))
        summary = f"nothing prevents provision: {new} resources to make, {len(planned.value.changes) - new} to change"
        yield Verdict(RESOURCES, needs.group, PASS, summary, source=source)
