# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulator's network on this host: one bridge, one network namespace per machine, and NAT to the outside.

podman's own networks are not used: our namespaces outlive a reboot of their machine. After a crash, only one bridge,
one nft table and the named namespaces must be removed, and all of their names contain the same tag.
"""

from __future__ import annotations

import ipaddress
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.backends import BackendError
from simulator.backends.containers import firewall
from simulator.backends.containers.command import run

NAMESPACES = Path("/run/netns")
SMALL_NETWORKS = ipaddress.IPv4Network("10.76.0.0/24")
"""The range from which the image builder takes its network."""
METADATA_ADDRESS = "169.254.169.254"
BARS = {"refused": "reject with tcp reset", "blackhole": "drop"}


@dataclass(frozen=True)
class Network:
    """One bridge and its namespaces. All names contain ``tag``."""

    tag: str
    cidr: str
    gateway: str
    owner: str
    """Who uses the network: the interface's alias, which `ip link` shows."""

    @property
    def bridge(self) -> str:
        """The bridge's interface name (15 characters at most)."""
        return f"hpcai{self.tag}"

    @property
    def prefix_length(self) -> int:
        """Length of the network prefix."""
        return ipaddress.ip_network(self.cidr).prefixlen

    def namespace(self, machine: str) -> str:
        """Name of a machine's network namespace."""
        return f"hpcai-{self.tag}-{machine}"

    def port(self, machine: str) -> str:
        """The name of the host's end of a machine's veth pair."""
        return f"hp{self.tag[:5]}{zlib.crc32(machine.encode()):08x}"

    def open(self) -> None:
        """Make the bridge, after checking that its addresses are not in use on this host."""
        self._refuse_overlap()
        run(["ip", "link", "add", self.bridge, "type", "bridge"])
        run(["ip", "link", "set", self.bridge, "alias", self.owner[:255]])
        run(["ip", "address", "add", f"{self.gateway}/{self.prefix_length}", "dev", self.bridge])
        run(["ip", "link", "set", self.bridge, "up"])
        firewall.open_for(self.tag, self.bridge, self.cidr)

    def _refuse_overlap(self) -> None:
        wanted = ipaddress.ip_network(self.cidr)
        for taken, device in _routes():
            if wanted.overlaps(taken):
                raise BackendError(
                    f"network {self.cidr} overlaps {taken} on {device} ({_alias(device)}): stop its user, "
                    "or set another address range in the scenario"
                )

    def connect(self, machine: str, addresses: list[str]) -> None:
        """Make a machine's namespace, veth pair and addresses. The first address is its source address."""
        space, port = self.namespace(machine), self.port(machine)
        run(["ip", "netns", "add", space])
        run(["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space])
        run(["ip", "link", "set", port, "master", self.bridge, "up", "alias", machine[:255]])
        commands = ["link set lo up"]
        commands += [f"address add {address}/{self.prefix_length} dev eth0" for address in addresses]
        commands += ["link set eth0 up", f"route add default via {self.gateway}"]
        run(["ip", "-n", space, "-batch", "-"], stdin="\n".join(commands) + "\n")

    def redirect(self, machine: str, imds_port: int, tls_port: int, reaches: Mapping[str, str]) -> None:
        """Redirect a machine's metadata address and the gateway's port 443 to the simulator, or block them.

        The host itself never has the address 169.254.169.254. ``reaches`` has the access to ``imds`` and ``vault`` if
        it is not normal (see simulator.backends.REACHES). Resource Manager is at the vaults' port.
        """
        targets = {"imds": (f"ip daddr {METADATA_ADDRESS} tcp dport 80", imds_port)}
        if tls_port:
            targets["vault"] = (f"ip daddr {self.gateway} tcp dport 443", tls_port)
        blocked = "".join(
            f"    {targets[service][0]} {BARS[how]}\n"
            for service, how in reaches.items()
            if service in targets and how in BARS
        )
        redirected = "".join(f"    {match} dnat to {self.gateway}:{port}\n" for match, port in targets.values())
        run(
            ["ip", "netns", "exec", self.namespace(machine), "nft", "-f", "-"],
            stdin=(
                "table ip hpcai_imds\n"
                "delete table ip hpcai_imds\n"
                "table ip hpcai_imds {\n"
                # Before address translation, and also for open connections.
                "  chain barred {\n"
                "    type filter hook output priority -150;\n"
                f"{blocked}"
                "  }\n"
                "  chain output {\n"
                "    type nat hook output priority -100;\n"
                f"{redirected}"
                "  }\n"
                "}\n"
            ),
        )

    def plug(self, machine: str, up: bool) -> None:
        """Set the link up or down: a stopped machine must not answer, not even with 'connection refused'."""
        run(["ip", "link", "set", self.port(machine), "up" if up else "down"])

    def disconnect(self, machine: str) -> None:
        """Remove a machine's namespace and its veth pair."""
        space = self.namespace(machine)
        # Delete our end first: the kernel keeps the pair until the last process of the namespace has ended.
        run(["ip", "link", "delete", self.port(machine)], check=False)
        if (NAMESPACES / space).exists():
            run(["ip", "netns", "delete", space])

    def close(self) -> None:
        """Remove everything with this network's tag."""
        remove(self.tag)


def free_network(tag: str, owner: str) -> tuple[Network, str]:
    """A small network that overlaps no route of this host, and the address for its only machine."""
    taken = [network for network, _device in _routes()]
    for small in SMALL_NETWORKS.subnets(new_prefix=29):
        if not any(small.overlaps(network) for network in taken):
            gateway, address = (str(host) for host in list(small.hosts())[:2])
            return Network(tag=tag, cidr=str(small), gateway=gateway, owner=owner), address
    raise BackendError(f"every network of {SMALL_NETWORKS} is in use on this host: remove one of the routes to them")


def _routes() -> list[tuple[ipaddress.IPv4Network, str]]:
    """The routes in this host's main table, without the default route."""
    routes: list[dict[str, Any]] = json.loads(run(["ip", "-4", "-json", "route", "show", "table", "main"]) or "[]")
    return [
        (ipaddress.IPv4Network(route["dst"], strict=False), str(route.get("dev", "?")))
        for route in routes
        if route["dst"] != "default"
    ]


def _alias(device: str) -> str:
    found = json.loads(run(["ip", "-json", "link", "show", "dev", device], check=False) or "[]")
    return str(found[0].get("ifalias", "not ours")) if found else "gone"


def remove(tag: str) -> None:
    """Remove the bridge, veth pairs, namespaces and firewall rules of one tag. Missing ones are not an error."""
    prefix = f"hp{tag[:5]}"
    bridge = f"hpcai{tag}"
    links: list[dict[str, Any]] = json.loads(run(["ip", "-json", "link", "show"]))
    for link in links:
        if link["ifname"].startswith(prefix) and link.get("master") == bridge:
            run(["ip", "link", "delete", link["ifname"]], check=False)
    if NAMESPACES.is_dir():
        for space in NAMESPACES.glob(f"hpcai-{tag}-*"):
            run(["ip", "netns", "delete", space.name], check=False)
    if any(link["ifname"] == bridge for link in links):
        run(["ip", "link", "delete", bridge], check=False)
    firewall.close_for(tag)
