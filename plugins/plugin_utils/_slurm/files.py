# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All of Slurm's configuration files of a cluster, from the variables of its hosts and the options of the role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.releases import CLOUD_NODES_SHOWN

from .cluster import ClusterError, Hostvars, Node, SpareNames, in_order, nodes_of, spare_nodes
from .config import (
    Release,
    check_keys,
    job_container_lines,
    known_to,
    merged,
    release_of,
    render,
    render_line,
    settings_of_release,
    with_names_of,
)
from .elastic import add_fallback, describe, elastic_sets, power_saving, slots, waiting, weigh
from .gres import gres_lines, gres_types, is_cloud
from .lines import node_groups, partition_lines


def plugstack_lines(of_role: Iterable[str], by_hand: Mapping[str, Any]) -> list[str]:
    """Return the lines of plugstack.conf: the role's lines with the user's changes, then the user's lines.

    Includes are refused, because slurmctld does not send included files to configless nodes. If no plugin knew a job's
    container option, the job would run on the host.

    :param of_role: complete lines.
    :param by_hand: plugins by path. Null omits a plugin, a mapping has ``required`` and ``args``.
    :raises ConfigError: a plugin is malformed.
    """
    lines = {_path(line): line.strip() for line in of_role}
    for path, plugin in by_hand.items():
        where = f"slurm_plugstack[{path!r}]"
        if plugin is None:
            lines.pop(path, None)
            continue
        if not isinstance(plugin, Mapping) or set(plugin) - {"required", "args"}:
            raise ConfigError(f"{where} must be null, or a mapping with required (true or false) and args (a list).")
        arguments = plugin.get("args") or []
        words = [arguments] if isinstance(arguments, str) else [str(word) for word in arguments]
        kind = "required" if plugin.get("required", True) else "optional"
        lines[path] = " ".join([kind, path, *words])
    for path, line in lines.items():
        if "\n" in line or "\r" in line or not path.startswith("/") or not path.endswith(".so"):
            raise ConfigError(f"plugstack.conf: {path!r} must be the absolute path of a plugin (.so), on one line.")
    return list(lines.values())


def _path(line: str) -> str:
    words = line.split()
    if len(words) < 2 or words[0] not in ("required", "optional"):
        raise ConfigError(f"plugstack.conf: {line!r} must be 'required' or 'optional', then the path of a plugin.")
    return words[1]


def switch_lines(
    nodes: Iterable[Node], weights: Mapping[str, int], by_hand: Mapping[str, Mapping[str, Any] | None]
) -> list[dict[str, Any]]:
    """Return one mapping of topology.conf keys for each switch.

    There is one switch per scale set and no switch above them, so that no job uses nodes of two sets. Fallback sets
    come first: of switches with equal weights topology/tree takes the last one, and Slurm before 23.02 gives all
    powered-down nodes the same weight (_eval_nodes_topo in select/cons_tres, _build_node_list in slurmctld).

    :param nodes: in the order of ``in_order``.
    :param weights: weights of the nodes of fallback sets, by set.
    :param by_hand: the user's switches by name. Keys are added to the derived ones, or replace them. Null omits a
        switch. A switch that is not a scale set needs ``Nodes`` or ``Switches``.
    :raises ClusterError: a switch of the user has neither.
    """
    derived = {
        name: {"Nodes": compress(node.name for node in group)}
        for name, group in groupby(nodes, key=lambda node: node.partition)
    }
    fallback_first = sorted(derived, key=lambda name: -weights.get(name, 0))
    lines = []
    for name in [*fallback_first, *(extra for extra in by_hand if extra not in derived)]:
        switch = by_hand.get(name, {})
        if switch is None:
            continue
        if not isinstance(switch, Mapping):
            raise ClusterError(f"slurm_topology.{name} must be a mapping of Nodes or Switches, or null.")
        line = {"SwitchName": name, **derived.get(name, {}), **switch}
        if not line.get("Nodes") and not line.get("Switches"):
            raise ClusterError(
                f"switch {name} of slurm_topology has neither Nodes nor Switches, and no scale set has that name."
            )
        lines.append(line)
    return lines


_CONFIGLESS = "enable_configless"
_KNOWN_NODE_STATES = {"static": "UNKNOWN", "cloud": "CLOUD"}


@dataclass(frozen=True)
class FileOptions:
    """The settings of the role and the user for the files. The role's README explains each field.

    :ivar layers: the role's settings of slurm.conf.
    :ivar differences: settings that are specific to a release, as for ``settings_of_release``.
    :ivar conf: the user's settings of slurm.conf.
    :ivar features: features of all nodes, which jobs can request with ``--constraint``.
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
    elastic: Mapping[str, Any] = field(default_factory=dict)


def files_of(hosts: Iterable[Hostvars], options: FileOptions) -> dict[str, str]:
    """Return the text of each file by its name. The text is empty if the file is not needed.

    :raises ClusterError, ConfigError, UnknownVmSize: a setting is invalid. The message says what to do.
    """
    release = release_of(options.release)
    known = list(hosts)
    elastic = elastic_sets(options.elastic, known)
    absent = spare_nodes([one for one in options.spares if one["set"] not in elastic], options.vm_sizes)
    nodes = in_order([*nodes_of(known, options.vm_sizes), *absent, *slots(elastic, options.vm_sizes)])
    state = _KNOWN_NODE_STATES.get(str(options.node_state), str(options.node_state))
    groups = node_groups(nodes, float(options.memory_margin_percent), options.node_conf, state, options.features)
    weights = weigh(groups, elastic)
    describe(groups, elastic)
    node_lines = [line for line, _members in groups]
    gres = gres_lines(groups, options.gres, options.gpu_autodetect, release)
    switches = switch_lines(nodes, weights, options.topology)
    containers = merged(
        [known_to("job_container.conf", layer, release) for layer in options.job_container_layers],
        options.job_container_conf,
    )
    by_nodes = {
        # A type that no node has would cause an error in slurmctld's log.
        "GresTypes": gres_types(node_lines, gres),
        "TopologyPlugin": "topology/tree" if switches else None,
        # slurm.conf(5), JobContainerType. with_names_of renames it for newer releases.
        "JobContainerType": "job_container/tmpfs" if containers else None,
        **_for_cloud_nodes(any(map(is_cloud, node_lines)), release),
        **known_to("slurm.conf", power_saving(elastic, nodes), release),
    }
    [first, *others] = options.layers or [{}]
    layers = [
        first,
        by_nodes,
        *others,
        settings_of_release(options.differences, "slurm.conf", release),
        waiting(elastic, options.layers),
    ]
    by_role = with_names_of(merged(layers, {}), release)
    conf = merged([by_role], options.conf)
    _require_configless(by_role, conf)
    cgroup = merged(
        [*options.cgroup_layers, settings_of_release(options.differences, "cgroup.conf", release)], options.cgroup_conf
    )
    for file, settings in (("slurm.conf", conf), ("cgroup.conf", cgroup), ("job_container.conf", containers)):
        check_keys(file, settings, release)
    partitions = add_fallback(partition_lines(groups, options.partitions), groups, elastic)
    return {
        "slurm.conf": render(conf) + _lines(node_lines + partitions),
        "cgroup.conf": render(cgroup),
        "gres.conf": _lines(gres),
        "topology.conf": _lines(switches),
        "plugstack.conf": "".join(f"{line}\n" for line in plugstack_lines(options.plugstack_lines, options.plugstack)),
        "job_container.conf": _lines(job_container_lines(containers)),
    }


def _require_configless(by_role: Mapping[str, Any], conf: Mapping[str, Any]) -> None:
    key = "SlurmctldParameters"
    needs, has = (_CONFIGLESS in str(settings.get(key, "")).lower() for settings in (by_role, conf))
    if needs and not has:
        raise ConfigError(
            f"slurm_conf sets {key} without {_CONFIGLESS}, but nodes fetch their files from slurmctld: "
            f"add {_CONFIGLESS} to the list."
        )


def _for_cloud_nodes(has_cloud_nodes: bool, release: Release) -> dict[str, Any]:
    """Return the settings of slurm.conf that CLOUD nodes need, such as spare nodes.

    Only slurmctld knows the addresses of nodes that joined automatically. Therefore it contacts each node directly,
    and nodes do not forward its messages.
    """
    if not has_cloud_nodes:
        return {}
    return {"PrivateData": ["cloud"] if release < CLOUD_NODES_SHOWN else None, "TreeWidth": 65533}


def _lines(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{render_line(line)}\n" for line in lines)
