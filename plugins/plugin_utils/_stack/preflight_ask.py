# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All requests of the preflight checks. None of them changes anything in Azure.

There is one for each resource of the stack, as for a plan, and one or a few for each different image, resource provider
and unique name. The POST requests only ask whether a name can be used, and for a validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from .._azure.clients import Clients, read_list
from .._azure.concurrency import Deadline, Job, WorkQueue
from .._azure.errors import Asking, explain
from . import preflight_answers as read
from . import resource as kinds
from .arm import Arm
from .model import Stack
from .preflight_facts import Answer, Facts, NameUse
from .preflight_json import ResourceManager
from .preflight_look import existing_machines, look_at, subnets_in, validate
from .preflight_needs import Needs
from .preflight_scope import may, rights_to_assign

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


def ask_azure(clients: Clients, deadline: Deadline, stack: Stack, needs: Needs) -> Facts:
    """Ask everything. A question without an answer is a problem in the facts, never an exception.

    :raises InventoryError: a package of the SDK is missing, so that nothing can be asked.
    """
    queue = WorkQueue(_THREADS, deadline)
    try:
        return _ask_all(partial(_answers, queue), clients, deadline, stack, needs)
    finally:
        queue.close()


def _ask_all(
    ask: Callable[[Iterable[Question]], Answers], clients: Clients, deadline: Deadline, stack: Stack, needs: Needs
) -> Facts:
    manager = ResourceManager(clients)
    facts = Facts(ask([_of_subscription(manager, needs)])["subscription", ""])
    if facts.subscription.value is None:
        return replace(facts, requests=clients.requests)
    azure, planned = look_at(stack, Arm(clients, deadline))
    there = azure.value.found if azure.value else {}
    group_exists = there.get(needs.scope.lower()) is not None
    # Rights on a group that is made are those on its subscription. Without an answer, ask for the group.
    scope = needs.scope if group_exists or azure.problem else f"/subscriptions/{needs.subscription}"
    answers = ask(
        [
            *_of_machines(clients, needs),
            *_of_plans(manager, needs),
            *_of_rights(manager, needs, scope),
            *_of_names(manager, needs, there),
        ]
    )
    facts = replace(
        facts,
        usages=answers["quota", ""],
        skus=answers["sizes", ""],
        plan=planned,
        existing=Answer(existing_machines(azure.value)) if azure.value else Answer(problem=azure.problem),
        images=_by_name(answers, "image"),
        terms=_by_name(answers, "terms"),
        permissions=answers["permissions", scope],
        permissions_elsewhere=_by_name(answers, "permissions"),
        providers=_by_name(answers, "provider"),
        locks=_without_doubles(_by_name(answers, "locks").values()),
        subnets=Answer(subnets_in(stack, azure.value)) if azure.value else Answer(problem=azure.problem),
        names=_by_name(answers, "name") | {name: Answer(NameUse(ours=True)) for name in _own_names(needs, there)},
        refusals=validate(clients, stack, azure, planned),
    )
    assigned = ask(_of_assignments(manager, needs, facts)).get(("assigned", ""), Answer([]))
    return replace(facts, assigned=assigned, requests=clients.requests)


def _own_names(needs: Needs, there: Mapping[str, Any]) -> list[str]:
    """Return which of the names are those of the stack's own resources."""
    return [name for name in needs.names if there.get(needs.names[name].lower()) is not None]


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


def _without_doubles(answers: Iterable[Answer[Any]]) -> Answer[Any]:
    """Return all locks: those of the subscription may include those of the group."""
    found: dict[tuple[str, str], Any] = {}
    for answer in answers:
        if answer.problem:
            return answer
        found |= {(lock.scope.lower(), lock.name.lower()): lock for lock in answer.value or ()}
    return Answer(list(found.values()))


def _of_subscription(manager: ResourceManager, needs: Needs) -> Question:
    path = f"/subscriptions/{needs.subscription}"
    return Question(
        ("subscription", ""),
        Asking(f"read subscription {needs.subscription}", f"{kinds.SUBSCRIPTION}/read"),
        lambda: str(manager.get(path, kinds.API_VERSIONS[kinds.SUBSCRIPTION])["state"]),
    )


def _of_machines(clients: Clients, needs: Needs) -> Iterator[Question]:
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


def _of_plans(manager: ResourceManager, needs: Needs) -> Iterator[Question]:
    for plan in dict.fromkeys(one.plan for one in needs.machines if one.plan):
        yield Question(
            ("terms", plan),
            Asking(f"read the terms of the plan {plan}", "Microsoft.MarketplaceOrdering/offertypes/*/read"),
            partial(read.terms_accepted, manager, needs.subscription, plan),
        )


def _of_rights(manager: ResourceManager, needs: Needs, scope: str) -> Iterator[Question]:
    for place in (scope, *needs.elsewhere):
        yield Question(
            ("permissions", place),
            Asking(f"read the identity's permissions on {place}", "Microsoft.Authorization/permissions/read"),
            partial(read.permissions_on, manager, place),
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


def _of_names(manager: ResourceManager, needs: Needs, there: Mapping[str, Any]) -> Iterator[Question]:
    for name in needs.names.keys() - _own_names(needs, there):
        kind = kinds.kind_of(needs.names[name])
        yield Question(
            ("name", name),
            Asking(f"ask for the name {name}", f"{kind.partition('/')[0]}/checkNameAvailability/read"),
            partial(read.name_use, manager, needs, kind, name),
        )


def _of_assignments(manager: ResourceManager, needs: Needs, facts: Facts) -> Iterator[Question]:
    """Return the question for role assignments that exist, if the identity cannot write all of them."""
    unconditional = [one for one in facts.permissions.value or () if not one.condition]
    rights = rights_to_assign(needs.assignments) if needs.assignments else ()
    if any(one.foreign for one in needs.assignments) or not all(may(unconditional, right) for right in rights):
        yield Question(
            ("assigned", ""),
            Asking("list role assignments", "Microsoft.Authorization/roleAssignments/read"),
            partial(read.existing_assignments, manager, needs.assignments),
        )
