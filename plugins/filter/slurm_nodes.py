# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters: Slurm's node names, node lines and partition lines from the variables of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm import cluster, lines


def slurm_node_name(hostvars: Mapping[str, Any]) -> str:
    """Return Slurm's NodeName of the host with these variables."""
    return cluster.node_name(hostvars)


def slurm_nodes(
    hosts: Iterable[Mapping[str, Any]],
    vm_sizes: Mapping[str, Mapping[str, Any]] | None = None,
    memory_margin_percent: float = 5,
    partitions: Mapping[str, Mapping[str, Any] | None] | None = None,
    spare: Iterable[cluster.SpareNames] = (),
) -> list[dict[str, Any]]:
    """Return node lines, then partition lines, as mappings of slurm.conf keys."""
    sizes = vm_sizes or {}
    try:
        nodes = cluster.in_order(cluster.nodes_of(hosts, sizes) + cluster.spare_nodes(spare, sizes))
        groups = lines.node_groups(nodes, float(memory_margin_percent))
        return [line for line, _members in groups] + lines.partition_lines(groups, partitions or {})
    except (cluster.ClusterError, UnknownVmSize) as error:
        raise AnsibleFilterError(str(error)) from error


def slurm_spare_nodes(
    hosts: Iterable[Mapping[str, Any]],
    wanted: Any = cluster.DEFAULT_SPARES,
    seen: Mapping[str, int] | None = None,
) -> list[cluster.SpareNames]:
    """Return the names of nodes that are not there yet, for each Uniform scale set."""
    try:
        return cluster.spare_names(hosts, wanted, seen or {})
    except cluster.ClusterError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's way to find the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {
            "slurm_node_name": slurm_node_name,
            "slurm_nodes": slurm_nodes,
            "slurm_spare_nodes": slurm_spare_nodes,
        }
