# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic scale sets in Slurm's files: their slots, the settings of power saving, and partitions with fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import settings as daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import (
    anything,
    instance_of,
    list_of,
    mapping_of,
    not_empty,
    number,
    optional,
    string,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress

from .cluster import ClusterError, Hostvars, Node
from .config import Release
from .lines import NodeGroup

PROGRAMS = {
    "ResumeProgram": "/usr/libexec/hpcai/elastic-resume",
    "SuspendProgram": "/usr/libexec/hpcai/elastic-suspend",
    "ResumeFailProgram": "/usr/libexec/hpcai/elastic-resume-fail",
}
"""The role elastic installs them."""
_SUSPEND_TIMEOUT_S = 60
"""A slot is reused only when its machine is deleted, whatever Slurm waits for."""
_MARGIN_S = 600
"""The daemon gives up before Slurm does, because it knows why."""
_LEAST_RESUME_TIMEOUT_S = 1800
_EXC_STATES: Release = (23, 2)
"""RELEASE_NOTES of 23.02: 'Add SuspendExcStates'."""


@dataclass(frozen=True)
class ElasticSet:
    """An elastic set as its inventory describes it.

    :ivar vm_size: its VM size.
    :ivar max: the number of its slots.
    :ivar fallback: sets whose nodes jobs of this set's partition may use, the preferred one first.
    """

    vm_size: str
    max: int
    fallback: tuple[str, ...] = ()
    boot_s: float = daemon.ElasticSet.boot_s
    order_s: float = daemon.ElasticSet.order_s
    id: str = ""
    min: int = 0
    idle_s: float = daemon.ElasticSet.idle_s
    price: float | None = None


ONLY_FOR_SLURM = ("vm_size", "fallback")
"""Keys that the daemon does not read."""
_FORM = mapping_of(
    not_empty,
    instance_of(
        ElasticSet,
        {
            "vm_size": string,
            "max": number(1, 1000, integral=True),
            "fallback": list_of(not_empty),
            "boot_s": number(0, above=True),
            "order_s": number(0, above=True),
            # The filter elastic_settings checks these.
            **dict.fromkeys(("id", "min", "idle_s", "price"), optional(anything)),
        },
    ),
)


def elastic_sets(stated: Mapping[str, Any], hosts: Iterable[Hostvars] = ()) -> dict[str, ElasticSet]:
    """Return the elastic sets.

    :param hosts: the static compute nodes.
    :raises Malformed: a key is unknown or invalid.
    :raises ClusterError: an instance of an elastic set is a static compute node too.
    """
    sets: dict[str, ElasticSet] = _FORM("hpcai_elastic", stated)
    for host in hosts:
        if host.get("azure_vmss") in sets:
            raise ClusterError(
                f"host {host['inventory_hostname']} is an instance of the elastic set {host['azure_vmss']}, but has "
                "the role compute: give the set the tag hpcai_role=elastic. site.yml does not configure its nodes."
            )
    return sets


def slots(sets: Mapping[str, ElasticSet], described_sizes: Mapping[str, Mapping[str, Any]]) -> list[Node]:
    """Return the slots as nodes without a machine.

    :raises UnknownVmSize: a VM size is unknown.
    """
    return [
        Node(f"{name}-{position}", "", name, find_size(one.vm_size, described_sizes), is_spare=True)
        for name, one in sets.items()
        for position in range(one.max)
    ]


def power_saving(sets: Mapping[str, ElasticSet], nodes: Iterable[Node], release: Release) -> dict[str, Any]:
    """Return the settings of slurm.conf for power saving; none without elastic sets."""
    if not sets:
        return {}
    static = [node.name for node in nodes if node.partition not in sets]
    longest = max(one.boot_s + one.order_s for one in sets.values()) + _MARGIN_S
    return {
        **PROGRAMS,
        "SuspendTime": daemon.DOWN_AFTER_S,
        "SuspendTimeout": _SUSPEND_TIMEOUT_S,
        "ResumeTimeout": int(max(longest, _LEAST_RESUME_TIMEOUT_S)),
        # 0: no limit. One request for 600 nodes becomes one order.
        "ResumeRate": 0,
        "SuspendRate": 0,
        # Slurm 22.05 suspends nodes that are not CLOUD too.
        "SuspendExcNodes": compress(static) if static else None,
        "SuspendExcStates": ["DOWN", "DRAIN", "FAIL", "MAINTENANCE", "RESERVED"] if release >= _EXC_STATES else None,
    }


def weigh(groups: Sequence[NodeGroup], sets: Mapping[str, ElasticSet]) -> None:
    """Give the nodes of fallback sets a higher weight, so that Slurm prefers a set's own nodes.

    :raises ClusterError: a fallback set has no nodes.
    """
    weights: dict[str, int] = {}
    for one in sets.values():
        for position, other in enumerate(one.fallback):
            weights[other] = max(weights.get(other, 0), 10 * (position + 1))
    known = {members[0].partition for _line, members in groups}
    for name, one in sets.items():
        unknown = [other for other in one.fallback if other not in known]
        if unknown:
            raise ClusterError(f"hpcai_elastic.{name}.fallback: {', '.join(unknown)}: no scale set has this name.")
    for line, members in groups:
        if members[0].partition in weights and "Weight" not in line:
            line["Weight"] = weights[members[0].partition]


def add_fallback(
    lines: list[dict[str, Any]], groups: Sequence[NodeGroup], sets: Mapping[str, ElasticSet]
) -> list[dict[str, Any]]:
    """Add the nodes of its fallback sets to the partition of each elastic set.

    Each set has its own switch, and there is none above them, so a job gets the nodes of one set only.
    """
    members: dict[str, list[str]] = {}
    for _line, nodes in groups:
        members.setdefault(nodes[0].partition, []).extend(
            node.name for node in sorted(nodes, key=lambda one: one.natural_name)
        )
    for line in lines:
        one = sets.get(line["PartitionName"])
        if one and line.get("Nodes") == compress(members.get(line["PartitionName"], [])):
            line["Nodes"] = ",".join([line["Nodes"], *(compress(members[other]) for other in one.fallback)])
    return lines
