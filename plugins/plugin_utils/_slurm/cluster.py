# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's nodes and partitions, derived from the inventory, and names of spare nodes.

A spare node has no machine yet. Because its name is declared, a later instance of the scale set can join automatically.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import (
    ConfigError,
    instance_of,
    integer,
    mapping_of,
    optional,
    string,
    text_or_number,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize, find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress

Hostvars = Mapping[str, Any]


class ClusterError(ConfigError):
    """The inventory does not describe a valid Slurm cluster. The message names the host."""


@dataclass(frozen=True)
class Node:
    """A compute node.

    :ivar name: Slurm's NodeName.
    :ivar address: where slurmctld and the other nodes reach its slurmd.
    :ivar partition: name of the partition: the scale set's name, or ``compute`` for machines outside of scale sets.
    :ivar size: facts of its VM size.
    :ivar is_spare: whether no machine has this name yet. A spare has no address.
    """

    name: str
    address: str
    partition: str
    size: VmSize
    is_spare: bool = False

    @property
    def natural_name(self) -> list[tuple[int, int | str]]:
        """A sort key under which ``node-9`` comes before ``node-10``."""
        return natural(self.name)


def node_name(hostvars: Hostvars) -> str:
    """Return Slurm's NodeName of a host.

    The host variable ``slurm_node_name`` has precedence. An instance of a Uniform scale set is ``<set>-<instance id>``,
    which makes host lists short. Any other host has its computer name, else its inventory name.
    """
    by_hand = hostvars.get("slurm_node_name")
    if by_hand:
        return str(by_hand)
    if is_uniform_id(hostvars):
        return f"{hostvars['azure_vmss']}-{hostvars['azure_instance_id']}"
    return str(hostvars.get("azure_computer_name") or hostvars["inventory_hostname"])


def nodes_of(hosts: Iterable[Hostvars], described_sizes: Mapping[str, Mapping[str, Any]]) -> list[Node]:
    """Return the compute nodes, in natural order of partition and name.

    :param described_sizes: the user's VM sizes, in the form of ``find_size``.
    :raises ClusterError: two hosts would get the same node name, or a host has no VM size.
    :raises UnknownVmSize: a host's VM size is unknown.
    """
    nodes: dict[str, tuple[str, Node]] = {}
    for hostvars in hosts:
        host, name, size = str(hostvars["inventory_hostname"]), node_name(hostvars), hostvars.get("azure_vm_size")
        if not size:
            raise ClusterError(f"host {host} has no azure_vm_size: set it, and describe that size in hpcai_vm_sizes.")
        if name in nodes:
            raise ClusterError(f"hosts {nodes[name][0]} and {host} would both be node {name}: set slurm_node_name.")
        address = hostvars.get("azure_private_ipv4") or hostvars.get("ansible_host") or host
        partition = str(hostvars.get("azure_vmss") or "compute")
        nodes[name] = (host, Node(name, str(address), partition, find_size(str(size), described_sizes)))
    return in_order(node for _host, node in nodes.values())


def is_uniform_id(hostvars: Hostvars) -> bool:
    """Whether the host is an instance of a Uniform scale set."""
    instance_id = hostvars.get("azure_instance_id")
    return bool(hostvars.get("azure_vmss")) and instance_id is not None and str(instance_id).isdigit()


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes in natural order of partition and name."""
    return sorted(nodes, key=lambda node: (node.partition, natural(node.name)))


def natural(text: str) -> list[tuple[int, int | str]]:
    """Return a sort key under which ``node-9`` comes before ``node-10``."""
    return [(0, int(word)) if word.isdigit() else (1, word) for word in re.split(r"(\d+)", text) if word]


DEFAULT_SPARES = 32
"""Spare names of a scale set that ``slurm_spare_nodes`` does not list."""
MOST_SPARES = 5000
"""Most spare names of a set. No scale set can have more instances, and slurmctld can handle this number."""


class SpareNames(TypedDict):
    """The spare names of one Uniform scale set.

    ``highest`` is the highest known instance id of the set, or -1. ``names`` are the spare names.
    """

    set: str
    vm_size: str
    highest: int
    names: list[str]
    nodes: str


@dataclass(frozen=True)
class _SpareOptions:
    """The user's options for a set."""

    count: int = DEFAULT_SPARES
    vm_size: str | None = None
    first: int = 0


_COUNT = integer(0, MOST_SPARES)
_SPARE = instance_of(_SpareOptions, {"count": _COUNT, "vm_size": optional(string), "first": integer(0, 10**9)})
_SPARES = mapping_of(
    text_or_number,
    lambda path, value: _SPARE(path, value) if isinstance(value, Mapping) else _SpareOptions(_COUNT(path, value)),
)


def spare_names(hosts: Iterable[Hostvars], requested: Any, highest_ids: Mapping[str, int]) -> list[SpareNames]:
    """Return the spare names of each Uniform scale set, in the order of the sets' names.

    They are the next ids after the highest known one, and the ids below it that no instance has: Azure may give an id
    again after its instance was deleted. At most ``MOST_SPARES`` of them, the highest.

    :param requested: number of names per set: a number for all sets, or a mapping of sets to a number or to ``count``,
        ``vm_size`` and ``first``. A set without instances gets names only if a ``vm_size`` is given.
    :param highest_ids: the highest known id of each set from earlier runs.
    :raises ConfigError: ``requested`` is invalid, or a set has no VM size.
    """
    by_set = isinstance(requested, Mapping)
    options = _SPARES("slurm_spare_nodes", requested) if by_set else {}
    others = DEFAULT_SPARES if by_set else _COUNT("slurm_spare_nodes", requested)
    members: dict[str, dict[int, Hostvars]] = {}
    used_names = set()
    for hostvars in hosts:
        used_names.add(node_name(hostvars))
        if is_uniform_id(hostvars):
            members.setdefault(str(hostvars["azure_vmss"]), {})[int(hostvars["azure_instance_id"])] = hostvars
    spares: list[SpareNames] = []
    for name in sorted(members.keys() | {name for name, option in options.items() if option.vm_size}):
        instances = members.get(name, {})
        option = options.get(name, _SpareOptions(others))
        highest = max([int(highest_ids.get(name, -1)), *instances])
        ids = range(option.first, max(highest + 1, option.first) + option.count) if option.count else range(0)
        names = [each for each in (f"{name}-{number}" for number in ids) if each not in used_names][-MOST_SPARES:]
        size = option.vm_size or _size_of_next(instances)
        if not size:
            raise ClusterError(
                f"scale set {name} has no VM size: set one in slurm_spare_nodes, or 0 for no spare nodes."
            )
        spares.append({"set": name, "vm_size": size, "highest": highest, "names": names, "nodes": compress(names)})
    return spares


def spare_nodes(spares: Iterable[SpareNames], described_sizes: Mapping[str, Mapping[str, Any]]) -> list[Node]:
    """Return the nodes with these names.

    :raises UnknownVmSize: a VM size is unknown.
    """
    return [
        Node(name, "", spare["set"], find_size(spare["vm_size"], described_sizes), is_spare=True)
        for spare in spares
        for name in spare["names"]
    ]


def _size_of_next(instances: Mapping[int, Hostvars]) -> str | None:
    """Return the VM size of the next instance: that of the model, else that of the newest instance."""
    newest = instances[max(instances)]
    model = newest.get("azure_scale_set")
    size = (model.get("vm_size") if isinstance(model, Mapping) else None) or newest.get("azure_vm_size")
    return str(size) if size else None
