# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of nodes to retire: what they stand for, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.retirement import RetirementError, plan


def instance(number: int, scale_set: str = "compute", **more: Any) -> dict[str, Any]:
    """A host of a Uniform set."""
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
def test_node_goes_by_each_of_its_names_and_once(name: Any) -> None:
    assert nodes(name) == ["compute-3"]


def test_host_list_stands_for_its_nodes_in_natural_order() -> None:
    assert nodes("compute-[17,3]") == ["compute-3", "compute-17"]


def test_instance_is_what_the_inventory_has() -> None:
    assert plan("compute-3", HOSTS)["leaving"] == [
        {"node": "compute-3", "host": "compute000003", "azure_id": HOSTS[1]["azure_id"], "vm_id": "vm-compute-3"}
    ]


@pytest.mark.parametrize("requested", ["", None, [], " , "])
def test_nothing_to_retire_is_refused(requested: Any) -> None:
    with pytest.raises(RetirementError, match="name the nodes"):
        plan(requested, HOSTS)


def test_unknown_names_are_all_named() -> None:
    with pytest.raises(RetirementError, match="retire: ctl, copmute-3: no compute node"):
        plan("ctl,compute-3,copmute-3", HOSTS)


def test_malformed_host_list_is_refused() -> None:
    with pytest.raises(RetirementError, match="malformed"):
        plan("compute-[3", HOSTS)


def test_instance_that_a_complete_inventory_has_no_more_is_gone() -> None:
    done = plan("compute-4,compute-12", HOSTS)
    assert ([item["node"] for item in done["leaving"]], done["gone"]) == (["compute-4"], ["compute-12"])


def test_instance_id_of_two_sets_is_refused() -> None:
    hosts = [*HOSTS, *(instance(number, "other") for number in (3, 4, 5))]
    with pytest.raises(RetirementError, match="3 matches several hosts: compute000003, other000003"):
        plan("3", hosts)


@pytest.mark.parametrize("requested", ["compute-[0,3-5,17]", "compute-[0,3-4]"])
def test_all_or_most_of_a_set_go_by_force_only(requested: str) -> None:
    with pytest.raises(RetirementError, match=r"of the 5 instances of compute would be removed.*retire_force=true"):
        plan(requested, HOSTS)
    assert nodes(requested, force=True)


def test_half_of_a_set_may_go_but_not_its_only_instance() -> None:
    assert nodes("compute-0", HOSTS[:2]) == ["compute-0"]
    with pytest.raises(RetirementError, match="1 of the 1 instances"):
        plan("compute-0", HOSTS[:1])


def test_each_set_counts_for_itself() -> None:
    hosts = [*HOSTS, instance(0, "small")]
    with pytest.raises(RetirementError, match="instances of small"):
        plan("small-0", hosts)


def test_host_without_an_instance_cannot_be_retired() -> None:
    hosts = [*HOSTS, {"inventory_hostname": "bare-metal"}, {"inventory_hostname": "bare-metal-2"}]
    with pytest.raises(RetirementError, match="bare-metal has no azure_id"):
        plan("bare-metal", hosts)
