# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All requests of the preflight checks. None of them changes anything in Azure.

Their number depends on how many different images, networks and resource providers a cluster has, not on how many
machines or sets. The two POST requests only ask whether a name can be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from .._azure.clients import Clients, read_list
from .._azure.concurrency import Deadline, Job, WorkQueue
from .._azure.errors import Asking, explain
from .._azure.resources import name_of, resource_group_of, subscription_of, virtual_network_of
from . import preflight_answers as read
from .preflight_facts import Answer, Facts, NameUse
from .preflight_json import Manager
from .preflight_needs import Needs
from .preflight_scope import ROLE_WRITE, may

_THREADS = 6

Key = tuple[str, str]
Answers = dict[Key, Answer[Any]]


class Question(NamedTuple):
    """One question, which takes one request or a few.

    :ivar key: its kind, and what it is about.
    :ivar asking: for the error, if it is not answered.
    :ivar ask: sends it and returns the answer.
    """

    key: Key
    asking: Asking
    ask: Callable[[], Any]


def ask_azure(clients: Clients, deadline: Deadline, needs: Needs, refusals: Answer[Any]) -> Facts:
    """Ask everything. A question without an answer is a problem in the facts, never an exception.

    :param refusals: what Azure's validation of the deployment refuses.
    """
    queue = WorkQueue(_THREADS, deadline)
    try:
        return _ask_all(partial(_answers, queue), clients, needs, refusals)
    finally:
        queue.close()


def _ask_all(ask: Callable[[Iterable[Question]], Answers], clients: Clients, needs: Needs, refusals: Any) -> Facts:
    manager = Manager(clients)
    first = ask(_of_scope(manager, needs))
    facts = Facts(first["scope", "subscription"], first["scope", "group"])
    if facts.subscription.value is None:
        return replace(facts, requests=clients.requests)
    scope = needs.scope if facts.group.value is not None else f"/subscriptions/{needs.subscription}"
    answers = ask(
        [
            *_of_machines(clients, needs, group_exists=facts.group.value is not None),
            *_of_rights(manager, needs, scope),
            *_of_networks(clients, needs),
            *_of_names(manager, needs),
        ]
    )
    facts = replace(
        facts,
        usages=answers["quota", ""],
        skus=answers["sizes", ""],
        existing=_merged(_by_name(answers, "existing").values()),
        images=_by_name(answers, "image"),
        permissions=answers["permissions", ""],
        providers=_by_name(answers, "provider"),
        locks=_without_doubles(_by_name(answers, "locks").values()),
        subnets=_subnets(_by_name(answers, "network"), needs),
        vault=answers.get(("name", "vault"), Answer(NameUse())),
        storage=answers.get(("name", "storage"), Answer(NameUse())),
        refusals=refusals,
    )
    rest = ask(_of_answers(manager, needs, facts))
    return replace(
        facts,
        terms=_by_name(rest, "terms"),
        assigned=rest.get(("assigned", ""), Answer([])),
        requests=clients.requests,
    )


def _answers(queue: WorkQueue, questions: Iterable[Question]) -> Answers:
    """Ask in parallel. What Azure does not have is an answer without a value."""
    answers: Answers = {}

    def answered(question: Question, value: Any) -> None:
        answers[question.key] = Answer(value)

    def failed(question: Question, error: Exception) -> None:
        gone = read.is_missing(error)
        answers[question.key] = Answer() if gone else Answer(problem=explain(error, question.asking))

    for one in questions:
        queue.add(Job(one.asking, one.ask, partial(answered, one), partial(failed, one)))
    queue.drain()
    return answers


def _by_name(answers: Answers, kind: str) -> dict[str, Answer[Any]]:
    return {name: answer for (of_kind, name), answer in answers.items() if of_kind == kind}


def _merged(answers: Iterable[Answer[Any]]) -> Answer[dict[str, int]]:
    """Return several mappings as one, or the first problem of them."""
    merged: dict[str, int] = {}
    for answer in answers:
        if answer.problem:
            return answer
        merged.update(answer.value or {})
    return Answer(merged)


def _without_doubles(answers: Iterable[Answer[Any]]) -> Answer[Any]:
    """Return all locks: those of the subscription may include those of the group."""
    found: dict[tuple[str, str], Any] = {}
    for answer in answers:
        if answer.problem:
            return answer
        found |= {(lock.scope.lower(), lock.name.lower()): lock for lock in answer.value or ()}
    return Answer(list(found.values()))


def _subnets(networks: Mapping[str, Answer[Any]], needs: Needs) -> dict[str, Answer[Any]]:
    found = {}
    for subnet in needs.subnets:
        answer = networks[str(virtual_network_of(subnet.id)).lower()]
        found[subnet.id.lower()] = replace(answer, value=(answer.value or {}).get(subnet.id.lower()))
    return found


def _of_scope(manager: Manager, needs: Needs) -> Iterator[Question]:
    path = f"/subscriptions/{needs.subscription}"
    yield Question(
        ("scope", "subscription"),
        Asking(f"read subscription {needs.subscription}", "Microsoft.Resources/subscriptions/read"),
        lambda: str(manager.get(path, "2022-12-01")["state"]),
    )
    yield Question(
        ("scope", "group"),
        Asking(f"read resource group {needs.group}", "Microsoft.Resources/subscriptions/resourceGroups/read"),
        lambda: str(manager.get(needs.scope, "2021-04-01")["location"]),
    )


def _of_machines(clients: Clients, needs: Needs, *, group_exists: bool) -> Iterator[Question]:
    compute = clients.compute(needs.subscription)
    where = f"of subscription {needs.subscription} in {needs.location}"
    yield Question(
        ("quota", ""),
        Asking(f"list the quota {where}", "Microsoft.Compute/locations/usages/read"),
        lambda: read_list(compute.usage.list(needs.location), read.usage_of),
    )
    yield Question(
        ("sizes", ""),
        Asking(f"list the VM sizes {where}", "Microsoft.Compute/skus/read"),
        partial(read.skus_of, compute, needs),
    )
    for image in dict.fromkeys(one.image for one in needs.machines):
        ask = read.image_reader(clients, needs, image)
        if ask:
            yield Question(("image", image), Asking(f"read image {image}", "Microsoft.Compute/*/read on it"), ask)
    if group_exists:
        yield Question(
            ("existing", "sets"),
            Asking(f"list the scale sets of {needs.group}", "Microsoft.Compute/virtualMachineScaleSets/read"),
            partial(read.sets_in, compute, needs.group),
        )
        yield Question(
            ("existing", "machines"),
            Asking(f"list the virtual machines of {needs.group}", "Microsoft.Compute/virtualMachines/read"),
            partial(read.machines_in, compute, needs.group),
        )


def _of_rights(manager: Manager, needs: Needs, scope: str) -> Iterator[Question]:
    yield Question(
        ("permissions", ""),
        Asking(f"read the identity's permissions on {scope}", "Microsoft.Authorization/permissions/read"),
        partial(read.permissions_on, manager, scope),
    )
    for name in needs.providers:
        yield Question(
            ("provider", name),
            Asking(f"read resource provider {name}", "Microsoft.Resources/subscriptions/providers/read"),
            partial(read.registration_of, manager, needs.subscription, name),
        )
    for level in dict.fromkeys((scope, f"/subscriptions/{needs.subscription}")):
        yield Question(
            ("locks", level),
            Asking(f"list the locks of {level}", "Microsoft.Authorization/locks/read"),
            partial(read.locks_on, manager, level),
        )


def _of_networks(clients: Clients, needs: Needs) -> Iterator[Question]:
    for network in dict.fromkeys(str(virtual_network_of(subnet.id)) for subnet in needs.subnets):
        client = clients.network(str(subscription_of(network)))
        yield Question(
            ("network", network.lower()),
            Asking(f"read how full network {network} is", "Microsoft.Network/virtualNetworks/usages/read"),
            partial(read.subnets_of, client, str(resource_group_of(network)), name_of(network)),
        )


def _of_names(manager: Manager, needs: Needs) -> Iterator[Question]:
    if needs.vault:
        yield Question(
            ("name", "vault"),
            Asking(
                f"ask for the vault name {needs.vault}",
                "Microsoft.KeyVault/checkNameAvailability/read and Microsoft.KeyVault/locations/deletedVaults/read",
            ),
            partial(read.vault_name_use, manager, needs),
        )
    if needs.storage:
        yield Question(
            ("name", "storage"),
            Asking(f"ask for the account name {needs.storage}", "Microsoft.Storage/checknameavailability/read"),
            partial(read.name_use, manager, needs, read.STORAGE, needs.storage),
        )


def _of_answers(manager: Manager, needs: Needs, facts: Facts) -> Iterator[Question]:
    """Return the questions that follow from answers: marketplace terms, and the role assignments that exist."""
    plans = {answer.value.plan for answer in facts.images.values() if answer.value and answer.value.plan}
    for plan in sorted(plans):
        yield Question(
            ("terms", plan),
            Asking(
                f"read the terms of {plan}",
                "Microsoft.MarketplaceOrdering/offertypes/publishers/offers/plans/agreements/read",
            ),
            partial(read.terms_accepted, manager, needs.subscription, plan),
        )
    unconditional = [one for one in facts.permissions.value or () if not one.condition]
    if needs.assignments and not may(unconditional, ROLE_WRITE):
        yield Question(
            ("assigned", ""),
            Asking("list role assignments", "Microsoft.Authorization/roleAssignments/read"),
            partial(read.existing_assignments, manager, needs.assignments),
        )
