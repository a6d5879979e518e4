# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: networks that an NFS server may trust."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible.errors import AnsibleFilterError

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "::1/128")
"""RFC 1918, RFC 4193, and the machine itself."""
LOCAL = "local"
"""The server's own subnet, which the server determines itself."""


def private_networks(names: Iterable[Any], allow_public: bool = False) -> list[str]:
    """Return networks and addresses as networks, adjacent ones merged, if a server may trust them."""
    try:
        import netaddr
    except ImportError as error:
        raise AnsibleFilterError(
            "private_networks: the Python package netaddr is missing on the control node; install it."
        ) from error
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise AnsibleFilterError(f"private_networks takes a list of networks such as 10.0.0.0/24, not {names!r}.")
    wanted = [str(name) for name in names]
    found = []
    for name in wanted:
        if name == LOCAL:
            continue
        try:
            network = netaddr.IPNetwork(name).cidr
        except (netaddr.AddrFormatError, ValueError) as error:
            raise AnsibleFilterError(f"{name!r} is not a network or address, such as 10.0.0.0/24.") from error
        if network.prefixlen == 0:
            raise AnsibleFilterError(f"{name} matches every client. List the cluster's subnets.")
        if not allow_public and not any(network in netaddr.IPNetwork(private) for private in PRIVATE):
            raise AnsibleFilterError(
                f"{name} is not a private network ({', '.join(PRIVATE[:3])}). List the cluster's subnets, or set "
                f"shared_fs_allow_public to allow public networks."
            )
        found.append(network)
    return [*([LOCAL] if LOCAL in wanted else []), *(str(network) for network in netaddr.cidr_merge(found))]


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"private_networks": private_networks}
