# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""By which address a host is reached: the options connect_with, connect_subnet and connect_nic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .errors import InventoryError
from .instance_facts import Instance
from .network_facts import Interface

PRIVATE = "private_ipv4"
PUBLIC = "public_ipv4"
COMPUTER_NAME = "computer_name"
CHOICES = (PRIVATE, PUBLIC, COMPUTER_NAME)

# Azure's rule for names of Linux machines, and nothing that ssh could take for an option.
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Connection:
    """How to reach hosts.

    :ivar choices: what to use, in order; the first that an instance has.
    :ivar subnet: only addresses of this network (`netaddr.IPNetwork`), or None.
    :ivar nic: only addresses of interfaces with this name (a glob), or None.
    """

    choices: tuple[str, ...] = (PRIVATE,)
    subnet: Any = None
    nic: str | None = None

    def address(self, instance: Instance) -> str | None:
        """Return the address of an instance, or None where it has none of the wanted kind."""
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
            # A public address lies in no subnet of its own, it belongs to an interface that does.
            if choice == PUBLIC and interface["public_ipv4"] and (private or self.subnet is None):
                return interface["public_ipv4"][0]
        return None


def make_connection(choices: Sequence[str], subnet: str | None, nic: str | None) -> Connection:
    """Check the options and return how to reach hosts.

    :raises InventoryError: it says which option to change.
    """
    unknown = [choice for choice in choices if choice not in CHOICES]
    if unknown or not choices:
        raise InventoryError(
            f"connect_with: {', '.join(map(repr, unknown)) or 'nothing'} is not among {', '.join(CHOICES)}."
        )
    return Connection(tuple(choices), _network(subnet) if subnet else None, nic)


def _network(subnet: str) -> Any:
    try:
        import netaddr
    except ImportError as error:
        raise InventoryError(
            "connect_subnet: the Python package netaddr is missing where Ansible runs; install it."
        ) from error
    try:
        if "/" not in subnet:
            raise ValueError
        return netaddr.IPNetwork(subnet, version=4)
    except (netaddr.AddrFormatError, ValueError) as error:
        raise InventoryError(f"connect_subnet: {subnet!r} is no IPv4 network such as 10.0.1.0/24.") from error
