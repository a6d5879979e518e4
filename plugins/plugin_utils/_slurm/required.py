# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check of the variables that the role requires. The inventory plugin sets all of them, a static inventory may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize, find_size

from .cluster import ClusterError, Hostvars, nodes_of

FACTS = (
    "architecture",
    "distribution",
    "distribution_major_version",
    "distribution_version",
    "hostname",
    "os_family",
    "pkg_mgr",
)
"""The gathered facts that the role reads."""

_ROLE_GROUPS = ("hpcai_controller", "hpcai_login", "hpcai_compute")
_NAMED_HOSTS = 3


def missing(
    compute: Iterable[Hostvars],
    targets: Iterable[Hostvars],
    controller: str,
    described_sizes: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Return a line for each variable that is missing or invalid.

    :param compute: the hosts that would be nodes in slurm.conf.
    :param targets: the hosts that the role would configure.
    :param controller: the variable ``slurm_controller``.
    """
    nodes, hosts = list(compute), list(targets)
    return [
        *_no_controller(controller),
        *_no_size(nodes),
        *_unusable(nodes, described_sizes),
        *_no_function(hosts, controller),
        *_no_facts(hosts),
    ]


def _no_controller(controller: str) -> Iterable[str]:
    if not controller:
        yield (
            "slurm_controller: no host is in the group hpcai_controller. Tag one machine with hpcai_role=controller, "
            "add a host to that group, or set slurm_controller to the name of a host."
        )


def _no_size(nodes: Sequence[Hostvars]) -> Iterable[str]:
    names = [_name(host) for host in nodes if not host.get("azure_vm_size")]
    if names:
        yield (
            f"azure_vm_size is not set on {_listed(names)}. Set it to the VM size, such as Standard_ND96asr_v4. For a "
            "machine outside of Azure, set any name and describe it in hpcai_vm_sizes."
        )


def _unusable(nodes: Sequence[Hostvars], described_sizes: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    for size in sorted({str(host["azure_vm_size"]) for host in nodes if host.get("azure_vm_size")}):
        try:
            find_size(size, described_sizes)
        except UnknownVmSize as error:
            yield f"azure_vm_size: {error}"
            return
    try:
        nodes_of([host for host in nodes if host.get("azure_vm_size")], described_sizes)
    except ClusterError as error:
        yield f"slurm_node_name: {error}"


def _no_function(hosts: Sequence[Hostvars], controller: str) -> Iterable[str]:
    names = [
        _name(host)
        for host in hosts
        if not host.get("slurm_functions")
        and not set(_ROLE_GROUPS) & set(host.get("group_names") or ())
        and _name(host) not in (controller, host.get("slurm_accounting_host"))
    ]
    if names:
        yield (
            f"slurm_functions is empty on {_listed(names)}. Add each host to one of the groups "
            f"{', '.join(_ROLE_GROUPS)}, or set slurm_functions."
        )


def _no_facts(hosts: Sequence[Hostvars]) -> Iterable[str]:
    lacking: dict[str, list[str]] = {}
    for host in hosts:
        facts = host.get("ansible_facts") or {}
        absent = [fact for fact in FACTS if not facts.get(fact)]
        if absent:
            lacking.setdefault(", ".join(absent), []).append(_name(host))
    for absent_facts, names in lacking.items():
        yield (
            f"ansible_facts lack {absent_facts} on {_listed(names)}. Enable gather_facts, or run "
            "ansible.builtin.setup with gather_subset: [min] before the role."
        )


def _name(host: Hostvars) -> str:
    return str(host["inventory_hostname"])


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_HOSTS
    return ", ".join(names[:_NAMED_HOSTS]) + (f" and {more} more hosts" if more > 0 else "")
