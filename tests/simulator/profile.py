# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of a scale set's instances, in Resource Manager's format."""

from __future__ import annotations

from typing import Any

from simulator.resources import ScaleSet


def virtual_machine_profile(
    scale_set: ScaleSet, prefix: str, admin_username: str, linux_configuration: dict[str, Any]
) -> dict[str, Any]:
    """virtualMachineProfile as Resource Manager returns it, without the user data, which it returns only on request."""
    address: dict[str, Any] = {
        "name": "ipconfig1",
        "properties": {
            "primary": True,
            "subnet": {"id": scale_set.subnet.id},
            "privateIPAddressVersion": "IPv4",
        },
    }
    if scale_set.public_ip:
        address["properties"]["publicIPAddressConfiguration"] = {
            "name": "pub1",
            "properties": {"idleTimeoutInMinutes": 15, "publicIPAddressVersion": "IPv4"},
        }
    profile: dict[str, Any] = {
        "osProfile": {
            "computerNamePrefix": prefix,
            "adminUsername": admin_username,
            "linuxConfiguration": linux_configuration,
            "secrets": [],
        },
        "storageProfile": {
            "imageReference": {
                "publisher": scale_set.image.publisher,
                "offer": scale_set.image.offer,
                "sku": scale_set.image.sku,
                "version": scale_set.image.version,
            },
            "osDisk": {
                "osType": "Linux",
                "createOption": "FromImage",
                "caching": "ReadWrite",
                "managedDisk": {"storageAccountType": "Premium_LRS"},
                "diskSizeGB": 64,
            },
        },
        "networkProfile": {
            "networkInterfaceConfigurations": [
                {
                    "name": f"{scale_set.name}-nic",
                    "properties": {
                        "primary": True,
                        "enableAcceleratedNetworking": scale_set.accelerated_networking,
                        "dnsSettings": {"dnsServers": []},
                        "enableIPForwarding": False,
                        "ipConfigurations": [address],
                    },
                }
            ]
        },
    }
    if scale_set.priority is not None:
        profile["priority"] = scale_set.priority
    return profile
