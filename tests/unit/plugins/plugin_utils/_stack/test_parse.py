# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a user may write in hpcai_stack, which defaults it gets, and which mistakes are refused with what words."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import Malformed
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import needs_one_placement_group
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.parse import stack_of

from .stacks import GROUP_ID, IMAGE, SUBSCRIPTION, sets, smallest, stack

HUB = f"{GROUP_ID}/providers/Microsoft.Network/virtualNetworks/hub"
RESERVED = f"{GROUP_ID}/providers/Microsoft.Compute/capacityReservationGroups/ours"
ZONES = f"{GROUP_ID}/providers/Microsoft.Network/privateDnsZones"


def test_location_key_and_one_set_are_enough() -> None:
    found = stack()

    assert (found.name, found.group.name, found.network.access) == ("hpcai", "hpcai", "bastion")
    assert found.network.subnets == {
        "cluster": "10.42.0.0/24",
        "compute": "10.42.128.0/17",
        "endpoints": "10.42.64.64/26",
        "bastion": "10.42.64.0/26",
    }
    assert found.controller.private_ip == "10.42.0.4"
    assert str(found.controller.image) == str(found.login.image) == IMAGE
    assert found.key_vault.name == f"hpcai-{found.uuid.hex[:8]}"
    assert found.storage.name == f"hpcai{found.uuid.hex[:8]}"


def test_plan_goes_with_its_image() -> None:
    found = stack(image=IMAGE, plan="me:thing:one", login={"image": IMAGE}, scale_sets=sets(1))
    assert str(found.controller.image.plan) == "me:thing:one"
    # These have an image of their own.
    assert found.login.image.plan is found.scale_sets[0].image.plan is None


def test_uuid_depends_on_subscription_group_and_name() -> None:
    other = SUBSCRIPTION.replace("1", "2")
    uuids = {
        stack().uuid,
        stack(name="other").uuid,
        stack(group={"name": "other"}).uuid,
        stack_of(smallest(), other).uuid,
    }
    assert len(uuids) == 4
    assert stack().uuid == stack(group={"name": "HPCAI"}).uuid


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tags": {"x": "[parameters('mungeKey')]"}}, r"that does not begin with \["),
        ({"netwrk": {}}, "hpcai_stack.netwrk is unknown; the nearest known key is network."),
        ({"network": {"adress_space": []}}, "network.adress_space is unknown; the nearest known key is address_space."),
        ({"scale_sets": [{"vmsize": "x"}]}, r"scale_sets\[0\].vmsize is unknown; the nearest known key is vm_size."),
        ({"scale_sets": [{"vm_size": "Standard_ND96asr_v4", "image": IMAGE}]}, r"scale_sets\[0\] lacks max"),
        ({"scale_sets": []}, "scale_sets must be a list of 1 or more"),
        ({"scale_sets": [{"vm_size": "Standard_D4s_v5", "max": 1}]}, "lacks image"),
        ({"image": "microsoft-dsvm:ubuntu-hpc:2204:latest"}, "moves to another image at any time. Give an exact"),
        ({"image": IMAGE, "plan": "one"}, "plan must be PUBLISHER:PRODUCT:NAME"),
        ({"plan": "me:thing:one"}, "hpcai_stack.plan is the plan of an image, and hpcai_stack.image is missing"),
        ({"controller": {"plan": "me:thing:one"}}, "hpcai_stack.controller.image is missing. State both."),
        ({"image": "ubuntu"}, "PUBLISHER:OFFER:SKU:VERSION, or the resource id of a version in a gallery"),
        ({"location": "Sweden Central"}, "a region in Azure's short form"),
        ({"ssh_public_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}, "a public key in OpenSSH's format"),
        ({"ssh_public_keys": ["ecdsa-sha2-nistp256 AAAAE2Vj me"]}, "Azure accepts only ssh-rsa and ssh-ed25519"),
        ({"network": {"address_space": ["172.16.0.0/12"]}}, "overlaps 172.16.0.0/16, which Azure reserves for RDMA"),
        ({"network": {"subnets": {"compute": "10.42.0.0/20"}}}, "overlaps the subnet cluster"),
        ({"network": {"subnets": {"compute": "10.43.0.0/20"}}}, "is not within hpcai_stack.network.address_space"),
        ({"network": {"subnets": {"bastion": "10.42.64.0/27"}}}, "Azure Bastion needs a /26"),
        ({"network": {"address_space": ["10.0.0.0/24"]}}, "is smaller than a /23"),
        ({"network": {"access": "public"}}, "needs the ranges that may connect by ssh"),
        ({"network": {"ssh_from": ["0.0.0.0/0"]}}, "the entire internet"),
        ({"network": {"subnets": {"compute": "10.42.128.0/28"}}}, "has 11 addresses, and the scale sets may have 16"),
        ({"network": {"adopt": HUB}}, "subnets lacks cluster"),
        ({"network": {"adopt": HUB, "subnets": {"cluster": "a", "compute": "b"}}}, "private_ip is missing"),
        ({"network": {"adopt": HUB, "ssh_from": ["192.0.2.0/24"]}}, "is never changed"),
        (
            {"network": {"adopt": HUB.replace(SUBSCRIPTION, f"9{SUBSCRIPTION[1:]}")}},
            "network.adopt: .* is not in the subscription",
        ),
        ({"network": {"adopt": "hub"}}, "network.adopt must be a resource id such as /subscriptions/"),
        ({"controller": {"private_ip": "10.42.0.3"}}, "is no usable address of the subnet cluster"),
        ({"shared_home": {"source": "amlfs"}}, "needs adopt"),
        ({"shared_home": {"source": "azure_files", "size_gib": 64}}, "at least 100 GiB, not 64"),
        ({"shared_home": {"dns_zone": f"{ZONES}/privatelink.file.core.windows.net"}}, "only source azure_files has"),
        (
            {"shared_home": {"source": "azure_files", "dns_zone": f"{ZONES}/privatelink.blob.core.windows.net"}},
            "in the zone privatelink.file.core.windows.net. Give its id, not ",
        ),
        ({"scale_sets": sets(1, single_placement_group=False)}, "has InfiniBand"),
        (
            {"scale_sets": sets(1, capacity_reservation_group=RESERVED)},
            "has InfiniBand, .* placement group. Remove the",
        ),
        (
            {"scale_sets": sets(1, vm_size="d8s_v5", single_placement_group=True, capacity_reservation_group=RESERVED)},
            "no reserved capacity to a set with a single placement group, so set single_placement_group: false",
        ),
        ({"scale_sets": sets(1, max=101)}, "at most 100 instances, not 101"),
        ({"scale_sets": sets(1, max_price=3.5)}, "only spot instances have one"),
        ({"storage": {"allow_from": ["192.0.2.8/31"]}}, "accepts no /31"),
        ({"scale_sets": sets(1) + sets(1)}, "several are named compute0"),
        ({"group": {"adopt": f"/subscriptions/{SUBSCRIPTION[:-1]}2/resourceGroups/a"}}, "is not in the subscription"),
    ],
)
def test_mistake_is_refused_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Malformed, match=message) as refused:
        stack(**change)
    assert "\n" not in str(refused.value)


SPECS = pathlib.Path(__file__).parents[5] / "roles/provision/meta/argument_specs.yml"


def described(options: dict[str, Any], *place: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Each mapping that the role's specification describes, by its place, with its keys."""
    yield place, set(options)
    for key, option in options.items():
        if "options" in option:
            yield from described(option["options"], *place, key)


def accepted(*place: str) -> set[str]:
    """The keys that the model accepts at a place, as its refusal of an unknown key lists them."""
    value: dict[str, Any] = {"?": 1}
    for key in reversed(place):
        if key == "scale_sets":
            (one,) = sets(1)
            value = {key: [{**one, **value}]}
        else:
            value = {key: value}
    with pytest.raises(Malformed, match="is unknown; the nearest known key is") as refused:
        stack(**value)
    return set(str(refused.value).rpartition("Known are ")[2].removesuffix(".").split(", "))


def test_role_describes_exactly_the_keys_that_are_accepted() -> None:
    specs = yaml.safe_load(SPECS.read_text(encoding="utf-8"))["argument_specs"]
    places = list(described(specs["main"]["options"]["hpcai_stack"]["options"]))

    assert len(places) == 12
    for place, keys in places:
        assert keys == accepted(*place), place


def test_public_access_follows_from_ranges_for_ssh() -> None:
    assert stack(network={"ssh_from": ["192.0.2.0/24"]}).network.access == "public"


def test_null_is_a_key_that_is_absent() -> None:
    assert stack(network=None, group={"name": None, "adopt": None}) == stack()


@pytest.mark.parametrize(
    ("size", "needed"),
    [
        ("Standard_ND96asr_v4", True),
        ("nd96isr_h100_v5", True),
        ("Standard_NC24ads_A100_v4", False),
        ("Standard_HB176rs_v4", True),
        ("Standard_HB176-48rs_v4", True),
        ("Standard_D8s_v5", False),
        ("Standard_ND999isr_X_v9", True),
        ("Standard_ND128isr_NDR_GB200_v6", False),
        ("standard_nd128isr_gb300_v6", False),
        ("Standard_ND999isr_GB999_v9", False),
    ],
)
def test_sizes_with_infiniband_need_one_placement_group(size: str, needed: bool) -> None:
    assert needs_one_placement_group(size) is needed


@pytest.mark.parametrize(("stated", "one_group"), [({}, False), ({"single_placement_group": True}, True)])
def test_gb300_has_several_placement_groups_unless_one_is_stated(stated: dict[str, Any], one_group: bool) -> None:
    (found,) = stack(scale_sets=sets(1, vm_size="Standard_ND128isr_GB300_v6", **stated)).scale_sets
    assert found.single_placement_group is one_group
