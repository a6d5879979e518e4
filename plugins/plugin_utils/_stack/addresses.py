# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of the stack: default ranges, and what is wrong with given ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...module_utils._node.forms import Malformed
from . import model
from .forms import network_range
from .model import BASTION, BASTION_SUBNET, CLUSTER, COMPUTE, ENDPOINTS, NAME, PRIVATE, PUBLIC, SUBNETS

RDMA_NETWORK = ipaddress.ip_network("172.16.0.0/16")
"""Reserved for RDMA (MicrosoftDocs/azure-compute-docs, setup-infiniband)."""
RESERVED = 5
"""Azure keeps the first four addresses and the last one of each subnet."""
_DEFAULT_SPACE = "10.42.0.0/16"
_SMALLEST_SPACE = 23
_BASTION_PREFIX = 26
"""The smallest subnet that Azure Bastion accepts."""
_PLACE = f"{NAME}.network"


def network_of(network: model.Network) -> model.Network:
    """Return the network with default ranges and access.

    :raises Malformed: ranges overlap, are too small, or contradict each other.
    """
    if network.adopt:
        return _adopted(network)
    spaces = [ipaddress.IPv4Network(item) for item in network.address_space or (_DEFAULT_SPACE,)]
    for space in spaces:
        if space.overlaps(RDMA_NETWORK):
            raise Malformed(f"{_PLACE}.address_space: {space} overlaps {RDMA_NETWORK}, which Azure reserves for RDMA.")
    subnets = {**_carve(spaces[0], network.subnets), **network.subnets}
    ranges = {name: ipaddress.IPv4Network(network_range(f"{_PLACE}.subnets.{name}", subnets[name])) for name in SUBNETS}
    _check_ranges(spaces, ranges)
    return replace(
        network,
        address_space=tuple(str(space) for space in spaces),
        subnets={name: str(one) for name, one in ranges.items()},
        access=_access(network),
    )


def _adopted(network: model.Network) -> model.Network:
    for key in ("address_space", "ssh_from"):
        if getattr(network, key):
            raise Malformed(f"{_PLACE}.{key}: the network of {_PLACE}.adopt is never changed. Remove the key.")
    if network.access in (PUBLIC, BASTION):
        raise Malformed(f"{_PLACE}.access: with {_PLACE}.adopt, only {PRIVATE} is possible. Remove the key.")
    for name in (CLUSTER, COMPUTE):
        if name not in network.subnets:
            raise Malformed(f"{_PLACE}.subnets lacks {name}: the name of the subnet of the network in {_PLACE}.adopt.")
    return replace(network, access=PRIVATE, nat=False)


def _check_ranges(spaces: Iterable[ipaddress.IPv4Network], ranges: Mapping[str, ipaddress.IPv4Network]) -> None:
    for position, (name, one) in enumerate(ranges.items()):
        if not any(one.subnet_of(space) for space in spaces):
            raise Malformed(f"{_PLACE}.subnets.{name}: {one} is not within {_PLACE}.address_space.")
        for other in list(ranges)[:position]:
            if one.overlaps(ranges[other]):
                raise Malformed(f"{_PLACE}.subnets.{name}: {one} overlaps the subnet {other}, {ranges[other]}.")
    if ranges[BASTION_SUBNET].prefixlen > _BASTION_PREFIX:
        raise Malformed(f"{_PLACE}.subnets.{BASTION_SUBNET}: Azure Bastion needs a /{_BASTION_PREFIX} or more.")


def _access(network: model.Network) -> str:
    access = network.access or (PUBLIC if network.ssh_from else BASTION)
    if (access == PUBLIC) != bool(network.ssh_from):
        raise Malformed(
            f"{_PLACE}.ssh_from: access {PUBLIC} needs the ranges that may connect by ssh, and other access has none."
        )
    if "0.0.0.0/0" in network.ssh_from:
        raise Malformed(f"{_PLACE}.ssh_from: 0.0.0.0/0 is the entire internet. List the ranges of your sites.")
    return access


def _carve(space: ipaddress.IPv4Network, given: Mapping[str, str]) -> dict[str, str]:
    """Return default subnets: the upper half for compute nodes, the first quarter's start for the controller."""
    if space.prefixlen > _SMALLEST_SPACE:
        if set(given) == set(SUBNETS):
            return {}
        raise Malformed(
            f"{_PLACE}.address_space: {space} is smaller than a /{_SMALLEST_SPACE}. Give all ranges in subnets."
        )
    first, second, *_upper = space.subnets(prefixlen_diff=2)
    bastion, endpoints = list(second.subnets(new_prefix=_BASTION_PREFIX))[:2]
    return {
        CLUSTER: str(next(iter(first.subnets(new_prefix=max(24, first.prefixlen))))),
        COMPUTE: str(list(space.subnets())[1]),
        BASTION_SUBNET: str(bastion),
        ENDPOINTS: str(endpoints),
    }


def controller_address(controller: model.Controller, network: model.Network) -> str:
    """Return the controller's fixed address: the given one, else the first usable one of its subnet.

    :raises Malformed: it is missing or not usable.
    """
    path = f"{NAME}.controller.private_ip"
    if network.adopt:
        if not controller.private_ip:
            raise Malformed(f"{path} is missing: with {NAME}.network.adopt, give a free address of the subnet cluster.")
        return controller.private_ip
    subnet = ipaddress.IPv4Network(network.subnets[CLUSTER])
    if not controller.private_ip:
        return str(subnet[RESERVED - 1])
    address = ipaddress.IPv4Address(controller.private_ip)
    if address not in subnet or int(address) - int(subnet[0]) < RESERVED - 1 or address == subnet[-1]:
        raise Malformed(f"{path}: {address} is no usable address of the subnet cluster, {subnet}.")
    return controller.private_ip
