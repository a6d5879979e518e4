# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of slurm.conf: nodes and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, VmSize
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import PLACEHOLDER_ADDRESS

from .cluster import ClusterError, Node
from .gres import gpu_type, gres_of, has_gpus_of

NodeGroup = tuple[dict[str, Any], list[Node]]
"""A node line and its nodes."""

_OURS = {"nodename": "slurm_node_name of the host", "nodeaddr": "azure_private_ipv4 of the host"}


def node_groups(
    nodes: Iterable[Node],
    memory_margin_percent: float,
    by_hand: Mapping[str, Any] | None = None,
    state: str = "UNKNOWN",
    features: Sequence[str] = (),
) -> list[NodeGroup]:
    """Return one mapping of slurm.conf keys for each VM size in each partition, with its nodes.

    :param memory_margin_percent: share of the size's memory that jobs do not get. Slurm drains a node that registers
        with less than RealMemory, and the memory of VMs of the same size varies slightly.
    :param by_hand: keys by the name of a VM size or a scale set. The keys of the set override those of the size, and
        null removes a key.
    :param state: ``State`` of the nodes that have a machine.
    :param features: additional features of all nodes. ``by_hand`` does not remove them.
    :raises ClusterError: ``by_hand`` names neither a VM size nor a scale set, or sets a derived key.
    """
    groups: list[NodeGroup] = []
    # The sort is stable, so that each VM size of a Flexible set with several sizes is one line.
    for (is_spare, _partition, _name), group in groupby(sorted(nodes, key=_line_of), key=_line_of):
        members = list(group)
        size = members[0].size
        line: dict[str, Any] = {
            "NodeName": compress(node.name for node in members),
            "NodeAddr": PLACEHOLDER_ADDRESS if is_spare else compress(node.address for node in members),
            "CPUs": size.vcpus,
            "Sockets": size.sockets,
            "CoresPerSocket": size.cores_per_socket,
            "ThreadsPerCore": size.threads_per_core,
            "RealMemory": None if size.memory_mib is None else int(size.memory_mib * (1 - memory_margin_percent / 100)),
            "Gres": gres_of(size),
            "Feature": _features(size),
            # For a CLOUD node, slurmctld keeps the address that the node registered, also after a restart.
            "State": state,
        }
        groups.append((line, members))
    for line, members in groups:
        for keys in _keys_for(members[0], by_hand or {}):
            line.update(keys)
        if features:
            add_features(line, features)
        if members[0].is_spare:
            line["State"] = "CLOUD"
        for key in [key for key, value in line.items() if value is None]:
            del line[key]
    _check_names(by_hand or {}, groups)
    return groups


def partition_lines(
    groups: Sequence[NodeGroup], partitions: Mapping[str, Mapping[str, Any] | None]
) -> list[dict[str, Any]]:
    """Return one mapping of slurm.conf keys for each partition, one per scale set, as InfiniBand does not cross sets.

    :param partitions: the user's partitions by name. Keys are added to the derived ones, or replace them. A null
        partition is omitted. A partition that is not a scale set needs ``Nodes``.
    :raises ClusterError: a partition of the user has no nodes.
    """
    members: dict[str, list[NodeGroup]] = {}
    for group in groups:
        members.setdefault(group[1][0].partition, []).append(group)
    lines = []
    for name in [*sorted(members), *(extra for extra in partitions if extra not in members)]:
        by_user = partitions.get(name, {})
        if by_user is None:
            continue
        derived = _partition(members[name]) if name in members else {}
        # slurm.conf(5): these three are mutually exclusive.
        if {"DefMemPerNode", "DefMemPerGPU"} & set(by_user):
            derived.pop("DefMemPerCPU", None)
        line = {"PartitionName": name, **derived, **by_user}
        if not line.get("Nodes"):
            raise ClusterError(f"partition {name} of slurm_partitions has no Nodes, and no scale set has that name.")
        lines.append(line)
    if lines and not any("Default" in line for line in lines):
        lines[0]["Default"] = "YES"
    return lines


def _line_of(node: Node) -> tuple[bool, str, str]:
    """Return the sort key of a node's line. The lines of spare nodes come last."""
    return node.is_spare, node.partition, node.size.name


def _features(size: VmSize) -> list[str]:
    """Return the features that jobs can request with ``--constraint``: VM size, GPUs, InfiniBand and local disks."""
    return [
        _short(size.name),
        *filter(None, [gpu_type(size) if size.gpu_count else None]),
        *([f"ib{size.ib_rate_gbps}"] if size.hca_count and size.ib_rate_gbps else []),
        *(["nvme"] if size.nvme_count else []),
    ]


def add_features(line: dict[str, Any], features: Sequence[str]) -> None:
    # Slurm accepts both names of the key, and ignores case.
    stated_as = [key for key, value in line.items() if key.lower() in ("feature", "features") and value is not None]
    key = stated_as[0] if stated_as else "Feature"
    stated = line.get(key) or []
    had = stated.split(",") if isinstance(stated, str) else [str(one) for one in stated]
    line[key] = [*had, *(one for one in features if one not in had)]


def _short(size: str) -> str:
    return size.lower().removeprefix("standard_")


def _keys_for(node: Node, by_hand: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    of_size = [keys for name, keys in by_hand.items() if _short(str(name)) == _short(node.size.name)]
    of_set = [keys for name, keys in by_hand.items() if str(name) == node.partition]
    for name, keys in by_hand.items():
        if not isinstance(keys, Mapping):
            raise ClusterError(f"slurm_node_conf.{name} must be a mapping of keys of node lines, not {keys!r}.")
        for key in keys:
            if str(key).lower() in _OURS:
                raise ClusterError(f"slurm_node_conf.{name} sets {key}: it comes from {_OURS[str(key).lower()]}.")
    return [*of_size, *of_set]


def _check_names(by_hand: Mapping[str, Any], groups: Iterable[NodeGroup]) -> None:
    nodes = [members[0] for _line, members in groups]
    sets = {node.partition for node in nodes}
    known = sets | {_short(node.size.name) for node in nodes} | {_short(name) for name in SIZES}
    for name in by_hand:
        if str(name) not in known and _short(str(name)) not in known:
            raise ClusterError(
                f"slurm_node_conf.{name}: this is neither a known VM size nor a scale set of the cluster, which has "
                f"{', '.join(sorted(sets)) or 'none'}."
            )


def _partition(groups: Sequence[NodeGroup]) -> dict[str, Any]:
    """Return the keys of the partition of these nodes.

    With ``CR_Core_Memory``, a job that requests no memory would get all memory of its nodes, so that no other job could
    run there, and a job that requests GPUs would get one CPU per task. Therefore the defaults are the share of memory
    per CPU and of CPUs per GPU, on the smallest node.
    """
    nodes = sorted((node for _line, members in groups for node in members), key=lambda node: node.natural_name)
    lines = [line for line, _members in groups]
    line: dict[str, Any] = {"Nodes": compress(node.name for node in nodes), "MaxTime": "INFINITE", "State": "UP"}
    if all(each.get("RealMemory") and each.get("CPUs") for each in lines):
        line["DefMemPerCPU"] = min(int(each["RealMemory"]) // int(each["CPUs"]) for each in lines)
    shares = [
        int(each["CPUs"]) // (members[0].size.gpu_count or 1)
        for each, members in groups
        if each.get("CPUs") and has_gpus_of(members[0].size, each)
    ]
    if len(shares) == len(groups):
        line["DefCpuPerGPU"] = max(1, min(shares))
    return line
