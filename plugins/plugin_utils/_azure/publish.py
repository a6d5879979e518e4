# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the groups of instances, and adds either all hosts and groups to Ansible's inventory or none."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, known_scalars

from .facts import InstanceFacts, ScaleSetFacts
from .hosts import Host
from .report import SourceReport, merge_reports, scale_set_variable

EVERYONE = "azure_hosts"
MODEL_OUTDATED = "azure_model_outdated"
ROLE_PREFIX = "hpcai_"

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]")


def safe(name: str) -> str:
    """Return ``name`` as part of a group name. Names in Azure may have hyphens, and their case is ignored."""
    return _NOT_IN_NAMES.sub("_", name.lower())


def scale_set_groups(scale_sets: Sequence[ScaleSetFacts]) -> dict[str, str]:
    """Return the group of each scale set, by its id in lower case.

    If two sets would share a group, the resource group is appended, and then the subscription.
    """
    groups: dict[str, str] = {}
    by_name: dict[str, list[ScaleSetFacts]] = {}
    for scale_set in scale_sets:
        by_name.setdefault(f"azure_vmss_{safe(scale_set['name'])}", []).append(scale_set)
    for group, members in by_name.items():
        for scale_set in members:
            name = group
            if len(members) > 1:
                name = f"{group}_{safe(scale_set['resource_group'])}"
                if len({member["resource_group"].lower() for member in members}) < len(members):
                    name = f"{name}_{safe(scale_set['subscription_id'])}"
            groups[scale_set["id"].lower()] = name
    return groups


def groups_of(facts: InstanceFacts, scale_set_group: str | None) -> list[str]:
    """Return the groups of one instance."""
    groups = [
        EVERYONE,
        *_state_groups(
            facts["azure_vm_size"],
            facts["azure_location"],
            facts["azure_zone"],
            facts["azure_placement_group"],
            facts["azure_power_state"],
            facts["azure_provisioning_state"],
            facts["azure_latest_model"],
        ),
    ]
    if scale_set_group:
        groups.append(scale_set_group)
    for role in facts["azure_roles"]:
        # The role does not depend on the state, because a stopped instance remains a node of its cluster.
        groups.append(f"azure_role_{safe(role)}")
        if facts["azure_ready"]:
            groups.append(role_group(role))
    return groups


def size_group(vm_size: str) -> str:
    """Return the group of a VM size."""
    return f"azure_size_{safe(vm_size)}"


def role_group(role: str) -> str:
    """Return the group of a role."""
    return ROLE_PREFIX + safe(role)


# Cached, because thousands of instances share a few results.
@lru_cache(maxsize=1024)
def _state_groups(
    vm_size: str | None,
    location: str | None,
    zone: str | None,
    placement_group: str | None,
    power: str | None,
    provisioning: str | None,
    latest_model: bool | None,
) -> tuple[str, ...]:
    groups = [f"azure_power_{safe(power or 'unknown')}", f"azure_provisioning_{safe(provisioning or 'unknown')}"]
    if vm_size:
        groups.append(size_group(vm_size))
    if location:
        groups.append(f"azure_location_{safe(location)}")
    if location and zone:
        groups.append(f"azure_zone_{safe(location)}_{safe(zone)}")
    if placement_group:
        groups.append(f"azure_placement_group_{safe(placement_group)}")
    if latest_model is False:
        groups.append(MODEL_OUTDATED)
    return tuple(groups)


REPORT = "azure_inventory"


class Publisher:
    """Adds hosts and groups to an inventory (`ansible.inventory.data.InventoryData`).

    :param construct: called for each added host, to add composed variables and groups.
    """

    def __init__(self, inventory: Any, construct: Callable[[str, Any], None]) -> None:
        self._inventory = inventory
        self._construct = construct

    def known_ids(self) -> dict[str, str]:
        """Return the resource ids of the hosts of earlier sources, by host name."""
        return {
            name: str(host.vars["azure_id"])
            for name, host in self._inventory.hosts.items()
            if host.vars.get("azure_id")
        }

    def publish(self, hosts: Sequence[Host], report: SourceReport) -> None:
        """Add groups, hosts and the report. If a template of the user fails, add nothing."""
        groups = scale_set_groups(report["scale_sets"])
        with self._all_or_nothing():
            # Scale sets without instances also get a group.
            for scale_set in report["scale_sets"]:
                group = self._inventory.add_group(groups[scale_set["id"].lower()])
                self._inventory.set_variable(group, "azure_scale_set", scale_set_variable(scale_set))
            for host in hosts:
                self._add_host(host, groups.get((host.facts["azure_vmss_id"] or "").lower()))
        variables = self._inventory.groups["all"].vars
        # Remove the old value first, because Ansible would merge the new value into it.
        merged = merge_reports(variables.pop(REPORT, None), report)
        self._inventory.set_variable("all", REPORT, merged)

    def _add_host(self, host: Host, scale_set_group: str | None) -> None:
        name = self._inventory.add_host(host.name)
        entry = self._inventory.hosts[name]
        # Not with set_variable for each value, because it tags every value with its origin and checks every name, which
        # takes twenty times as long. A value without a tag is not trusted as a template, which is required here.
        entry.vars.update(host.facts)
        if host.address is not None:
            entry.vars["ansible_host"] = host.address
        for group in groups_of(host.facts, scale_set_group):
            if group not in self._inventory.groups:
                self._add_group(group, host.facts["azure_vm_size"])
            self._inventory.add_child(group, name)
        self._construct(name, entry)

    def _add_group(self, group: str, vm_size: str | None) -> None:
        """Add a group. The facts of a VM size are variables of its group, because thousands of hosts share them."""
        self._inventory.add_group(group)
        if vm_size and vm_size in SIZES and group == size_group(vm_size):
            # Only numbers and short texts, because each host gets a copy. The filter vm_size returns all facts.
            self._inventory.set_variable(group, "azure_sku", known_scalars(SIZES[vm_size]))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        hosts, groups = set(self._inventory.hosts), set(self._inventory.groups)
        try:
            yield
        except Exception:
            for name in set(self._inventory.hosts) - hosts:
                self._inventory.remove_host(self._inventory.hosts[name])
            for name in set(self._inventory.groups) - groups:
                self._inventory.remove_group(self._inventory.groups[name])
            raise


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection inside the block, and exclude existing objects from later collections.

    Python searches for reference cycles whenever many new objects were created. Reading hosts creates millions of
    objects, and hardly any are in cycles. At 1,000 hosts the search took a fifth of the CPU time of
    `ansible-inventory`, and slowed down what Ansible did afterwards.

    Each call first includes the objects that an earlier call excluded, so that an old inventory can be freed. The
    exclusion also keeps memory shared with the workers that Ansible forks.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
