# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts from the SDK's objects: any missing value is None."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from azure.mgmt.compute import models as compute

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.facts import (
    InstanceFacts,
    from_network_interface,
    from_public_address,
    from_scale_set,
    from_scale_set_vm,
    from_virtual_machine,
    from_virtual_network,
    primary_first,
)

from .instances import GROUP_ID, Nothing, make_interface, make_scale_set

VM_ID = f"{GROUP_ID}/providers/Microsoft.Compute/virtualMachines/vm"
EMPTY = [
    Nothing(id=VM_ID),
    Nothing(
        id=VM_ID,
        instance_view=Nothing(statuses=[]),
        hardware_profile=Nothing(),
        storage_profile=Nothing(os_disk=Nothing()),
        os_profile=Nothing(),
        network_profile=Nothing(),
        sku=Nothing(),
        tags={},
        zones=[],
    ),
]


@pytest.mark.parametrize("vm", EMPTY)
def test_an_empty_machine_has_all_facts(vm: Any) -> None:
    for facts in (from_virtual_machine(vm, None), from_scale_set_vm(vm, make_scale_set())):
        assert set(facts) == set(InstanceFacts.__annotations__)
        assert facts["azure_name"] == "vm"
        assert facts["azure_resource_group"] == "cluster"
        assert facts["azure_power_state"] is None
        assert facts["azure_zone"] is None
        assert facts["azure_ephemeral_os_disk"] is (False if vm.storage_profile else None)
        assert facts["azure_tags"] == {}


def test_empty_objects_of_the_real_sdk_can_be_read() -> None:
    vm = compute.VirtualMachine(location="West US")
    vm.id = VM_ID
    instance = compute.VirtualMachineScaleSetVM(location="westus")
    instance.id = f"{VM_ID}s/0"

    assert from_virtual_machine(vm, None)["azure_location"] == "westus"
    assert from_scale_set_vm(instance, make_scale_set())["azure_instance_id"] is None


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        (["ProvisioningState/succeeded", "PowerState/running"], "running"),
        (["PowerState/Deallocated"], "deallocated"),
        (["ProvisioningState/failed/VMAgentProvisioningFailure"], None),
        (["PowerState/"], None),
        ([None], None),
    ],
)
def test_the_power_state_comes_from_the_status_codes(codes: list[str | None], state: str | None) -> None:
    view = Nothing(statuses=[Nothing(code=code) for code in codes])

    assert from_virtual_machine(Nothing(id=VM_ID, instance_view=view), None)["azure_power_state"] == state


def test_the_health_state_comes_from_the_application() -> None:
    view = Nothing(vm_health=Nothing(status=Nothing(code="HealthState/unhealthy")))

    facts = from_scale_set_vm(Nothing(id=VM_ID, instance_view=view), make_scale_set())

    assert facts["azure_health_state"] == "unhealthy"


def test_enum_members_become_text() -> None:
    facts = from_virtual_machine(Nothing(id=VM_ID, priority=compute.VirtualMachinePriorityTypes.SPOT), None)

    assert facts["azure_priority"] == "Spot"
    assert not isinstance(facts["azure_priority"], enum.Enum)


def test_the_resource_group_is_spelled_as_in_the_scale_set() -> None:
    shouted = VM_ID.replace("cluster", "CLUSTER")

    assert from_scale_set_vm(Nothing(id=shouted), make_scale_set())["azure_resource_group"] == "cluster"


def test_the_fault_domain_falls_back_to_the_instance_view() -> None:
    view = Nothing(platform_fault_domain=2)

    assert from_virtual_machine(Nothing(id=VM_ID, instance_view=view), None)["azure_fault_domain"] == 2
    assert (
        from_virtual_machine(Nothing(id=VM_ID, instance_view=view, platform_fault_domain=0), None)["azure_fault_domain"]
        == 0
    )


@pytest.mark.parametrize("mode", [None, "Uniform", compute.OrchestrationMode.UNIFORM])
def test_a_scale_set_is_uniform_by_default(mode: Any) -> None:
    assert make_scale_set(orchestration_mode=mode)["orchestration_mode"] == "Uniform"


@pytest.mark.parametrize("mode", ["Flexible", compute.OrchestrationMode.FLEXIBLE])
def test_a_flexible_scale_set_is_recognised(mode: Any) -> None:
    assert make_scale_set(orchestration_mode=mode)["orchestration_mode"] == "Flexible"


def test_an_empty_scale_set_has_none_for_unknown_facts() -> None:
    scale_set = make_scale_set()

    assert scale_set["capacity"] is None
    assert scale_set["single_placement_group"] is None
    assert scale_set["accelerated_networking"] is None
    assert scale_set["virtual_networks"] == []


def test_accelerated_networking_is_that_of_the_primary_interface() -> None:
    def configuration(primary: bool | None, enabled: bool | None) -> Nothing:
        return Nothing(primary=primary, enable_accelerated_networking=enabled)

    def accelerated(*interfaces: Nothing) -> bool | None:
        network = Nothing(network_interface_configurations=list(interfaces))
        facts = from_scale_set(Nothing(id="/x", virtual_machine_profile=Nothing(network_profile=network)))
        return facts["accelerated_networking"]

    assert accelerated(configuration(False, True), configuration(True, False)) is False
    assert accelerated(configuration(None, True)) is True
    assert accelerated(configuration(True, None)) is None
    assert accelerated() is None


def nic(**values: Any) -> Any:
    return Nothing(id=f"{GROUP_ID}/nic", name="nic", virtual_machine=Nothing(id=VM_ID.upper()), **values)


def test_an_interface_has_its_machines_id_in_lower_case() -> None:
    attached = from_network_interface(nic())

    assert attached is not None
    assert attached.vm_id == VM_ID.lower()
    assert attached.interface["private_ipv4"] == []


def test_an_interface_without_a_machine_is_ignored() -> None:
    assert from_network_interface(Nothing(id="/nic", name="nic")) is None
    assert from_network_interface(Nothing(id="/nic", name="nic", virtual_machine=Nothing())) is None


def test_the_primary_address_comes_first_and_ipv6_is_ignored() -> None:
    configurations = [
        Nothing(private_ip_address="10.0.0.9", subnet=Nothing(id="/second")),
        Nothing(private_ip_address="fd00::1", primary=False),
        Nothing(private_ip_address="10.0.0.4", primary=True, subnet=Nothing(id="/first")),
        Nothing(),
    ]

    attached = from_network_interface(nic(ip_configurations=configurations))

    assert attached is not None
    assert attached.interface["private_ipv4"] == ["10.0.0.4", "10.0.0.9"]
    assert attached.interface["subnet"] == "/first"


def test_interfaces_are_sorted_with_the_primary_first() -> None:
    interfaces = [make_interface(name=name, primary=name == "m") for name in ("z", "m", "a")]

    assert [interface["name"] for interface in primary_first(interfaces)] == ["m", "a", "z"]


def test_a_public_address_without_ipv4_is_ignored() -> None:
    assert from_public_address(Nothing(id="/A")) is None
    assert from_public_address(Nothing(id="/A", ip_address="2001:db8::1")) is None
    assert from_public_address(Nothing(id="/A", ip_address="20.0.0.1")) == ("/a", "20.0.0.1")


def test_a_network_without_address_space_has_none() -> None:
    assert from_virtual_network(Nothing(id="/net/n"))["address_prefixes"] is None
    assert from_virtual_network(Nothing(id="/net/n"))["name"] == "n"
