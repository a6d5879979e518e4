# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses of a subnet are in use.

Azure reserves the first four addresses and the last one of a subnet, and assigns the lowest free one. So a new instance
gets the address of an instance that was just deleted, which breaks clients that identify hosts by address.
"""

from __future__ import annotations

import heapq
import ipaddress

RESERVED = 4


class AddressesExhausted(Exception):
    """The subnet has no free address."""


class AddressPool:
    """A range of addresses. The lowest free one is assigned first."""

    def __init__(self, first: ipaddress.IPv4Address, last: ipaddress.IPv4Address) -> None:
        self.first = first
        self.last = last
        self._next = first
        self._free: list[int] = []
        self._used: set[int] = set()

    def take(self, wanted: str | None = None) -> str:
        """Assign the requested address, or the lowest free one."""
        if wanted is not None:
            number = int(ipaddress.IPv4Address(wanted))
            if number in self._used or not int(self.first) <= number <= int(self.last):
                raise AddressesExhausted(f"{wanted} is taken or outside {self.first} to {self.last}")
            while int(self._next) <= number:
                heapq.heappush(self._free, int(self._next))
                self._next += 1
            self._free.remove(number)
            heapq.heapify(self._free)
        elif self._free:
            number = heapq.heappop(self._free)
        elif self._next <= self.last:
            number = int(self._next)
            self._next += 1
        else:
            raise AddressesExhausted(f"no free address from {self.first} to {self.last}: use a larger subnet")
        self._used.add(number)
        return str(ipaddress.IPv4Address(number))

    def release(self, address: str) -> None:
        """Free an address. The next instance gets it if it is the lowest free one."""
        number = int(ipaddress.IPv4Address(address))
        if number in self._used:
            self._used.remove(number)
            heapq.heappush(self._free, number)


def split(prefix: str) -> tuple[AddressPool, AddressPool]:
    """A subnet's pool of private addresses, and its top fifth as the pool of public addresses.

    One machine cannot have real public addresses, so they are second addresses in the same network (from 10.77.0.200 in
    10.77.0.0/24).
    """
    network = ipaddress.ip_network(prefix)
    if not isinstance(network, ipaddress.IPv4Network) or network.prefixlen > 28:
        raise ValueError(f"{prefix} is not an IPv4 network of at least 16 addresses")
    border = network.network_address + network.num_addresses * 200 // 256
    return (
        AddressPool(network.network_address + RESERVED, border - 1),
        AddressPool(border, network.broadcast_address - 1),
    )
