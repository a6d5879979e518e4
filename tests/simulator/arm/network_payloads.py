# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network interfaces and public addresses of machines in the format of Azure's published examples."""

from __future__ import annotations

from typing import Any

from simulator.resources import NETWORK, Instance


def interface(item: Instance) -> dict[str, Any]:
    """The network interface of a machine. The id of its machine has the resource group in capitals, as in Azure."""
    configuration: dict[str, Any] = {
        "name": "ipconfig1",
        "id": f"{item.group_id}{item.interface_path}/ipConfigurations/ipconfig1",
        "properties": {
            "provisioningState": "Succeeded",
            "privateIPAllocationMethod": "Dynamic",
            "subnet": {"id": item.subnet.id},
            "primary": True,
            "privateIPAddressVersion": "IPv4",
        },
    }
    if item.private_ipv4 is not None:
        configuration["properties"]["privateIPAddress"] = item.private_ipv4
    if item.public_ipv4 is not None:
        configuration["properties"]["publicIPAddress"] = {"id": item.group_id + item.public_address_path}
    payload: dict[str, Any] = {
        "name": item.interface_name,
        "id": item.group_id + item.interface_path,
        "properties": {
            "provisioningState": "Succeeded",
            "ipConfigurations": [configuration],
            "dnsSettings": {"dnsServers": [], "appliedDnsServers": []},
            "macAddress": mac_address(item),
            "enableAcceleratedNetworking": item.accelerated_networking,
            "enableIPForwarding": False,
            "primary": True,
            "virtualMachine": {"id": item.upper_group_id + item.path},
        },
    }
    if not item.uniform:
        payload["type"] = f"{NETWORK}/networkInterfaces"
        payload["location"] = item.location
    return payload


def public_address(item: Instance) -> dict[str, Any]:
    """The public address of a machine."""
    payload: dict[str, Any] = {
        "name": item.public_address_name,
        "id": item.group_id + item.public_address_path,
        "properties": {
            "provisioningState": "Succeeded",
            "ipAddress": item.public_ipv4,
            "publicIPAddressVersion": "IPv4",
            "publicIPAllocationMethod": "Dynamic" if item.uniform else "Static",
            "idleTimeoutInMinutes": 15,
            "ipConfiguration": {"id": f"{item.group_id}{item.interface_path}/ipConfigurations/ipconfig1"},
        },
    }
    if not item.uniform:
        payload["type"] = f"{NETWORK}/publicIPAddresses"
        payload["location"] = item.location
    return payload


def mac_address(item: Instance) -> str:
    """A MAC address from the range of Azure's network cards."""
    return mac_number(item.serial)


def mac_number(serial: int) -> str:
    """A MAC address for a number."""
    number = f"{serial & 0xFFFFFF:06X}"
    return f"00-22-48-{number[0:2]}-{number[2:4]}-{number[4:6]}"
