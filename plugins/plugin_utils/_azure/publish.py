# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Putting hosts and groups into Ansible's inventory: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, known_scalars

from .groups import groups_of, scale_set_groups, size_group
from .hosts import Host
from .report import SourceReport, merge_reports, scale_set_variable

REPORT = "azure_inventory"


class Publisher:
    """Adds to one inventory (`ansible.inventory.data.InventoryData`).

    :param construct: called for each host when it is there: composed variables and groups.
    """

    def __init__(self, inventory: Any, construct: Callable[[str, Any], None]) -> None:
        self._inventory = inventory
        self._construct = construct

    def known_ids(self) -> dict[str, str]:
        """Return the resource ids of the hosts that earlier sources brought, by host name."""
        return {
            name: str(host.vars["azure_id"])
            for name, host in self._inventory.hosts.items()
            if host.vars.get("azure_id")
        }

    def publish(self, hosts: Sequence[Host], report: SourceReport) -> None:
        """Add groups, hosts and the report; where a template of the user fails, nothing of it stays."""
        groups = scale_set_groups(report["scale_sets"])
        with self._all_or_nothing():
            # Also the group of a scale set without any instance.
            for scale_set in report["scale_sets"]:
                group = self._inventory.add_group(groups[scale_set["id"].lower()])
                self._inventory.set_variable(group, "azure_scale_set", scale_set_variable(scale_set))
            for host in hosts:
                self._add_host(host, groups.get((host.facts["azure_vmss_id"] or "").lower()))
        variables = self._inventory.groups["all"].vars
        # Taken out first: Ansible would merge the new value into the old one.
        merged = merge_reports(variables.pop(REPORT, None), report)
        self._inventory.set_variable("all", REPORT, merged)

    def _add_host(self, host: Host, scale_set_group: str | None) -> None:
        name = self._inventory.add_host(host.name)
        entry = self._inventory.hosts[name]
        # Not the inventory's own set_variable for each: it tags every value with its origin and checks every name,
        # which takes twenty times as long. Without a tag a value is not trusted as a template, as it should be.
        entry.vars.update(host.facts)
        if host.address is not None:
            entry.vars["ansible_host"] = host.address
        for group in groups_of(host.facts, scale_set_group):
            if group not in self._inventory.groups:
                self._add_group(group, host.facts["azure_vm_size"])
            self._inventory.add_child(group, name)
        self._construct(name, entry)

    def _add_group(self, group: str, vm_size: str | None) -> None:
        """Add a group; what is known of a VM size hangs on its group, as thousands of hosts share it."""
        self._inventory.add_group(group)
        if vm_size and vm_size in SIZES and group == size_group(vm_size):
            # No more than numbers and short texts: each host gets a copy. The filter vm_size has all of it.
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
