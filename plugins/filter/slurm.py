# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters: names of elastic, spare and other nodes, Slurm's files, missing variables, nodes to retire, upgrades."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm import (
    cluster,
    elastic,
    retirement,
    roll,
    upgrade,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import render, render_line
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.files import FileOptions, files_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.required import missing

Hosts = Iterable[Mapping[str, Any]]


def slurm_node_name(hostvars: Mapping[str, Any]) -> str:
    """Return Slurm's NodeName of the host with these variables."""
    return cluster.node_name(hostvars)


def slurm_spare_nodes(
    hosts: Hosts, wanted: Any = cluster.DEFAULT_SPARES, seen: Mapping[str, int] | None = None
) -> list[cluster.SpareNames]:
    """Return the names of spare nodes for each Uniform scale set."""
    try:
        return cluster.spare_names(hosts, wanted, seen or {})
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error


def slurm_config(settings: Mapping[str, Any], lines: Iterable[Mapping[str, Any]] = ()) -> str:
    """Render settings, then one line for each mapping of ``lines``."""
    if not isinstance(settings, Mapping):
        raise AnsibleFilterError(f"slurm_config takes a mapping of settings, not {type(settings).__name__}.")
    try:
        return render(settings) + "".join(f"{render_line(line)}\n" for line in lines)
    except ConfigError as error:
        raise AnsibleFilterError(str(error)) from error


def slurm_files(hosts: Hosts, wanted: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the name and the text of each of Slurm's configuration files."""
    known = {field.name for field in fields(FileOptions)}
    unknown = sorted(str(key) for key in wanted if key not in known)
    if unknown:
        raise AnsibleFilterError(
            f"slurm_files does not know {', '.join(unknown)}; known are {', '.join(sorted(known))}."
        )
    try:
        files = files_of(hosts, FileOptions(**{key: value for key, value in wanted.items() if value is not None}))
    except (ConfigError, UnknownVmSize) as error:
        raise AnsibleFilterError(str(error)) from error
    return [{"name": name, "text": text} for name, text in files.items()]


def slurm_missing(
    hosts: Hosts, targets: Hosts, controller: str, vm_sizes: Mapping[str, Mapping[str, Any]] | None = None
) -> list[str]:
    """Return a line for each variable of the role slurm that is missing or has an invalid value."""
    return missing(hosts, targets, controller, vm_sizes or {})


def slurm_retirement(hosts: Hosts, wanted: Any, force: Any = False, called: str = "retire") -> retirement.Retirement:
    """Return the nodes to retire, and the names of nodes that no longer exist."""
    try:
        # On the command line, a boolean is given as text.
        forced = str(force).strip().lower() in ("true", "yes", "1", "on")
        return retirement.plan(wanted, hosts, force=forced, called=called)
    except retirement.RetirementError as error:
        raise AnsibleFilterError(str(error)) from error


def elastic_names(wanted: Any, sets: Mapping[str, Any]) -> elastic.Names:
    """Return which of the names are nodes of elastic sets."""
    try:
        return elastic.split_names(wanted, sets)
    except retirement.RetirementError as error:
        raise AnsibleFilterError(str(error)) from error


def elastic_machines(status: Mapping[str, Any], names: Iterable[str], sets: Mapping[str, Any]) -> list[Any]:
    """Return the machines of nodes of elastic sets."""
    if not isinstance(status.get("sets"), Mapping):
        raise AnsibleFilterError(f"hpcnode elastic status: {status.get('error') or 'no sets in its output'}.")
    return list(elastic.machines_of(status, list(names), sets))


def slurm_upgrade(versions: Mapping[str, Any], target: str) -> upgrade.Upgrade:
    """Return which machines an upgrade of Slurm has to change, and what all of them have."""
    return upgrade.plan({name: str(version) if version else None for name, version in versions.items()}, str(target))


def roll_set(scale_set: Mapping[str, Any]) -> str:
    """Return a line about the image of a scale set."""
    return roll.set_line(scale_set)


def roll_report_text(result: Mapping[str, Any], scale_sets: Hosts, check: Any = False) -> str:
    """Return the result of a rollout as text."""
    return roll.report(result, scale_sets, bool(check))


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {
            "elastic_machines": elastic_machines,
            "elastic_names": elastic_names,
            "roll_report": roll_report_text,
            "roll_set": roll_set,
            "slurm_config": slurm_config,
            "slurm_files": slurm_files,
            "slurm_missing": slurm_missing,
            "slurm_node_name": slurm_node_name,
            "slurm_retirement": slurm_retirement,
            "slurm_spare_nodes": slurm_spare_nodes,
            "slurm_upgrade": slurm_upgrade,
        }
