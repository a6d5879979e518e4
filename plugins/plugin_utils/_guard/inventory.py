# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons not to run on an inventory, and a report of what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from .roles import role_problems

RESERVED = ip_network("172.16.0.0/16")
"""Azure gives the RDMA interfaces of InfiniBand sizes addresses out of this network; Ethernet must not overlap it.

Source: MicrosoftDocs/azure-compute-docs, setup-infiniband ("172.16.0.0/16 is reserved for RDMA").
"""

_SUFFIXES = ("azure_vmss.yml", "azure_vmss.yaml")
# What Ansible passes over in a folder of sources, besides hidden files (IGNORED_ALWAYS of ansible.inventory.manager).
_NO_SOURCES = ("host_vars", "group_vars", "vars_plugins")
_NAMED_HOSTS = 3


def problems(
    inventory: Mapping[str, Any] | None,
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, Any]],
    given_sources: Iterable[str],
    controllers: Iterable[Any] = (),
) -> list[str]:
    """Return the reasons not to go on, one line each; none if the inventory is good.

    :param inventory: the variable ``azure_inventory`` that the inventory plugin sets on the group ``all``; None where
        no such source was read, as in an inventory that was written by hand.
    :param groups: Ansible's groups.
    :param hosts: variables of the hosts that the playbook would touch.
    :param given_sources: Ansible's ``ansible_inventory_sources``.
    :param controllers: the variable ``hpcai_controllers``, where the user has set it.
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
                f"Set any_unparsed_is_failed = true in the section [inventory] of ansible.cfg to fail there already."
            )


def _files(given_sources: Iterable[str]) -> Iterable[str]:
    for given in given_sources:
        if os.path.isdir(given):
            entries = [name for name in sorted(os.listdir(given)) if not name.startswith(".")]
            yield from _files(os.path.join(given, name) for name in entries if name not in _NO_SOURCES)
        # Also one that does not exist: of that Ansible only warns, too. With a comma it is a list of hosts.
        elif given.endswith(_SUFFIXES) and "," not in given:
            yield given


def _partial(inventory: Mapping[str, Any] | None) -> Iterable[str]:
    for source in (inventory or {}).get("sources", []):
        if not source["complete"]:
            why = "; ".join(source["errors"]) or "it came from an outdated cache"
            yield f"The inventory of {source['source']} is partial ({why}): mend that, or nodes would be lost."
        elif source["from_cache"]:
            yield (
                f"The inventory of {source['source']} is {source['age_seconds']} s old, out of the cache. Nodes that "
                f"joined since would be taken out of the cluster: run with --flush-cache."
            )


def _missing_roles(groups: Mapping[str, Sequence[str]]) -> Iterable[str]:
    for role in ("controller", "compute"):
        if not groups.get(f"hpcai_{role}"):
            yield (
                f"No host is in the group hpcai_{role}: tag a machine that runs and is provisioned with "
                f"hpcai_role={role}, or name its group so."
            )


def _mixed_clusters(hosts: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    clusters: dict[str, str] = {}
    for host in hosts:
        tags = host.get("azure_tags") or {}
        if "hpcai_cluster" in tags:
            clusters.setdefault(str(tags["hpcai_cluster"]), str(host["inventory_hostname"]))
    if len(clusters) > 1:
        named = ", ".join(f"{cluster!r} ({host})" for cluster, host in sorted(clusters.items()))
        yield f"The inventory holds several clusters: {named}. Keep one value of the tag hpcai_cluster (option tags)."


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
        named = ", ".join(inside[:_NAMED_HOSTS])
        more = f" and {len(inside) - _NAMED_HOSTS} more" if len(inside) > _NAMED_HOSTS else ""
        yield f"Hosts have addresses in {RESERVED}, which is reserved for RDMA: {named}{more}."


def report(inventory: Mapping[str, Any] | None) -> list[str]:
    """Return one line for each scale set: what Azure says of its nodes, placement group and accelerated networking."""
    return [str(line) for source in (inventory or {}).get("sources", []) for line in source["scale_sets"]]
