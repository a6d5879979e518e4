# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's nodes and partitions, derived from the inventory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize, find_size

Hostvars = Mapping[str, Any]


class ClusterError(ValueError):
    """The inventory describes no cluster that Slurm could run; the message names the host."""


@dataclass(frozen=True)
class Node:
    """A compute node.

    :ivar name: Slurm's NodeName.
    :ivar address: where slurmctld and the other nodes reach its slurmd.
    :ivar partition: name of the partition: the scale set's, or ``compute`` for machines outside scale sets.
    :ivar size: what a VM of its size has.
    :ivar is_spare: no machine has this name yet, so there is no address.
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

    A host variable ``slurm_node_name`` wins. An instance of a Uniform scale set is ``<set>-<instance id>``, which gives
    short host lists. Everything else goes by its computer name, or its inventory name.
    """
    by_hand = hostvars.get("slurm_node_name")
    if by_hand:
        return str(by_hand)
    if is_uniform_id(hostvars):
        return f"{hostvars['azure_vmss']}-{hostvars['azure_instance_id']}"
    return str(hostvars.get("azure_computer_name") or hostvars["inventory_hostname"])


def nodes_of(hosts: Iterable[Hostvars], described_sizes: Mapping[str, Mapping[str, Any]]) -> list[Node]:
    """Return the compute nodes, in natural order of partition and name.

    :param described_sizes: VM sizes described by hand, as ``find_size`` takes them.
    :raises ClusterError: two hosts would get one node name, or a host has no VM size.
    :raises UnknownVmSize: a host's size is known to nobody.
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
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", text) if part]
