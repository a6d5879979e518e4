# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All of Slurm's files for a cluster, from the variables of its hosts and what is wanted of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .cluster import Hostvars, in_order, nodes_of
from .config import render, render_line
from .gres import gres_lines, gres_types, is_cloud
from .lines import node_groups, partition_lines
from .plugstack import plugstack_lines
from .releases import Release, check_keys, release_of
from .settings import job_container_lines, merged, named_for, of_release
from .spares import SpareNames, spare_nodes
from .topology import switch_lines

# RELEASE_NOTES of 23.02: 'Change cloud nodes to show by default. PrivateData=cloud is no longer needed'.
_CLOUD_IS_SHOWN: Release = (23, 2)
_KNOWN_NODE_STATES = {"static": "UNKNOWN", "cloud": "CLOUD"}


@dataclass(frozen=True)
class Wanted:
    """What the role and the user want of the files; each field is explained in the role's README.

    :ivar layers: the role's settings of slurm.conf.
    :ivar differences: what differs between releases, as ``of_release`` takes it.
    :ivar conf: the user's settings of slurm.conf.
    :ivar features: what jobs can ask of every node by ``--constraint``.
    """

    release: Any = ""
    layers: list[Mapping[str, Any]] = field(default_factory=list)
    differences: list[Mapping[str, Any]] = field(default_factory=list)
    conf: Mapping[str, Any] = field(default_factory=dict)
    cgroup_layers: list[Mapping[str, Any]] = field(default_factory=list)
    cgroup_conf: Mapping[str, Any] = field(default_factory=dict)
    job_container_layers: list[Mapping[str, Any]] = field(default_factory=list)
    job_container_conf: Mapping[str, Any] = field(default_factory=dict)
    plugstack_lines: list[str] = field(default_factory=list)
    plugstack: Mapping[str, Any] = field(default_factory=dict)
    vm_sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    memory_margin_percent: Any = 5
    partitions: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    spares: list[SpareNames] = field(default_factory=list)
    node_conf: Mapping[str, Any] = field(default_factory=dict)
    node_state: str = "static"
    features: list[str] = field(default_factory=list)
    gres: Mapping[str, Any] = field(default_factory=dict)
    gpu_autodetect: str = ""
    topology: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)


def files_of(hosts: Iterable[Hostvars], wanted: Wanted) -> dict[str, str]:
    """Return the text of each file by its name; an empty one where the file is not needed.

    :raises ClusterError, ConfigError, UnknownVmSize: one line that says what is wrong, where, and what to do.
    """
    release = release_of(wanted.release)
    nodes = in_order(nodes_of(hosts, wanted.vm_sizes) + spare_nodes(wanted.spares, wanted.vm_sizes))
    state = _KNOWN_NODE_STATES.get(str(wanted.node_state), str(wanted.node_state))
    groups = node_groups(nodes, float(wanted.memory_margin_percent), wanted.node_conf, state, wanted.features)
    node_lines = [line for line, _members in groups]
    gres = gres_lines(groups, wanted.gres, wanted.gpu_autodetect, release)
    switches = switch_lines(nodes, wanted.topology)
    containers = merged(
        [*wanted.job_container_layers, of_release(wanted.differences, "job_container.conf", release)],
        wanted.job_container_conf,
    )
    by_nodes = {
        # A kind of generic resource that no node has would be an error in slurmctld's log.
        "GresTypes": gres_types(node_lines, gres),
        "TopologyPlugin": "topology/tree" if switches else None,
        # slurm.conf(5), JobContainerType; its other name comes with the release below.
        "JobContainerType": "job_container/tmpfs" if containers else None,
        **_for_cloud_nodes(any(map(is_cloud, node_lines)), release),
    }
    [first, *others] = wanted.layers or [{}]
    layers = [first, of_release(wanted.differences, "slurm.conf", release), by_nodes, *others]
    conf = merged([named_for(merged(layers, {}), release)], wanted.conf)
    cgroup = merged([*wanted.cgroup_layers, of_release(wanted.differences, "cgroup.conf", release)], wanted.cgroup_conf)
    for file, settings in (("slurm.conf", conf), ("cgroup.conf", cgroup), ("job_container.conf", containers)):
        check_keys(file, settings, release)
    return {
        "slurm.conf": render(conf) + _lines(node_lines + partition_lines(groups, wanted.partitions)),
        "cgroup.conf": render(cgroup),
        "gres.conf": _lines(gres),
        "topology.conf": _lines(switches),
        "plugstack.conf": "".join(f"{line}\n" for line in plugstack_lines(wanted.plugstack_lines, wanted.plugstack)),
        "job_container.conf": _lines(job_container_lines(containers)),
    }


def _for_cloud_nodes(there_are_some: bool, release: Release) -> dict[str, Any]:
    """Return what slurm.conf needs where there are CLOUD nodes, as spare ones are.

    Nobody but slurmctld knows the addresses of those that joined by themselves, so it speaks to each node itself
    instead of having nodes pass its messages on.
    """
    if not there_are_some:
        return {}
    return {"PrivateData": ["cloud"] if release < _CLOUD_IS_SHOWN else None, "TreeWidth": 65533}


def _lines(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{render_line(line)}\n" for line in lines)
