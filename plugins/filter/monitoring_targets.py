# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: the targets that Prometheus scrapes, from the inventory, with the names by which people know the machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm import cluster

# The first one of a host is its label: an alert about full disks selects controllers and monitors.
_FUNCTIONS = ("controller", "monitor", "compute", "login")


def monitoring_targets(
    hosts: Iterable[Mapping[str, Any]], port: int, functions: Iterable[str] = _FUNCTIONS
) -> list[dict[str, Any]]:
    """Return one entry of a file_sd file for each host, sorted by name.

    The label instance is the node's name in Slurm, so that alerts name it. vm_id keeps the series of a replaced machine
    apart from those of its successor, which may have its name and address. __controller is for Prometheus' relabeling,
    which removes it: only controllers have metrics of other machines.

    :param hosts: the variables of hosts, with group_names.
    :param functions: only hosts with one of these functions.
    """
    found: dict[str, dict[str, Any]] = {}
    wanted = set(functions)
    for host in hosts:
        groups = host.get("group_names") or ()
        mine = [name for name in _FUNCTIONS if f"hpcai_{name}" in groups]
        if not wanted.intersection(mine):
            continue
        compute = "compute" in mine
        name = (
            cluster.node_name(host) if compute else str(host.get("azure_computer_name") or host["inventory_hostname"])
        )
        address = host.get("azure_private_ipv4") or host.get("ansible_host") or host["inventory_hostname"]
        if name in found:
            raise AnsibleFilterError(
                f"{found[name]['targets'][0]} and {address} both have the name {name}: correct the inventory."
            )
        labels = {"instance": name, "function": mine[0]}
        if compute:
            labels["node"] = name
        if "controller" in mine:
            labels["__controller"] = "true"
        for label, key in (("set", "azure_vmss"), ("vm_id", "azure_vm_id"), ("vm_size", "azure_vm_size")):
            if host.get(key):
                labels[label] = str(host[key])
        where = f"[{address}]" if ":" in str(address) else str(address)
        found[name] = {"targets": [f"{where}:{port}"], "labels": labels}
    return [found[name] for name in sorted(found)]


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"monitoring_targets": monitoring_targets}
