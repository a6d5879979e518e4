# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what Azure answered to hosts: addresses, readiness, the query, names. The same for an answer from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .addresses import Connection
from .answer import Answer
from .identifiers import virtual_network_of
from .instance_facts import Instance, InstanceFacts
from .names import host_name

NOT_IN_QUERY = "not in query"

_RUNNING = "running"
_PROVISIONED = "succeeded"


class Host(NamedTuple):
    """One host of the inventory; without an address it cannot be connected to."""

    name: str
    address: str | None
    facts: InstanceFacts


class Hosts(NamedTuple):
    """All hosts, and what was listed but is none, counted by reason."""

    hosts: list[Host]
    left_out: dict[str, int]


def make_hosts(
    answer: Answer,
    connection: Connection,
    hostnames: Sequence[str],
    wants: Callable[[Mapping[str, Any]], bool],
) -> Hosts:
    """Return the hosts of an answer. An instance without an address stays one: it is not ready, but it is there."""
    hosts: list[Host] = []
    left_out = dict(answer["left_out"])
    for instance in answer["instances"]:
        address = connection.address(instance)
        facts = _with_network(instance)
        facts["azure_ready"] = _is_ready(facts) and address is not None
        if wants(facts):
            hosts.append(Host(host_name(facts, hostnames), address, facts))
        else:
            left_out[NOT_IN_QUERY] = left_out.get(NOT_IN_QUERY, 0) + 1
    return Hosts(hosts, left_out)


def _is_ready(facts: InstanceFacts) -> bool:
    """Say whether an instance runs and Azure is done with it: only such a one gets its roles."""
    provisioning = (facts["azure_provisioning_state"] or "").lower()
    return facts["azure_power_state"] == _RUNNING and provisioning == _PROVISIONED


def _with_network(instance: Instance) -> InstanceFacts:
    facts = instance["facts"]
    private: str | None = None
    public: str | None = None
    for interface in instance["interfaces"]:
        private = private or next(iter(interface["private_ipv4"]), None)
        public = public or next(iter(interface["public_ipv4"]), None)
    facts["azure_private_ipv4"] = private
    facts["azure_public_ipv4"] = public
    if instance["interfaces"]:
        primary = instance["interfaces"][0]
        facts["azure_subnet"] = primary["subnet"]
        facts["azure_virtual_network"] = virtual_network_of(primary["subnet"])
        facts["azure_accelerated_networking"] = primary["accelerated_networking"]
    return facts
