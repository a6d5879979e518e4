# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the plan of the stack says: what exists, what is in the way, and what Azure's validation refuses.

The validation is the only way to ask for policies, and changes nothing. If the resource group does not exist, Azure
validates at the subscription: the group, and a nested deployment in it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .._azure.clients import Clients
from .._azure.errors import Asking, InventoryError, explain, printable
from . import resource as kinds
from .addresses import RESERVED
from .apply import AzureState, look
from .arm import Arm
from .model import Stack
from .names import Names
from .plan import CREATE, Plan
from .preflight_facts import Answer, Refusal, SubnetUse
from .resource import label_of
from .template import template, with_group

_NOT_VALIDATED = frozenset({kinds.GROUP, kinds.SECRET, kinds.ROLE_ASSIGNMENT, kinds.ROLE})
"""What is not in the template for the group. The group cannot contain itself, the secret's value is made at the write,
and role assignments contain ids of identities that may not exist yet. A role is judged with its assignments."""
_POLICY = re.compile(r'"policyAssignment":\s*\{[^{}]*"name":\s*"([^"]+)"')
_SHORT = 500
"""Most characters of one of Azure's messages; they end with long links."""


def look_at(stack: Stack, arm: Arm) -> tuple[Answer[AzureState], Answer[Plan]]:
    """Return what exists of the stack, and what a run would change."""
    try:
        azure = look(stack, arm)
    except InventoryError as error:
        return Answer(problem=str(error)), Answer(problem=str(error))
    return Answer(azure), Answer(azure.plan(stack))


def existing_machines(azure: AzureState) -> dict[str, int]:
    """Return how many machines of each set and machine exist, by lower-case name."""
    found = {}
    for one in azure.resources:
        answer = azure.found.get(one.id.lower())
        if answer is not None and one.kind in kinds.MACHINES:
            sku = answer.get("sku") or {}
            found[one.name.lower()] = int(sku.get("capacity") or 0) if one.kind == kinds.SCALE_SET else 1
    return found


def subnets_in(stack: Stack, azure: AzureState) -> dict[str, SubnetUse]:
    """Return how full the subnets of the existing network are, by their ids in lower case."""
    network = azure.found.get(Names(stack).network.lower()) or {}
    subnets = (network.get("properties") or {}).get("subnets") or []
    return {str(one.get("id")).lower(): _use(one.get("properties") or {}) for one in subnets}


def _use(properties: Mapping[str, Any]) -> SubnetUse:
    prefixes = properties.get("addressPrefixes") or [properties.get("addressPrefix")]
    try:
        sizes = [ipaddress.ip_network(str(prefix)) for prefix in prefixes]
    except ValueError:
        return SubnetUse(None, None)
    room = sum(max(0, size.num_addresses - RESERVED) for size in sizes if size.version == 4)
    # An empty subnet has no such list.
    return SubnetUse(len(properties.get("ipConfigurations") or []), room)


def validate(clients: Clients, stack: Stack, azure: Answer[AzureState], planned: Answer[Plan]) -> Answer[list[Refusal]]:
    """Return what Azure's validation refuses of the resources that a run would make."""
    if azure.value is None or planned.value is None:
        return Answer(problem=azure.problem)
    created = planned.value.of(CREATE)
    content = template((one.resource, one.body) for one in created if one.resource.kind not in _NOT_VALIDATED)
    if not content["resources"]:
        return Answer([])
    group = next((one for one in created if one.resource.kind == kinds.GROUP), None)
    if group is None and azure.value.found.get(stack.group_id.lower()) is None:
        return Answer(problem=f"the resource group {stack.group.name} does not exist, and the stack does not make it")
    asking = Asking("validate the deployment", "Microsoft.Resources/deployments/validate/action")
    name = Names(stack).deployment
    properties: dict[str, Any] = {"mode": "Incremental", "template": content}
    try:
        deployments = clients.deployments(stack.subscription).deployments
        if group is None:
            poller = deployments.begin_validate(stack.group.name, name, {"properties": properties})
        else:
            properties["template"] = with_group(group.resource, group.body, content, name)
            body = {"location": stack.location, "properties": properties}
            poller = deployments.begin_validate_at_subscription_scope(name, body)
        result = poller.result()
    except InventoryError as missing:
        return Answer(problem=str(missing))
    except Exception as failed:
        error = getattr(failed, "error", None)
        if getattr(failed, "status_code", None) != 400 or not getattr(error, "code", None):
            return Answer(problem=explain(failed, asking))
        return Answer(list(_refusals(error)))
    if getattr(result, "error", None):
        return Answer(list(_refusals(result.error)))
    skipped = _skipped(result)
    return Answer(problem=f"Azure did not validate the resources in the group: {skipped}") if skipped else Answer([])


def _skipped(result: Any) -> str:
    """Return why Azure left out a nested deployment, or an empty text."""
    found = getattr(getattr(result, "properties", None), "diagnostics", None) or []
    return "; ".join(printable(one.message) for one in found if str(one.code).startswith("NestedDeployment"))


def _refusals(error: Any) -> Iterator[Refusal]:
    """Yield the innermost errors, which name the cause."""
    details = [one for one in getattr(error, "details", None) or [] if one is not None]
    if details:
        for one in details:
            yield from _refusals(one)
        return
    target = str(getattr(error, "target", None) or "")
    words = printable(getattr(error, "message", "") or "")
    yield Refusal(
        code=printable(getattr(error, "code", "") or ""),
        message=words if len(words) <= _SHORT else f"{words[: _SHORT - 1]}…",
        target=label_of(target) if target.startswith("/") else target,
        policies=tuple(dict.fromkeys(_policies(error))),
    )


def _policies(error: Any) -> Iterator[str]:
    """Yield the policy assignments of an error: from its structured part, else from its message."""
    found = False
    for one in getattr(error, "additional_info", None) or []:
        info = getattr(one, "info", None)
        if isinstance(info, Mapping):
            name = info.get("policyAssignmentDisplayName") or info.get("policyAssignmentName")
            if name:
                found = True
                yield printable(name)
    if not found:
        yield from _POLICY.findall(str(getattr(error, "message", None) or ""))
