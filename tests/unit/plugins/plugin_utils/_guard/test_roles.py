# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts may have a role."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._guard.inventory import problems

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
OTHER_SUBSCRIPTION = SUBSCRIPTION.replace("1", "9")


def vm(name: str, group: str = "training", subscription: str = SUBSCRIPTION) -> dict[str, Any]:
    """A stand-alone VM with a role."""
    prefix = f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute"
    return {
        "inventory_hostname": name,
        "azure_id": f"{prefix}/virtualMachines/{name}",
        "azure_vmss_id": None,
        "azure_resource_group": group,
    }


def instance(name: str, scale_set: str = "compute", group: str = "training") -> dict[str, Any]:
    """An instance of a Uniform scale set with a role. Azure writes its resource group in capitals."""
    prefix = f"/subscriptions/{SUBSCRIPTION}/resourceGroups"
    sets = "providers/Microsoft.Compute/virtualMachineScaleSets"
    return {
        "inventory_hostname": name,
        "azure_id": f"{prefix}/{group.upper()}/{sets}/{scale_set}/virtualMachines/0",
        "azure_vmss_id": f"{prefix}/{group}/{sets}/{scale_set}",
        "azure_resource_group": group,
    }


def source(**scope: list[str]) -> dict[str, Any]:
    """A source without problems that names these resource groups or scale sets."""
    named = {"subscription_ids": [SUBSCRIPTION], "resource_groups": [], "scale_sets": [], **scope}
    return {
        "source": "/ops/azure_vmss.yml",
        "scope": named,
        "complete": True,
        "from_cache": False,
        "virtual_networks": [],
    }


def found(
    *hosts: dict[str, Any], controllers: tuple[str, ...] = ("ctl",), named: tuple[str, ...] = (), **scope: list[str]
) -> list[str]:
    """The problems of a cluster with these hosts."""
    compute = [host["inventory_hostname"] for host in hosts if host["inventory_hostname"] not in controllers]
    groups = {"hpcai_controller": list(controllers), "hpcai_compute": compute}
    return problems({"sources": [source(**scope)]}, groups, hosts, [], named)


def test_hosts_in_a_named_resource_group_are_accepted() -> None:
    assert found(vm("ctl"), instance("n0"), resource_groups=["TRAINING"]) == []


def test_hosts_in_named_scale_sets_are_accepted() -> None:
    sets = ["training/control", "Training/comp*"]
    assert found(instance("ctl", "control"), instance("n0"), scale_sets=sets) == []


@pytest.mark.parametrize(
    ("stranger", "scope"),
    [
        (vm("a", "lab"), {"resource_groups": ["training"]}),
        (vm("a", "training-2"), {"resource_groups": ["training"]}),
        (vm("a", subscription=OTHER_SUBSCRIPTION), {"resource_groups": ["training"]}),
        (instance("a", "compute", "lab"), {"scale_sets": ["training/*"]}),
        (instance("a", "other"), {"scale_sets": ["training/co*"]}),
        # A stand-alone VM, which the pattern for scale sets must not match.
        (vm("a"), {"scale_sets": ["training/*"]}),
    ],
)
def test_a_host_outside_the_named_groups_and_sets_is_refused(stranger: dict[str, Any], scope: dict[str, Any]) -> None:
    [problem] = found(instance("ctl"), instance("n0"), stranger, **scope)

    assert problem.startswith("Host a is in the group hpcai_compute, but belongs to resource group ")
    assert stranger["azure_id"] in problem


def test_a_second_controller_in_another_group_has_two_problems() -> None:
    outside, several = found(
        vm("ctl"), instance("n0"), vm("a", "lab"), controllers=("a", "ctl"), resource_groups=["training"]
    )

    assert outside.startswith("Host a is in the group hpcai_controller, but belongs to resource group lab of")
    assert several.startswith(
        "The group hpcai_controller has 2 hosts: a (resource group lab), ctl (resource group training)."
    )


def test_a_scale_set_without_its_resource_group_does_not_count() -> None:
    """Anyone with a resource group can create a scale set with the same name."""
    [problem] = found(instance("ctl"), instance("n0"))

    assert "resource_groups: [training]" in problem


def test_a_source_without_groups_gets_a_line_to_paste() -> None:
    hosts = [*(instance(f"n{number}") for number in range(4)), vm("a", "lab"), instance("b", group="007")]
    assert found(vm("ctl", "Training"), *hosts) == [
        "/ops/azure_vmss.yml names no resource group, so any machine of the subscription can get a role from its tag. "
        "Add this line to it, and keep only groups that you trust: resource_groups: ['007', Training, lab] "
        "(hosts with a role: 007: b; Training: ctl, n0, n1 and 2 more; lab: a)"
    ]


def test_a_source_without_hosts_and_groups_is_refused_too() -> None:
    by_hand: list[dict[str, Any]] = [{"inventory_hostname": "ctl"}, {"inventory_hostname": "n0"}]
    [problem] = found(*by_hand)
    assert problem.endswith("resource_groups: [YOUR-RESOURCE-GROUP]")


def test_static_hosts_need_no_resource_group() -> None:
    assert found({"inventory_hostname": "ctl"}, instance("n0"), resource_groups=["training"]) == []


@pytest.mark.parametrize(
    ("named", "others"),
    [
        ((), "ctl, second"),
        (("ctl",), "second"),
        (("10.0.0.4",), "second"),
        (("ctl", "10.0.0.5"), None),
        (("CTL", "second"), None),
    ],
)
def test_several_controllers_must_be_listed(named: tuple[str, ...], others: str | None) -> None:
    first = {**vm("ctl"), "azure_private_ipv4": "10.0.0.4"}
    second = {**vm("second"), "azure_private_ipv4": "10.0.0.5"}
    problems_found = found(
        first, second, instance("n0"), controllers=("ctl", "second"), named=named, resource_groups=["training"]
    )

    if others is None:
        assert problems_found == []
    else:
        assert f"does not list {others}. Remove the role from all hosts but one" in problems_found[0]


def test_a_single_controller_need_not_be_listed() -> None:
    assert found(vm("ctl"), instance("n0"), named=("slurm.example.org",), resource_groups=["training"]) == []
