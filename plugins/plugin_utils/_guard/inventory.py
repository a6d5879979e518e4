# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of an inventory and of the roles in it, and a report of its scale sets.

A tag alone must not give a role, because then anybody who can tag a virtual machine could become root of the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

import yaml

from .._azure.errors import listed
from .._azure.resources import resource_group_of, subscription_of
from .._azure.selection import covers, is_limited

ROLES = ("controller", "login", "compute", "monitor", "image")
_NAMED_HOSTS = 3


def role_problems(
    inventory: Mapping[str, Any] | None,
    groups: Mapping[str, Sequence[str]],
    hosts: Sequence[Mapping[str, Any]],
    controllers: Iterable[Any] = (),
) -> list[str]:
    """Return a line for each problem of the hosts' roles.

    :param controllers: the variable ``hpcai_controllers``, if the user has set it: inventory names or addresses.
    """
    return [
        *_unlimited_sources(inventory, groups, hosts),
        *_strangers(inventory, groups, hosts),
        *_several_controllers(groups, hosts, controllers),
    ]


def _unlimited_sources(
    inventory: Mapping[str, Any] | None, groups: Mapping[str, Sequence[str]], hosts: Sequence[Mapping[str, Any]]
) -> Iterable[str]:
    """Return a problem for each source that lists machines of entire subscriptions, with the line to add to it."""

    def most_powerful_first(name: str) -> tuple[int, str]:
        return next((rank for rank, role in enumerate(ROLES) if name in groups.get(f"hpcai_{role}", ())), 9), name

    for source in (inventory or {}).get("sources", []):
        scope = source["scope"]
        if is_limited(scope):
            continue
        hosts_by_group: dict[str, list[str]] = {}
        for host in hosts:
            if (subscription_of(host.get("azure_id")) or "").lower() in scope["subscription_ids"]:
                # Azure's answers differ in the case of a group's name.
                group = str(host.get("azure_resource_group") or resource_group_of(host["azure_id"]))
                key = next((known for known in hosts_by_group if known.lower() == group.lower()), group)
                hosts_by_group.setdefault(key, []).append(str(host["inventory_hostname"]))
        where = "; ".join(
            f"{group}: {listed(sorted(names, key=most_powerful_first), _NAMED_HOSTS)}"
            for group, names in sorted(hosts_by_group.items())
        )
        named = ", ".join(map(_as_yaml, sorted(hosts_by_group)))
        yield (
            f"{source['source']} names no resource group, so any machine of the subscription can get a role from its "
            f"tag. Add this line to it, and keep only groups that you trust: "
            f"resource_groups: [{named or 'YOUR-RESOURCE-GROUP'}]" + (f" (hosts with a role: {where})" if where else "")
        )


def _strangers(
    inventory: Mapping[str, Any] | None, groups: Mapping[str, Sequence[str]], hosts: Sequence[Mapping[str, Any]]
) -> Iterable[str]:
    """Return a problem for each host with a role outside of all resource groups and scale sets of the sources."""
    scopes = [source["scope"] for source in (inventory or {}).get("sources", [])]
    if not scopes or not all(map(is_limited, scopes)):
        return
    for host in hosts:
        # A host without an id comes from a static inventory.
        if not host.get("azure_id") or any(covers(scope, host) for scope in scopes):
            continue
        name, azure_id = str(host["inventory_hostname"]), str(host["azure_id"])
        held = " and ".join(f"hpcai_{role}" for role in ROLES if name in groups.get(f"hpcai_{role}", ()))
        yield (
            f"Host {name} is in the group {held or '(none)'}, but belongs to resource group "
            f"{resource_group_of(azure_id)} of subscription {subscription_of(azure_id)}, which the inventory does not "
            f"name. If you do not trust it, find out who tagged it: {azure_id}. If you trust it, add its resource "
            f"group to the option resource_groups, or its scale set to scale_sets, as GROUP/NAME."
        )


def _several_controllers(
    groups: Mapping[str, Sequence[str]], hosts: Sequence[Mapping[str, Any]], named: Iterable[Any]
) -> Iterable[str]:
    """Return a problem if there is more than one controller, and hpcai_controllers does not list all of them."""
    controllers = list(groups.get("hpcai_controller", ()))
    if len(controllers) < 2:
        return
    by_name = {str(host["inventory_hostname"]): host for host in hosts}
    trusted = {str(name).lower() for name in named}
    others = [name for name in controllers if not trusted & _names_of(name, by_name.get(name, {}))]
    if others:
        shown = ", ".join(f"{name}{_in_group(by_name.get(name, {}))}" for name in controllers)
        yield (
            f"The group hpcai_controller has {len(controllers)} hosts: {shown}. The variable hpcai_controllers does "
            f"not list {', '.join(others)}. Remove the role from all hosts but one, or set hpcai_controllers to the "
            f"inventory names or addresses of all controllers."
        )


def _names_of(name: str, host: Mapping[str, Any]) -> set[str]:
    addresses = (host.get("azure_private_ipv4"), host.get("ansible_host"))
    return {str(item).lower() for item in (name, *addresses) if item}


def _in_group(host: Mapping[str, Any]) -> str:
    group = resource_group_of(host.get("azure_id"))
    return f" (resource group {group})" if group else ""


def _as_yaml(group: str) -> str:
    """Return the name, in quotes if YAML would not read it as text, such as 001."""
    return group if yaml.safe_load(group) == group else f"'{group}'"


RESERVED = ip_network("172.16.0.0/16")
"""Azure assigns addresses of this network to the RDMA interfaces of InfiniBand sizes. Ethernet must not overlap it.

Source: MicrosoftDocs/azure-compute-docs, setup-infiniband ("172.16.0.0/16 is reserved for RDMA").
"""

_SUFFIXES = ("azure_vmss.yml", "azure_vmss.yaml")
# Names that Ansible ignores in a folder of sources, in addition to hidden files (IGNORED_ALWAYS of
# ansible.inventory.manager).
_NO_SOURCES = ("host_vars", "group_vars", "vars_plugins")


def problems(
    inventory: Mapping[str, Any] | None,
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, Any]],
    given_sources: Iterable[str],
    controllers: Iterable[Any] = (),
) -> list[str]:
    """Return the reasons not to run, one line each. Empty if there are none.

    :param inventory: the variable ``azure_inventory`` that the inventory plugin sets on the group ``all``. None if no
        such source was read, as for a static inventory.
    :param groups: Ansible's groups.
    :param hosts: variables of the hosts that the playbook would configure.
    :param given_sources: Ansible's ``ansible_inventory_sources``.
    :param controllers: the variable ``hpcai_controllers``, if the user has set it.
    """
    hosts = list(hosts)
    found = [
        *_failed_sources(inventory, given_sources),
        *_partial(inventory),
        *role_problems(inventory, groups, hosts, controllers),
        *_missing_roles(groups),
        *_mixed_clusters(hosts),
        *_overlapping_networks(inventory),
        *_overlapping_hosts(hosts),
    ]
    # Two sources may share a network.
    return list(dict.fromkeys(found))


def _failed_sources(inventory: Mapping[str, Any] | None, given_sources: Iterable[str]) -> Iterable[str]:
    read = {os.path.realpath(source["source"]) for source in (inventory or {}).get("sources", [])}
    for path in _files(given_sources):
        if os.path.realpath(path) not in read:
            yield (
                f"The inventory source {path} could not be read: see the warnings above. "
                f"To fail at that point, set any_unparsed_is_failed = true in the section [inventory] of ansible.cfg."
            )


def _files(given_sources: Iterable[str]) -> Iterable[str]:
    for given in given_sources:
        if os.path.isdir(given):
            entries = [name for name in sorted(os.listdir(given)) if not name.startswith(".")]
            yield from _files(os.path.join(given, name) for name in entries if name not in _NO_SOURCES)
        # A missing file counts too, because Ansible only warns about it. With a comma it is a list of hosts.
        elif given.endswith(_SUFFIXES) and "," not in given:
            yield given


def _partial(inventory: Mapping[str, Any] | None) -> Iterable[str]:
    for source in (inventory or {}).get("sources", []):
        if not source["complete"]:
            why = "; ".join(source["errors"]) or "it came from an outdated cache"
            yield (
                f"The inventory of {source['source']} is partial ({why}). Fix this first, because the run would remove "
                f"the missing nodes from the cluster."
            )
        elif source["from_cache"]:
            yield (
                f"The inventory of {source['source']} is {source['age_seconds']} s old, from the cache. The run would "
                f"remove nodes that joined since then from the cluster: run with --flush-cache."
            )


def _missing_roles(groups: Mapping[str, Sequence[str]]) -> Iterable[str]:
    for role in ("controller", "compute"):
        if not groups.get(f"hpcai_{role}"):
            yield (
                f"No host is in the group hpcai_{role}: set the tag hpcai_role={role} on a running, provisioned "
                f"machine, or add a host to this group."
            )


def _mixed_clusters(hosts: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    clusters: dict[str, str] = {}
    for host in hosts:
        tags = host.get("azure_tags") or {}
        if "hpcai_cluster" in tags:
            clusters.setdefault(str(tags["hpcai_cluster"]), str(host["inventory_hostname"]))
    if len(clusters) > 1:
        named = ", ".join(f"{cluster!r} ({host})" for cluster, host in sorted(clusters.items()))
        yield (
            f"The inventory contains several clusters: {named}. "
            f"Select one value of the tag hpcai_cluster (option tags)."
        )


def _overlapping_networks(inventory: Mapping[str, Any] | None) -> Iterable[str]:
    for source in (inventory or {}).get("sources", []):
        for network in source["virtual_networks"]:
            for prefix in network["address_prefixes"] or ():
                other = ip_network(prefix, strict=False)
                if other.version == RESERVED.version and other.overlaps(RESERVED):
                    yield f"Virtual network {network['id']} ({prefix}) overlaps {RESERVED}, which is reserved for RDMA."


def _overlapping_hosts(hosts: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    addresses = [(str(host["inventory_hostname"]), host.get("azure_private_ipv4")) for host in hosts]
    inside = [f"{name} ({address})" for name, address in addresses if address and ip_address(address) in RESERVED]
    if inside:
        named = listed(inside, _NAMED_HOSTS)
        yield f"Hosts have addresses in {RESERVED}, which is reserved for RDMA: {named}."


def report(inventory: Mapping[str, Any] | None) -> list[str]:
    """Return one line for each scale set: its nodes, placement group and accelerated networking in Azure."""
    return [str(line) for source in (inventory or {}).get("sources", []) for line in source["scale_sets"]]
