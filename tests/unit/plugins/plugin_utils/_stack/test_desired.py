# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is ordered from Azure: settings of which a wrong one costs money, jobs or data."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.resource import Resource

from .azure import CONTROLLER, NODES, resources_of
from .stacks import GROUP_ID, IMAGE, sets, stack

CPU = "Standard_D8s_v5"


def only(kind: str, **keys: Any) -> Resource:
    """The only resource of a type."""
    (found,) = [one for one in resources_of(stack(**keys)) if one.kind == kind]
    return found


def profile(**keys: Any) -> dict[str, Any]:
    """The profile of the instances of a scale set with these keys."""
    made = only(kinds.SCALE_SET, scale_sets=sets(1, **keys))
    return dict(made.body["properties"]["virtualMachineProfile"])


def test_scale_set_starts_empty_and_azure_replaces_nothing_in_it() -> None:
    made = only(kinds.SCALE_SET)
    properties = made.body["properties"]

    assert made.body["sku"]["capacity"] == 0
    assert properties["orchestrationMode"] == "Uniform"
    assert properties["overprovision"] is False
    assert properties["upgradePolicy"] == {"mode": "Manual"}
    assert properties["automaticRepairsPolicy"] == {"enabled": False}
    assert properties["platformFaultDomainCount"] == 1
    assert "zones" not in made.body
    assert only(kinds.SCALE_SET, scale_sets=sets(1, zone="2")).body["zones"] == ["2"]
    assert set(IMAGE.split(":")) == set(profile()["storageProfile"]["imageReference"].values())


@pytest.mark.parametrize(("size", "one"), [("Standard_ND96asr_v4", True), (CPU, False)])
def test_only_a_size_with_infiniband_is_in_one_placement_group(size: str, one: bool) -> None:
    made = only(kinds.SCALE_SET, scale_sets=sets(1, vm_size=size))
    assert made.body["properties"]["singlePlacementGroup"] is one


def test_spot_instances_are_deleted_when_they_are_evicted() -> None:
    spot = profile(priority="spot", max_price=4.5)
    assert (spot["priority"], spot["evictionPolicy"], spot["billingProfile"]) == ("Spot", "Delete", {"maxPrice": 4.5})
    assert profile()["priority"] == "Regular"


def test_health_extension_and_reservation_are_options() -> None:
    assert not {"extensionProfile", "capacityReservation"} & profile().keys()
    (extension,) = profile(health_extension=True)["extensionProfile"]["extensions"]
    assert extension["properties"]["settings"] == {"protocol": "tcp", "port": 6818}
    group = f"{GROUP_ID}/providers/Microsoft.Compute/capacityReservationGroups/ours"
    reserved = profile(vm_size=CPU, capacity_reservation_group=group)["capacityReservation"]
    assert reserved == {"capacityReservationGroup": {"id": group}}


def test_machines_ask_for_their_own_identity() -> None:
    """Azure Policy can add identities to a machine, and the metadata service then returns another one's token."""
    asked = {}
    for one in resources_of(stack()):
        if one.kind in kinds.MACHINES:
            properties = one.body["properties"]
            encoded = properties.get("virtualMachineProfile", properties)["userData"]
            text = base64.b64decode(encoded).decode().removeprefix("#cloud-config\n")
            asked[one.name] = json.loads(text)["hpcai"]["key"]["client_id"]

    assert asked == {"hpcai-controller": CONTROLLER, "hpcai-login-1": NODES, "compute": NODES}


def test_machines_come_after_what_their_first_boot_needs() -> None:
    wanted = stack()
    names = Names(wanted)
    machines = [one for one in resources_of(wanted) if one.kind in kinds.MACHINES]

    assert len(machines) == 3
    for one in machines:
        assert names.secret in one.needs
        assert [need for need in one.needs if f"{names.vault}/providers/{kinds.ROLE_ASSIGNMENT}/" in need]


def test_data_survives_a_deletion_by_mistake() -> None:
    service = only(kinds.BLOBS, storage={"soft_delete_days": 30}).body["properties"]
    kept = {"enabled": True, "days": 30}

    assert service["isVersioningEnabled"] is True
    assert service["deleteRetentionPolicy"] == service["containerDeleteRetentionPolicy"] == kept
    vault = only(kinds.VAULT).body["properties"]
    assert vault["enableSoftDelete"] is True


def test_share_is_served_over_nfs_and_only_inside_the_network() -> None:
    wanted = stack(shared_home={"source": "azure_files", "name": "homes1", "size_gib": 512})
    names = Names(wanted)
    made = {one.id: one.body for one in resources_of(wanted)}
    account = made[names.home_account]

    # Azure Files has NFS only on premium storage, and only without the rule that connections are encrypted.
    assert (account["sku"]["name"], account["kind"]) == ("Premium_LRS", "FileStorage")
    assert account["properties"]["supportsHttpsTrafficOnly"] is False
    assert account["properties"]["publicNetworkAccess"] == "Disabled"
    share = made[names.home_share]["properties"]
    assert share == {"enabledProtocols": "NFS", "rootSquash": "NoRootSquash", "shareQuota": 512}
    endpoint = made[names.home_endpoint]["properties"]
    (connection,) = endpoint["privateLinkServiceConnections"]
    assert connection["properties"] == {"privateLinkServiceId": names.home_account, "groupIds": ["file"]}
    assert endpoint["subnet"] == {"id": names.subnet("endpoints")}
    # Nodes find the share under its public name.
    assert names.home_zone.endswith("/privateDnsZones/privatelink.file.core.windows.net")
    (link,) = [one for one in resources_of(wanted) if one.kind == kinds.DNS_LINK]
    assert link.body["properties"]["virtualNetwork"] == {"id": names.network}


def test_adopted_zone_of_a_share_gets_no_link() -> None:
    zone = f"{GROUP_ID}/providers/{kinds.DNS_ZONE}/privatelink.file.core.windows.net"
    wanted = stack(shared_home={"source": "azure_files", "dns_zone": zone})
    found = {one.kind: one for one in resources_of(wanted)}

    assert found[kinds.DNS_ZONE].adopted
    assert kinds.DNS_LINK not in found
    (named,) = found[kinds.ENDPOINT_ZONES].body["properties"]["privateDnsZoneConfigs"]
    assert named["properties"] == {"privateDnsZoneId": zone}


def test_internet_reaches_only_ssh_from_the_named_ranges() -> None:
    assert only(kinds.NSG).body["properties"]["securityRules"] == []
    (rule,) = only(kinds.NSG, network={"ssh_from": ["192.0.2.0/24"]}).body["properties"]["securityRules"]
    assert rule["properties"]["sourceAddressPrefixes"] == ["192.0.2.0/24"]
    assert rule["properties"]["destinationPortRange"] == "22"
    for kind in (kinds.VAULT, kinds.ACCOUNT):
        assert only(kind).body["properties"]["networkAcls"]["defaultAction"] == "Deny"
    for subnet in only(kinds.VNET, network={"ssh_from": ["192.0.2.0/24"]}).body["properties"]["subnets"]:
        assert subnet["properties"]["defaultOutboundAccess"] is False
