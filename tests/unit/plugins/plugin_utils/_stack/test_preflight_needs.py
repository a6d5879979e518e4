# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a stack needs, derived from its model."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_needs import needs_of

from .stacks import GROUP_ID, SUBSCRIPTION, sets, stack

VNET = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hub/providers/Microsoft.Network/virtualNetworks/hub"


def test_the_smallest_stack() -> None:
    found = needs_of(stack())
    assert [(one.name, one.vm_size, one.minimum, one.maximum) for one in found.machines] == [
        ("hpcai-controller", "Standard_D8s_v5", 1, 1),
        ("hpcai-login-1", "Standard_D4s_v5", 1, 1),
        ("compute", "Standard_ND96asr_v4", 0, 16),
    ]
    assert [one.is_set for one in found.machines] == [False, False, True]
    assert {one.prefix != "" for one in found.subnets} == {True}
    assert (found.nat_gateways, found.bastions, found.public_addresses) == (1, 1, 2)
    assert found.disks == (("hpcai-home", "Premium_LRS", 256),)
    assert found.share_gib == ()
    assert len(found.names) == 2
    assert found.providers == (
        "Microsoft.Compute",
        "Microsoft.KeyVault",
        "Microsoft.ManagedIdentity",
        "Microsoft.Network",
        "Microsoft.Storage",
    )


def test_every_machine_is_in_a_subnet_that_is_checked() -> None:
    found = needs_of(stack())
    assert {one.subnet for one in found.machines} == {one.id for one in found.subnets}


def test_needs_a_write_for_everything_that_is_made_except_roles() -> None:
    found = needs_of(stack())
    assert "Microsoft.Compute/virtualMachineScaleSets/write" in found.actions
    assert "Microsoft.Resources/subscriptions/resourceGroups/write" in found.actions
    assert "Microsoft.Resources/deployments/write" in found.actions
    assert not [one for one in found.actions if one.startswith("Microsoft.Authorization/")]
    assert len(found.assignments) == 4


def test_needs_the_preview_of_each_run_and_the_right_to_watch_it() -> None:
    found = {one.rpartition("deployments/")[2] for one in needs_of(stack()).actions if "/deployments/" in one}
    assert found == {
        "operations/read",
        "operationstatuses/read",
        "read",
        "validate/action",
        "whatIf/action",
        "write",
    }


@pytest.mark.parametrize(
    ("changed", "network", "others"),
    [
        (
            {},
            {
                "natGateways/join/action",
                "networkInterfaces/join/action",
                "networkSecurityGroups/join/action",
                "publicIPAddresses/join/action",
                "virtualNetworks/subnets/join/action",
                "virtualNetworks/subnets/joinViaServiceEndpoint/action",
            },
            set(),
        ),
        (
            {"network": {"access": "private", "nat": False}, "shared_home": {"source": "azure_files"}},
            {
                "networkInterfaces/join/action",
                "networkSecurityGroups/join/action",
                "privateDnsZones/join/action",
                "virtualNetworks/join/action",
                "virtualNetworks/subnets/join/action",
                "virtualNetworks/subnets/joinViaServiceEndpoint/action",
            },
            {"Microsoft.Storage/storageAccounts/PrivateEndpointConnectionsApproval/action"},
        ),
    ],
)
def test_needs_what_azure_checks_on_linked_resources(
    changed: dict[str, Any], network: set[str], others: set[str]
) -> None:
    found = {one for one in needs_of(stack(**changed)).actions if one.endswith("/action")}
    assert {one.removeprefix("Microsoft.Network/") for one in found if "Microsoft.Network/" in one} == network
    assign = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
    assert {one for one in found if "Network/" not in one and "deployments/" not in one} == {assign, *others}


def test_adopted_resources_need_no_writes_and_cost_nothing() -> None:
    found = needs_of(
        stack(
            network={"adopt": VNET, "subnets": {"cluster": "a", "compute": "b"}},
            controller={"private_ip": "10.1.0.4"},
            group={"adopt": f"/subscriptions/{SUBSCRIPTION}/resourceGroups/ours"},
        )
    )
    assert [one.prefix for one in found.subnets] == ["", ""]
    assert "Microsoft.Network/virtualNetworks/write" not in found.actions
    assert "Microsoft.Resources/subscriptions/resourceGroups/write" not in found.actions
    assert (found.nat_gateways, found.bastions, found.public_addresses) == (0, 0, 0)
    assert found.group == "ours"


def test_needs_what_azure_checks_on_adopted_resources_there_and_not_in_the_group() -> None:
    central = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/central/providers"
    identity = f"{central}/Microsoft.ManagedIdentity/userAssignedIdentities/nodes"
    zone = f"{central}/Microsoft.Network/privateDnsZones/privatelink.file.core.windows.net"
    hub: dict[str, Any] = {
        "network": {"adopt": VNET, "subnets": {"cluster": "a", "compute": "b", "endpoints": "c"}},
        "controller": {"private_ip": "10.1.0.4"},
        "storage": {"containers": []},
    }
    home = {"source": "azure_files", "dns_zone": zone}
    found = needs_of(stack(**hub, identities={"nodes": identity}, shared_home=home))
    join = "Microsoft.Network/virtualNetworks/subnets/join/action"
    by_endpoint = "Microsoft.Network/virtualNetworks/subnets/joinViaServiceEndpoint/action"
    assign = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action"
    assert found.elsewhere == {
        f"{VNET}/subnets/a": (join, by_endpoint),
        f"{VNET}/subnets/b": (join, by_endpoint),
        f"{VNET}/subnets/c": (join,),
        identity: (assign,),
        zone: ("Microsoft.Network/privateDnsZones/join/action",),
    }
    # The stack makes the controller's identity.
    assert assign in found.actions
    assert not {join, by_endpoint, "Microsoft.Network/privateDnsZones/join/action"} & {*found.actions}

    found = needs_of(stack(**hub, shared_home={"source": "azure_files"}))
    assert found.elsewhere[VNET] == ("Microsoft.Network/virtualNetworks/join/action",)
    assert "Microsoft.Network/privateDnsZones/join/action" in found.actions
    assert needs_of(stack()).elsewhere == {}


def test_a_share_is_priced_by_its_size_and_its_endpoint_is_not() -> None:
    found = needs_of(stack(shared_home={"source": "azure_files", "size_gib": 1024}))
    assert found.share_gib == (("home", 1024),)
    assert found.disks == ()
    assert found.unpriced == ("the private endpoint of the share",)
    assert len(found.names) == 3


def test_spot_zone_and_ephemeral_disks_of_a_set() -> None:
    (*_others, one) = needs_of(
        stack(
            scale_sets=[
                {
                    "vm_size": "nd96asr_v4",
                    "max": 3,
                    "image": "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025010101",
                    "priority": "spot",
                    "zone": "3",
                    "ephemeral_os_disk": True,
                    "name": "gpu",
                }
            ]
        )
    ).machines
    assert (one.vm_size, one.spot, one.zone, one.ephemeral) == ("Standard_ND96asr_v4", True, "3", True)
    assert not one.reserved
    group = f"{GROUP_ID}/providers/Microsoft.Compute/capacityReservationGroups/ours"
    cpu = stack(scale_sets=sets(1, vm_size="Standard_D8s_v5", capacity_reservation_group=group))
    assert [one.reserved for one in needs_of(cpu).machines if one.is_set] == [True]
    assert one.image == "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025010101"
    assert one.label == "set gpu"


def test_one_subnet_for_both_is_checked_once() -> None:
    found = needs_of(
        stack(
            network={"adopt": VNET, "subnets": {"cluster": "a", "compute": "a"}},
            controller={"private_ip": "10.1.0.4"},
        )
    )
    assert [one.id for one in found.subnets] == [f"{VNET}/subnets/a"]
