# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resolves the names of nodes to retire or replace, and checks whether they may be removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import HostlistError, expand

from .cluster import Hostvars, natural, node_name

_MOST = 0.5
"""The share of a set's instances that may be retired at once without force."""


class RetirementError(ValueError):
    """Names that match no node or several, or too many nodes. The message says which and what to do."""


class Leaving(TypedDict):
    """A node to retire, and its instance."""

    node: str
    host: str
    azure_id: str
    vm_id: str


class Retirement(TypedDict):
    """The nodes to retire. ``gone`` are names of nodes whose instances no longer exist in a complete inventory."""

    leaving: list[Leaving]
    gone: list[str]


def plan(requested: Any, hosts: Iterable[Hostvars], *, force: bool = False, called: str = "retire") -> Retirement:
    """Return the requested nodes, in natural order. Pure.

    :param requested: names, as a list or separated by commas: Slurm's node names and host lists of them, inventory
        names, resource ids, vmIds, and instance ids that only one set has.
    :param hosts: variables of all compute nodes of a complete inventory.
    :param force: allow all, or most, of a set.
    :param called: name of the variable with the names, for errors. The variable that forces it ends with ``_force``.
    :raises RetirementError: a name matches no node or several, or too many nodes would be removed.
    """
    known = list(hosts)
    by_name = _names(known)
    chosen: dict[str, Hostvars] = {}
    gone: list[str] = []
    unknown: list[str] = []
    for name in names_in(requested, called):
        matches = by_name.get(name.lower(), [])
        if len(matches) > 1:
            several = ", ".join(str(host["inventory_hostname"]) for host in matches)
            raise RetirementError(f"{called}: {name} matches several hosts: {several}. Use Slurm's node name.")
        if matches:
            chosen[str(matches[0]["inventory_hostname"])] = matches[0]
        elif _was_an_instance(name, known):
            gone.append(name)
        else:
            unknown.append(name)
    if unknown:
        raise RetirementError(
            f"{called}: {', '.join(unknown)}: no compute node in the inventory has this name. Use Slurm's node names, "
            "inventory names or instance ids; see 'sinfo -N' or 'ansible-inventory --list'."
        )
    leaving = [_leaving(host, called) for host in chosen.values()]
    if not force:
        _refuse_too_many(chosen, known, called)
    return {
        "leaving": sorted(leaving, key=lambda item: natural(item["node"])),
        "gone": sorted(set(gone), key=natural),
    }


def names_in(requested: Any, called: str) -> list[str]:
    """Return the single names."""
    items: Sequence[Any] = requested if isinstance(requested, (list, tuple)) else [requested]
    names: list[str] = []
    for item in items:
        text = re.sub(r"\s*,\s*", ",", str(item if item is not None else "").strip()).strip(",")
        try:
            names += expand(text) if text else []
        except HostlistError as error:
            raise RetirementError(f"{called}: {error}") from None
    if not names:
        raise RetirementError(f"{called}: name the nodes, such as -e {called}=compute-3,compute-17.")
    return list(dict.fromkeys(names))


def _names(hosts: Iterable[Hostvars]) -> dict[str, list[Hostvars]]:
    """Return the hosts by all their names and ids, in lower case."""
    by_name: dict[str, list[Hostvars]] = {}
    for host in hosts:
        names = [node_name(host), host["inventory_hostname"], host.get("azure_name"), host.get("azure_computer_name")]
        names += [host.get("azure_id"), host.get("azure_vm_id"), host.get("azure_instance_id")]
        for name in {str(each).lower() for each in names if each not in (None, "")}:
            by_name.setdefault(name, []).append(host)
    return by_name


def _was_an_instance(name: str, hosts: Iterable[Hostvars]) -> bool:
    """Whether it is a node name of a Uniform set in the inventory, so that its instance must have been deleted."""
    sets = {str(host["azure_vmss"]).lower() for host in hosts if host.get("azure_vmss")}
    match = re.fullmatch(r"(.+)-(0|[1-9][0-9]*)", name.lower())
    return bool(match) and match is not None and match[1] in sets


def _leaving(host: Hostvars, called: str) -> Leaving:
    azure_id, vm_id = host.get("azure_id"), host.get("azure_vm_id")
    if not azure_id or not vm_id:
        raise RetirementError(
            f"{called}: host {host['inventory_hostname']} has no azure_id and azure_vm_id, so its instance is unknown. "
            "Use the inventory plugin hpcai.azure.azure_vmss."
        )
    return {
        "node": node_name(host),
        "host": str(host["inventory_hostname"]),
        "azure_id": str(azure_id),
        "vm_id": str(vm_id),
    }


def _refuse_too_many(chosen: Mapping[str, Hostvars], hosts: Iterable[Hostvars], called: str) -> None:
    """Refuse to remove all or most of a set by mistake.

    :raises RetirementError: too many nodes of a set would be removed.
    """
    members: dict[str, list[str]] = {}
    for host in hosts:
        members.setdefault(str(host.get("azure_vmss") or "no scale set"), []).append(str(host["inventory_hostname"]))
    for name, all_of_it in members.items():
        going = [host for host in all_of_it if host in chosen]
        if going and (len(going) == len(all_of_it) or len(going) > _MOST * len(all_of_it)):
            raise RetirementError(
                f"{called}: {len(going)} of the {len(all_of_it)} instances of {name} would be removed, which is all of "
                f"them or more than {_MOST:.0%}. To do this anyway: -e {called}_force=true."
            )
