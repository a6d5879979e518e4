# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists everything in a selection, with one request per page, and as many parallel requests as allowed.

A failed list call raises no exception here. Errors are collected, and the caller decides how to handle them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import list_calls
from .clients import Clients
from .concurrency import Deadline, Job, WorkQueue
from .credentials import Cloud, Identity, make_credential
from .errors import Asking, InventoryError, explain, is_gone
from .facts import (
    FLEXIBLE,
    AttachedInterface,
    Instance,
    InstanceFacts,
    Listing,
    ScaleSetFacts,
    VirtualNetwork,
    primary_first,
    set_states,
)
from .resources import in_natural_order, roles_of
from .selection import NONE, FilterValues, Selection

VANISHED_SCALE_SETS = "vanished scale sets"
OTHER_TAGS = "other tags"


def list_all(selection: Selection, cloud: Cloud, identity: Identity, deadline: Deadline, concurrency: int) -> Listing:
    """Request everything in ``selection`` from Azure.

    :raises InventoryError: the sign-in failed.
    """
    credential = make_credential(identity, cloud)
    clients = Clients(cloud, credential, deadline)
    queue = WorkQueue(concurrency, deadline)
    lister = _Lister(selection, clients, queue)
    try:
        lister.sign_in(list_calls.sign_in(credential, cloud.scope, identity.auth_source))
        lister.list_everything()
    finally:
        queue.close()
        clients.close()
    return lister.answer()


class _Lister:
    def __init__(self, selection: Selection, clients: Clients, queue: WorkQueue) -> None:
        self._selection = selection
        self._clients = clients
        self._queue = queue
        self._errors: list[str] = []
        self._vanished = 0
        self._filter_values = FilterValues(selection)
        self._scale_sets: dict[str, ScaleSetFacts] = {}
        self._instances: dict[str, list[InstanceFacts]] = {}
        self._stand_alone: list[InstanceFacts] = []
        self._views: dict[str, Any] = {}
        self._interfaces: dict[str, list[AttachedInterface]] = {}
        self._listed_interfaces: set[tuple[str, str | None]] = set()
        self._interface_groups: set[tuple[str, str]] = set()
        self._public_addresses: dict[str, str] = {}
        self._virtual_networks: list[VirtualNetwork] = []

    def sign_in(self, question: list_calls.ListCall) -> None:
        """Get the token first, because without it every list call would fail with the same error."""
        failed: list[str] = []
        self._ask(question, lambda _token: None, lambda error: failed.append(explain(error, question.asking)))
        self._queue.drain()
        if failed:
            raise InventoryError(f"{failed[0]} Sign in (such as with `az login`), or set auth_source and its options.")

    def list_everything(self) -> None:
        """Send all requests. Requests that depend on earlier answers follow in later rounds."""
        selection = self._selection
        groups: tuple[str | None, ...] = selection.resource_groups or (None,)
        for subscription in selection.subscription_ids:
            for group in groups:
                self._ask(list_calls.scale_sets(self._clients, subscription, group), self._take_scale_sets)
            if selection.include_vms != NONE:
                self._ask(list_calls.vm_states(self._clients, subscription), self._views.update)
                for group in groups:
                    self._ask(
                        list_calls.stand_alone_vms(self._clients, subscription, group),
                        self._machine_receiver(subscription),
                    )
                    self._ask_for_interfaces(subscription, group)
            if selection.virtual_networks:
                self._ask(list_calls.virtual_networks(self._clients, subscription), self._virtual_networks.extend)
        self._queue.drain()
        self._ask_for_interfaces_elsewhere()
        if selection.public_addresses:
            self._ask_for_public_addresses()
            self._queue.drain()

    def answer(self) -> Listing:
        """Return the result of all list calls."""
        others = 0
        instances: dict[str, Instance] = {}
        for key, scale_set in self._scale_sets.items():
            for facts in self._instances.get(key, ()):
                if self._selection.wants_instance(facts):
                    instances[facts["azure_id"].lower()] = self._instance(facts)
                    scale_set["found"] += 1
                else:
                    self._filter_values.machine(facts["azure_location"], facts["azure_tags"])
                    others += 1
        for facts in self._stand_alone:
            set_states(facts, self._views.get(facts["azure_id"].lower()))
            instances[facts["azure_id"].lower()] = self._instance(facts)
        left_out = {VANISHED_SCALE_SETS: self._vanished, OTHER_TAGS: others}
        # Sorted, because the order of Azure's answers and of the threads varies.
        return {
            "instances": [instances[key] for key in sorted(instances, key=in_natural_order)],
            "scale_sets": [self._scale_sets[key] for key in sorted(self._scale_sets, key=in_natural_order)],
            "virtual_networks": sorted(self._virtual_networks, key=lambda network: network["id"].lower()),
            "left_out": {reason: count for reason, count in left_out.items() if count},
            "errors": list(dict.fromkeys(self._errors)),
            "requests": self._clients.requests,
            "seen": self._filter_values.values(),
        }

    def _ask(
        self,
        question: list_calls.ListCall,
        done: Callable[[Any], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        def note(error: Exception) -> None:
            self._note(error, question.asking)

        self._queue.add(Job(question.asking, question.ask, done, failed or note))

    def _note(self, error: Exception, asking: Asking) -> None:
        self._errors.append(explain(error, asking))

    def _take_scale_sets(self, found: list[ScaleSetFacts]) -> None:
        for scale_set in found:
            self._filter_values.scale_set(scale_set["name"], scale_set["location"], scale_set["tags"])
            key = scale_set["id"].lower()
            if key in self._scale_sets or not self._selection.wants_scale_set(scale_set):
                continue
            self._scale_sets[key] = scale_set
            self._ask_for_instances(key, scale_set)
            if scale_set["orchestration_mode"] == FLEXIBLE:
                group = scale_set["resource_group"] if self._selection.resource_groups else None
                self._ask_for_interfaces(scale_set["subscription_id"], group)
            else:
                self._ask(
                    list_calls.uniform_interfaces(self._clients, scale_set),
                    self._take_interfaces,
                    self._unless_gone(key, list_calls.uniform_interfaces(self._clients, scale_set).asking),
                )

    def _ask_for_instances(self, key: str, scale_set: ScaleSetFacts) -> None:
        def take(found: list[InstanceFacts]) -> None:
            self._instances[key] = found

        def take_machines(found: list[list_calls.ListedVm]) -> None:
            take([machine.facts for machine in found])
            self._note_interface_groups(scale_set["subscription_id"], found)

        if scale_set["orchestration_mode"] == FLEXIBLE:
            question = list_calls.flexible_instances(self._clients, scale_set)
            self._ask(question, take_machines, self._unless_gone(key, question.asking))
        else:
            question = list_calls.uniform_instances(self._clients, scale_set)
            self._ask(question, take, self._unless_gone(key, question.asking))

    def _unless_gone(self, key: str, asking: Asking) -> Callable[[Exception], None]:
        """Return the error handler for list calls of a scale set. A set that was deleted meanwhile is no error.

        The handler requests the set itself to confirm that it is gone, because its nodes are then removed from the
        cluster.
        """

        def failed(error: Exception) -> None:
            scale_set = self._scale_sets.get(key)
            if not is_gone(error):
                self._note(error, asking)
            elif scale_set:
                self._ask(
                    list_calls.scale_set_exists(self._clients, scale_set),
                    lambda _answer: self._note(error, asking),
                    lambda again: self._forget(key) if is_gone(again) else self._note(error, asking),
                )

        return failed

    def _forget(self, key: str) -> None:
        if self._scale_sets.pop(key, None):
            self._instances.pop(key, None)
            self._vanished += 1

    def _machine_receiver(self, subscription: str) -> Callable[[list[list_calls.ListedVm]], None]:
        def take(found: list[list_calls.ListedVm]) -> None:
            for machine in found:
                self._filter_values.machine(machine.facts["azure_location"], machine.facts["azure_tags"])
            selected = [machine for machine in found if self._selection.wants_stand_alone(machine.facts)]
            self._stand_alone.extend(machine.facts for machine in selected)
            self._note_interface_groups(subscription, selected)

        return take

    def _note_interface_groups(self, subscription: str, machines: list[list_calls.ListedVm]) -> None:
        self._interface_groups.update(
            (subscription, group) for machine in machines for group in machine.interface_groups
        )

    def _ask_for_interfaces_elsewhere(self) -> None:
        """List the interfaces that are in another resource group than their machines."""
        if self._selection.resource_groups:
            for subscription, group in sorted(self._interface_groups):
                self._ask_for_interfaces(subscription, group)
            self._queue.drain()

    def _ask_for_interfaces(self, subscription: str, group: str | None) -> None:
        asked = subscription.lower(), group.lower() if group else None
        if asked not in self._listed_interfaces:
            self._listed_interfaces.add(asked)
            self._ask(list_calls.interfaces(self._clients, subscription, group), self._take_interfaces)

    def _take_interfaces(self, found: list[AttachedInterface]) -> None:
        for attached in found:
            self._interfaces.setdefault(attached.vm_id, []).append(attached)

    def _ask_for_public_addresses(self) -> None:
        """List public addresses only for scale sets and subscriptions where a selected instance has one."""
        for key, scale_set in self._scale_sets.items():
            if scale_set["orchestration_mode"] != FLEXIBLE and self._any_public(self._instances.get(key, [])):
                self._ask(list_calls.uniform_public_addresses(self._clients, scale_set), self._take_public_addresses)
        machines = list(self._stand_alone)
        for key, scale_set in self._scale_sets.items():
            if scale_set["orchestration_mode"] == FLEXIBLE:
                machines.extend(self._instances.get(key, []))
        for subscription in self._selection.subscription_ids:
            if self._any_public([item for item in machines if _is_of(item, subscription)]):
                self._ask(list_calls.public_addresses(self._clients, subscription), self._take_public_addresses)

    def _any_public(self, machines: list[InstanceFacts]) -> bool:
        return any(
            attached.public_ids
            for facts in machines
            for attached in self._interfaces.get(facts["azure_id"].lower(), ())
        )

    def _take_public_addresses(self, found: list[tuple[str, str] | None]) -> None:
        self._public_addresses.update(pair for pair in found if pair)

    def _instance(self, facts: InstanceFacts) -> Instance:
        attached = self._interfaces.get(facts["azure_id"].lower(), [])
        for entry in attached:
            entry.interface["public_ipv4"] = [
                address for public_id in entry.public_ids if (address := self._public_addresses.get(public_id))
            ]
        interfaces = primary_first([entry.interface for entry in attached])
        facts["azure_roles"] = roles_of(facts["azure_tags"], self._selection.role_tag)
        return {"facts": facts, "interfaces": interfaces}


def _is_of(facts: InstanceFacts, subscription: str) -> bool:
    return (facts["azure_subscription_id"] or "").lower() == subscription.lower()
