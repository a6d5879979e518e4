# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Converts a listing, from Azure or from the cache, to hosts: names, addresses, readiness and the query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from .errors import InventoryError
from .facts import Instance, InstanceFacts, Interface, Listing
from .resources import virtual_network_of

COMPUTER_NAME = "computer_name"

# Facts that can be the name of a host. The name of the resource is the last fallback, because each instance has one.
NAME_CHOICES = (COMPUTER_NAME, "name", "vm_id", "private_ipv4", "public_ipv4")


def check_name_choices(choices: Sequence[str]) -> None:
    """Check the option hostnames.

    :raises InventoryError: a value is unknown. The message lists the known ones.
    """
    unknown = [choice for choice in choices if choice not in NAME_CHOICES]
    if unknown or not choices:
        raise InventoryError(
            f"hostnames: {', '.join(map(repr, unknown)) or 'nothing'} is not among {', '.join(NAME_CHOICES)}."
        )


def host_name(facts: InstanceFacts, choices: Sequence[str]) -> str:
    """Return the first name in order of preference that an instance has."""
    for choice in choices:
        value = facts.get(f"azure_{choice}")
        if value:
            return str(value)
    return facts["azure_name"]


def check_unique(named: Sequence[tuple[str, str]], elsewhere: dict[str, str]) -> None:
    """Refuse two instances with the same name.

    :param named: name and resource id of each host of this source.
    :param elsewhere: the same for the hosts of other sources.
    :raises InventoryError: two instances have the same name. The message contains both ids.
    """
    ids_by_name = dict(elsewhere)
    for name, resource_id in named:
        other = ids_by_name.setdefault(name, resource_id)
        if other.lower() != resource_id.lower():
            raise InventoryError(
                f"two instances have the same host name {name!r}: {other} and {resource_id}; exclude one of them "
                "(tags, scale_sets, query), or use another name (hostnames: [name])."
            )


PRIVATE = "private_ipv4"
PUBLIC = "public_ipv4"
ADDRESS_CHOICES = (PRIVATE, PUBLIC, COMPUTER_NAME)

# Azure's rule for names of Linux machines. It also excludes names that ssh would read as an option.
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")


@dataclass(frozen=True)
class AddressChoice:
    """How to reach hosts.

    :ivar choices: kinds of addresses, in order of preference. The first that an instance has is used.
    :ivar subnet: only addresses in this network (`netaddr.IPNetwork`), or None.
    :ivar nic: only addresses of interfaces with this name (a glob), or None.
    """

    choices: tuple[str, ...] = (PRIVATE,)
    subnet: Any = None
    nic: str | None = None

    def address(self, instance: Instance) -> str | None:
        """Return the address of an instance, or None if it has none of the requested kinds."""
        for choice in self.choices:
            if choice == COMPUTER_NAME:
                name = instance["facts"]["azure_computer_name"]
                if name and _HOST_NAME.fullmatch(name):
                    return name
            else:
                address = self._first(instance["interfaces"], choice)
                if address:
                    return address
        return None

    def _first(self, interfaces: Sequence[Interface], choice: str) -> str | None:
        for interface in interfaces:
            if self.nic and not fnmatchcase(interface["name"].lower(), self.nic.lower()):
                continue
            private = [
                address for address in interface["private_ipv4"] if self.subnet is None or address in self.subnet
            ]
            if choice == PRIVATE and private:
                return private[0]
            # A public address is in no subnet, so the subnet of its interface is checked.
            if choice == PUBLIC and interface["public_ipv4"] and (private or self.subnet is None):
                return interface["public_ipv4"][0]
        return None


def make_address_choice(choices: Sequence[str], subnet: str | None, nic: str | None) -> AddressChoice:
    """Check the options and return how to reach hosts.

    :raises InventoryError: an option is invalid. The message names it.
    """
    unknown = [choice for choice in choices if choice not in ADDRESS_CHOICES]
    if unknown or not choices:
        raise InventoryError(
            f"connect_with: {', '.join(map(repr, unknown)) or 'nothing'} is not among {', '.join(ADDRESS_CHOICES)}."
        )
    return AddressChoice(tuple(choices), _network(subnet) if subnet else None, nic)


def _network(subnet: str) -> Any:
    try:
        import netaddr
    except ImportError as error:
        raise InventoryError(
            "connect_subnet: the Python package netaddr is missing on the control node; install it."
        ) from error
    try:
        if "/" not in subnet:
            raise ValueError
        return netaddr.IPNetwork(subnet, version=4)
    except (netaddr.AddrFormatError, ValueError) as error:
        raise InventoryError(f"connect_subnet: {subnet!r} is not an IPv4 network such as 10.0.1.0/24.") from error


def compile_query(expression: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that says whether the facts of an instance match the query.

    :raises InventoryError: the expression is invalid, or the package jmespath is missing.
    """
    if not expression:
        return lambda _facts: True
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError as error:
        raise InventoryError(
            "query: the Python package jmespath is missing on the control node; install it."
        ) from error
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        raise InventoryError(f"query: {expression!r} is not a JMESPath expression: {_one_line(error)}") from error

    def wants(facts: Mapping[str, Any]) -> bool:
        try:
            result = compiled.search(dict(facts))
        except JMESPathError as error:
            raise InventoryError(f"query: {expression!r} fails on {facts['azure_id']}: {_one_line(error)}") from error
        # The same rule as in JMESPath, where each number is true, even 0.
        return result is not None and result is not False and result not in ("", [], {})

    return wants


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


NOT_IN_QUERY = "not in query"

_RUNNING = "running"
_PROVISIONED = "succeeded"


class Host(NamedTuple):
    """One host of the inventory. Without an address, Ansible cannot connect to it."""

    name: str
    address: str | None
    facts: InstanceFacts


class Hosts(NamedTuple):
    """All hosts, and the number of listed instances that are not hosts, by reason."""

    hosts: list[Host]
    left_out: dict[str, int]


def make_hosts(
    answer: Listing,
    connection: AddressChoice,
    hostnames: Sequence[str],
    wants: Callable[[Mapping[str, Any]], bool],
) -> Hosts:
    """Return the hosts of an answer. An instance without an address is still a host, but not ready."""
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
    """Say whether an instance is running and provisioned. Only then it gets its roles."""
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
