# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes the names to retire select, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.retirement import RetirementError, plan


def instance(number: int, scale_set: str = "compute", **more: Any) -> dict[str, Any]:
    """A host of a Uniform scale set."""
    return {
        "inventory_hostname": f"{scale_set}{number:06}",
        "azure_vmss": scale_set,
        "azure_instance_id": str(number),
        "azure_name": f"{scale_set}_{number}",
        "azure_computer_name": f"{scale_set}{number:06}",
        "azure_id": f"/subscriptions/s/virtualMachineScaleSets/{scale_set}/virtualMachines/{number}",
        "azure_vm_id": f"vm-{scale_set}-{number}",
        **more,
    }


HOSTS = [instance(number) for number in (0, 3, 4, 5, 17)]


def nodes(requested: Any, hosts: list[dict[str, Any]] | None = None, **options: Any) -> list[str]:
    return [item["node"] for item in plan(requested, HOSTS if hosts is None else hosts, **options)["leaving"]]


@pytest.mark.parametrize(
    "name",
    [
        "compute-3",
        "compute000003",
        "compute_3",
        "3",
        "vm-compute-3",
        "/subscriptions/S/virtualMachineScaleSets/compute/virtualMachines/3",
        ["compute-3", "compute000003"],
        " compute-3 , 3 ,",
        3,
    ],
)
def test_each_name_of_a_node_selects_it_once(name: Any) -> None:
    assert nodes(name) == ["compute-3"]


def test_a_host_list_selects_its_nodes_in_natural_order() -> None:
    assert nodes("compute-[17,3]") == ["compute-3", "compute-17"]


def test_the_plan_has_the_ids_of_the_inventory() -> None:
    assert plan("compute-3", HOSTS)["leaving"] == [
        {"node": "compute-3", "host": "compute000003", "azure_id": HOSTS[1]["azure_id"], "vm_id": "vm-compute-3"}
    ]


@pytest.mark.parametrize("requested", ["", None, [], " , "])
def test_an_empty_list_is_refused(requested: Any) -> None:
    with pytest.raises(RetirementError, match="name the nodes"):
        plan(requested, HOSTS)


def test_the_error_lists_all_unknown_names() -> None:
    with pytest.raises(RetirementError, match="retire: ctl, copmute-3: no compute node"):
        plan("ctl,compute-3,copmute-3", HOSTS)


def test_a_malformed_host_list_is_refused() -> None:
    with pytest.raises(RetirementError, match="malformed"):
        plan("compute-[3", HOSTS)


def test_a_node_that_left_the_inventory_counts_as_gone() -> None:
    done = plan("compute-4,compute-12", HOSTS)
    assert ([item["node"] for item in done["leaving"]], done["gone"]) == (["compute-4"], ["compute-12"])


def test_an_instance_id_of_two_sets_is_refused() -> None:
    hosts = [*HOSTS, *(instance(number, "other") for number in (3, 4, 5))]
    with pytest.raises(RetirementError, match="3 matches several hosts: compute000003, other000003"):
        plan("3", hosts)


@pytest.mark.parametrize("requested", ["compute-[0,3-5,17]", "compute-[0,3-4]"])
def test_retiring_more_than_half_of_a_set_needs_force(requested: str) -> None:
    with pytest.raises(RetirementError, match=r"of the 5 instances of compute would be removed.*retire_force=true"):
        plan(requested, HOSTS)
    assert nodes(requested, force=True)


def test_half_of_a_set_can_retire_but_not_its_only_instance() -> None:
    assert nodes("compute-0", HOSTS[:2]) == ["compute-0"]
    with pytest.raises(RetirementError, match="1 of the 1 instances"):
        plan("compute-0", HOSTS[:1])


def test_the_limit_applies_to_each_set() -> None:
    hosts = [*HOSTS, instance(0, "small")]
    with pytest.raises(RetirementError, match="instances of small"):
        plan("small-0", hosts)


def test_a_host_without_azure_id_cannot_be_retired() -> None:
    hosts = [*HOSTS, {"inventory_hostname": "bare-metal"}, {"inventory_hostname": "bare-metal-2"}]
    with pytest.raises(RetirementError, match="bare-metal has no azure_id"):
        plan("bare-metal", hosts)
