# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic scale sets in Slurm's files: their slots, the settings of power saving, and partitions with fallback."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

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
from .lines import NodeGroup, add_features
from .retirement import names_in

PROGRAMS = {
    "ResumeProgram": "/usr/libexec/hpcai/elastic-resume",
    "SuspendProgram": "/usr/libexec/hpcai/elastic-suspend",
    "ResumeFailProgram": "/usr/libexec/hpcai/elastic-resume-fail",
    # It ends when the nodes have booted, so that slurmctld starts the job then, and not up to 30 s later.
    "PrologSlurmctld": "/usr/libexec/hpcai/elastic-prolog",
}
"""The role elastic installs them."""
_SUSPEND_TIMEOUT_S = 60
"""A slot is reused only when its machine is deleted, whatever Slurm waits for."""
_MARGIN_S = 600
"""The daemon gives up before Slurm does, because it knows why."""
_LEAST_RESUME_TIMEOUT_S = 1800


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
    spot: bool = False
    price: float | None = None


ONLY_FOR_SLURM = ("fallback",)
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
            **dict.fromkeys(("id", "min", "idle_s", "spot", "price"), optional(anything)),
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


class Names(TypedDict):
    """Names of nodes of elastic sets, and all others."""

    elastic: list[str]
    others: list[str]


class MachineOf(TypedDict):
    """A node of an elastic set and its machine."""

    node: str
    vm_id: str


def split_names(requested: Any, sets: Mapping[str, Any]) -> Names:
    """Return which names are nodes of elastic sets.

    :param sets: the sets as the inventory has them. Only their names are used: a node above ``max`` is elastic too.
    :raises RetirementError: a host list is invalid.
    """
    names = names_in(requested, "nodes") if requested else []
    elastic = [name for name in names if _set_of(name) in sets]
    return {"elastic": elastic, "others": [name for name in names if name not in elastic]}


def _set_of(name: str) -> str:
    found = re.fullmatch(r"(.+)-(0|[1-9][0-9]*)", name)
    return found[1] if found else ""


def machines_of(status: Mapping[str, Any], names: Sequence[str], sets: Mapping[str, Any]) -> list[MachineOf]:
    """Return the machines of these nodes, from the daemon's status.

    :param names: names of nodes, vmIds, or resource ids of instances.
    """
    wanted = {str(name).lower() for name in names}
    found: list[MachineOf] = []
    for name, one in status["sets"].items():
        set_id = str(sets.get(name, {}).get("id") or "").lower()
        for slot in one["slots"]:
            ids = {slot["slot"], slot.get("vm_id"), f"{set_id}/virtualmachines/{slot.get('instance')}"}
            if slot.get("vm_id") and wanted & {str(each).lower() for each in ids}:
                found.append({"node": slot["slot"], "vm_id": slot["vm_id"]})
    return found


def slots(sets: Mapping[str, ElasticSet], described_sizes: Mapping[str, Mapping[str, Any]]) -> list[Node]:
    """Return the slots as nodes without a machine.

    :raises UnknownVmSize: a VM size is unknown.
    """
    return [
        Node(f"{name}-{position}", "", name, find_size(one.vm_size, described_sizes), is_spare=True)
        for name, one in sets.items()
        for position in range(one.max)
    ]


def power_saving(sets: Mapping[str, ElasticSet], nodes: Iterable[Node]) -> dict[str, Any]:
    """Return the settings of slurm.conf for power saving; none without elastic sets."""
    if not sets:
        return {}
    static = [node.name for node in nodes if node.partition not in sets]
    return {
        **PROGRAMS,
        "SuspendTime": daemon.DOWN_AFTER_S,
        "SuspendTimeout": _SUSPEND_TIMEOUT_S,
        "ResumeTimeout": _resume_s(sets),
        # 0: no limit. One request for 600 nodes becomes one order.
        "ResumeRate": 0,
        "SuspendRate": 0,
        # Slurm 22.05 suspends nodes that are not CLOUD too.
        "SuspendExcNodes": compress(static) if static else None,
        "SuspendExcStates": ["DOWN", "DRAIN", "FAIL", "MAINTENANCE", "RESERVED"],
    }


def waiting(sets: Mapping[str, ElasticSet], layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of slurm.conf that let a job wait for the boot of its nodes; none without elastic sets.

    PrologSlurmctld waits that long. On nodes, hpcnode has limits of its own for each script and for all, usually
    shorter ones.

    :param layers: the settings so far; the limit that the job hooks need is one of them.
    """
    if not sets:
        return {}
    hooks_s = [int(layer["PrologEpilogTimeout"]) for layer in layers if layer.get("PrologEpilogTimeout")]
    return {"PrologEpilogTimeout": max([_resume_s(sets), *hooks_s[-1:]])}


def _resume_s(sets: Mapping[str, ElasticSet]) -> int:
    longest = max(one.boot_s + one.order_s for one in sets.values()) + _MARGIN_S
    return int(max(longest, _LEAST_RESUME_TIMEOUT_S))


SPOT, REGULAR = "spot", "regular"
"""Features of the nodes of elastic sets."""


def describe(groups: Sequence[NodeGroup], sets: Mapping[str, ElasticSet]) -> None:
    """Give the nodes of elastic sets the feature ``spot`` or ``regular``, which jobs can prefer or require."""
    for line, members in groups:
        one = sets.get(members[0].partition)
        if one is not None:
            add_features(line, [SPOT if one.spot else REGULAR])


def weigh(groups: Sequence[NodeGroup], sets: Mapping[str, ElasticSet]) -> dict[str, int]:
    """Give the nodes of fallback sets a higher weight, so that Slurm prefers a set's own nodes.

    :return: the weights by the name of the fallback set.
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
    return weights


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
