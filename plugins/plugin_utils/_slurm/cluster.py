# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's nodes and partitions, derived from the inventory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize, find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import PLACEHOLDER_ADDRESS

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


def node_lines(nodes: Iterable[Node], memory_margin_percent: float) -> list[dict[str, str | int]]:
    """Return one mapping of slurm.conf keys for the nodes of each VM size in each partition.

    :param memory_margin_percent: how much less memory Slurm may give to jobs than the size has. A node that registers
        with less than RealMemory is drained by Slurm, and VMs of one size differ a little.
    """
    lines = []
    # The sort keeps the order within a size, so a Flexible set of mixed sizes still is one line for each of them.
    by_size = sorted(nodes, key=_line_of)
    for (is_spare, _partition, size), group in groupby(by_size, key=_line_of):
        members = list(group)
        facts = members[0].size
        line: dict[str, str | int] = {
            "NodeName": compress(node.name for node in members),
            "NodeAddr": PLACEHOLDER_ADDRESS if is_spare else compress(node.address for node in members),
        }
        for key, value in (
            ("CPUs", facts.vcpus),
            ("Sockets", facts.sockets),
            ("CoresPerSocket", facts.cores_per_socket),
            ("ThreadsPerCore", facts.threads_per_core),
        ):
            if value is not None:
                line[key] = value
        if facts.memory_mib is not None:
            line["RealMemory"] = int(facts.memory_mib * (1 - memory_margin_percent / 100))
        line["Feature"] = size.removeprefix("Standard_").lower()
        # Of a CLOUD node slurmctld keeps the address that the node set itself, also when it is restarted.
        line["State"] = "CLOUD" if is_spare else "UNKNOWN"
        lines.append(line)
    return lines


def _line_of(node: Node) -> tuple[bool, str, str]:
    """Return what nodes of one line have in common; the lines of spare nodes come last."""
    return node.is_spare, node.partition, node.size.name


def partition_lines(nodes: Iterable[Node], wanted: Mapping[str, Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return one mapping of slurm.conf keys for each partition: one per scale set, as InfiniBand does not cross sets.

    :param wanted: the user's partitions by name: keys are added to the derived ones, or replace them; a partition that
        is null is left out; one that no scale set has needs its ``Nodes``.
    :raises ClusterError: a partition of the user's has no nodes.
    """
    derived: dict[str, dict[str, Any]] = {
        name: {"Nodes": compress(node.name for node in group), "MaxTime": "INFINITE", "State": "UP"}
        for name, group in groupby(nodes, key=lambda node: node.partition)
    }
    lines = []
    for name in [*derived, *(extra for extra in wanted if extra not in derived)]:
        by_user = wanted.get(name, {})
        if by_user is None:
            continue
        line = {"PartitionName": name, **derived.get(name, {}), **by_user}
        if not line.get("Nodes"):
            raise ClusterError(f"partition {name} of slurm_partitions has no Nodes, and no scale set has that name.")
        lines.append(line)
    if lines and not any("Default" in line for line in lines):
        lines[0]["Default"] = "YES"
    return lines
