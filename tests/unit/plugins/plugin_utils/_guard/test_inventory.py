# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons not to run on an inventory, or not to trust its roles."""

from __future__ import annotations

import pathlib
import types
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._guard.inventory import problems, report

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
    """An instance of a Uniform scale set with a role; Azure spells its group in capitals."""
    prefix = f"/subscriptions/{SUBSCRIPTION}/resourceGroups"
    sets = "providers/Microsoft.Compute/virtualMachineScaleSets"
    return {
        "inventory_hostname": name,
        "azure_id": f"{prefix}/{group.upper()}/{sets}/{scale_set}/virtualMachines/0",
        "azure_vmss_id": f"{prefix}/{group}/{sets}/{scale_set}",
        "azure_resource_group": group,
    }


def source(**scope: list[str]) -> dict[str, Any]:
    """A source without any flaw that names these places."""
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


def test_hosts_in_a_named_resource_group_are_good() -> None:
    assert found(vm("ctl"), instance("n0"), resource_groups=["TRAINING"]) == []


def test_hosts_in_named_scale_sets_are_good() -> None:
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
        # A stand-alone VM named like a scale set.
        (vm("a"), {"scale_sets": ["training/*"]}),
    ],
)
def test_a_host_outside_of_what_the_inventory_names_is_refused(stranger: dict[str, Any], scope: dict[str, Any]) -> None:
    [problem] = found(instance("ctl"), instance("n0"), stranger, **scope)

    assert problem.startswith("Host a is in the group hpcai_compute, but lies in resource group ")
    assert stranger["azure_id"] in problem


def test_a_controller_outside_is_refused_for_both_reasons() -> None:
    outside, several = found(
        vm("ctl"), instance("n0"), vm("a", "lab"), controllers=("a", "ctl"), resource_groups=["training"]
    )

    assert outside.startswith("Host a is in the group hpcai_controller, but lies in resource group lab of")
    assert several.startswith(
        "The group hpcai_controller has 2 hosts: a (resource group lab), ctl (resource group training)."
    )


def test_the_name_of_a_scale_set_alone_is_no_place() -> None:
    """Anybody with a resource group of his own can make a scale set of that name."""
    [problem] = found(instance("ctl"), instance("n0"))

    assert "resource_groups: [training]" in problem


def test_a_source_that_names_nothing_gets_the_line_to_paste() -> None:
    hosts = [*(instance(f"n{number}") for number in range(4)), vm("a", "lab"), instance("b", group="007")]
    assert found(vm("ctl", "Training"), *hosts) == [
        "/ops/azure_vmss.yml names no resource group, so any machine of the subscription can get a role by its tag. "
        "Add this line to it, with no other groups than those that you trust: resource_groups: ['007', Training, lab] "
        "(hosts with a role: 007: b; Training: ctl, n0, n1 and 2 more; lab: a)"
    ]


def test_a_source_without_hosts_that_names_nothing_is_refused_too() -> None:
    by_hand: list[dict[str, Any]] = [{"inventory_hostname": "ctl"}, {"inventory_hostname": "n0"}]
    [problem] = found(*by_hand)
    assert problem.endswith("resource_groups: [YOUR-RESOURCE-GROUP]")


def test_hosts_written_by_hand_are_not_asked_where_they_lie() -> None:
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
def test_several_controllers_must_be_named(named: tuple[str, ...], others: str | None) -> None:
    first = {**vm("ctl"), "azure_private_ipv4": "10.0.0.4"}
    second = {**vm("second"), "azure_private_ipv4": "10.0.0.5"}
    problems_found = found(
        first, second, instance("n0"), controllers=("ctl", "second"), named=named, resource_groups=["training"]
    )

    if others is None:
        assert problems_found == []
    else:
        assert f"does not name {others}. Take the role from all hosts but one" in problems_found[0]


def test_one_controller_need_not_be_named() -> None:
    assert found(vm("ctl"), instance("n0"), named=("slurm.example.org",), resource_groups=["training"]) == []


GROUPS = types.MappingProxyType(
    {"all": ["ctl", "compute-0"], "hpcai_controller": ["ctl"], "hpcai_compute": ["compute-0"]}
)
HOSTS: tuple[dict[str, Any], ...] = (
    {"inventory_hostname": "ctl", "azure_tags": {"hpcai_cluster": "sim"}, "azure_private_ipv4": "10.77.0.4"},
    {"inventory_hostname": "compute-0", "azure_tags": {"hpcai_cluster": "sim"}, "azure_private_ipv4": "10.77.0.5"},
)
COMPUTE = "compute: 2 of 2 Standard_ND96asr_v4, Uniform, single placement group yes, accelerated networking yes"


def inventory_source(path: pathlib.Path | str = "/ops/azure_vmss.yml", **changes: Any) -> dict[str, Any]:
    """One source of azure_inventory, complete and without a flaw."""
    network = {"id": "/x/virtualNetworks/hpc", "address_prefixes": ["10.77.0.0/24"]}
    return {
        "source": str(path),
        "scope": {"subscription_ids": ["s"], "resource_groups": ["hpcai"], "scale_sets": []},
        "complete": True,
        "from_cache": False,
        "age_seconds": 0,
        "errors": [],
        "scale_sets": [COMPUTE],
        "virtual_networks": [network],
        **changes,
    }


def inventory_problems(
    *sources: dict[str, Any],
    groups: Mapping[str, list[str]] = GROUPS,
    hosts: Iterable[dict[str, Any]] = HOSTS,
    given: Iterable[pathlib.Path | str] = (),
) -> list[str]:
    """The problems of an inventory of these sources; without any it was written by hand."""
    inventory = {"sources": list(sources)} if sources else None
    return problems(inventory, groups, hosts, [str(path) for path in given])


def network(*prefixes: str) -> dict[str, Any]:
    """What a source says of a virtual network with these address ranges."""
    return {"virtual_networks": [{"id": "/x/virtualNetworks/hpc", "address_prefixes": list(prefixes)}]}


def test_a_good_inventory_of_the_plugin_has_no_problem(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "azure_vmss.yml"
    file.touch()
    assert inventory_problems(inventory_source(file), given=[file]) == []


def test_cached_answer_is_a_problem_because_a_node_that_joined_since_would_leave() -> None:
    (problem,) = inventory_problems(inventory_source(from_cache=True, age_seconds=42))
    assert "42 s old" in problem
    assert "--flush-cache" in problem


def test_a_good_inventory_written_by_hand_has_no_problem(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "hosts.yml"
    file.touch()
    hosts: list[dict[str, Any]] = [
        {"inventory_hostname": "ctl"},
        {"inventory_hostname": "compute-0", "azure_tags": None},
    ]
    assert inventory_problems(hosts=hosts, given=[file, "compute-0,", "localhost,"]) == []


def test_a_source_that_was_given_and_not_read_is_named(tmp_path: pathlib.Path) -> None:
    read, failed = tmp_path / "a.azure_vmss.yml", tmp_path / "b.azure_vmss.yaml"
    for file in (read, failed):
        file.touch()
    [problem] = inventory_problems(inventory_source(read), given=[read, failed])
    assert problem == (
        f"The inventory source {failed} could not be read: see the warnings above. "
        "Set any_unparsed_is_failed = true in the section [inventory] of ansible.cfg to fail there already."
    )


def test_a_source_that_failed_beside_one_written_by_hand_is_named(tmp_path: pathlib.Path) -> None:
    failed = tmp_path / "azure_vmss.yml"
    failed.touch()
    [problem] = inventory_problems(given=[tmp_path / "hosts.yml", failed])
    assert problem.startswith(f"The inventory source {failed} could not be read")


def test_a_source_that_does_not_exist_is_named() -> None:
    [problem] = inventory_problems(given=["/ops/inventories/azrue/azure_vmss.yml"])
    assert problem.startswith("The inventory source /ops/inventories/azrue/azure_vmss.yml could not be read")


def test_a_list_of_hosts_is_no_source() -> None:
    assert inventory_problems(given=["ctl,azure_vmss.yml"]) == []


def test_a_source_counts_as_read_by_whatever_path(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "azure_vmss.yml", tmp_path / "link.azure_vmss.yml"
    file.touch()
    link.symlink_to(file)
    monkeypatch.chdir(tmp_path)
    assert (
        inventory_problems(
            inventory_source(file), given=["azure_vmss.yml", f"{tmp_path}/../{tmp_path.name}/azure_vmss.yml", link]
        )
        == []
    )


def test_the_sources_in_a_folder_and_below_it_are_looked_at(tmp_path: pathlib.Path) -> None:
    names = ["azure_vmss.yml", "east/azure_vmss.yml", "hosts.yml", ".azure_vmss.yml", "group_vars/all/azure_vmss.yml"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [problem.split()[3] for problem in inventory_problems(given=[tmp_path])] == [
        str(tmp_path / "azure_vmss.yml"),
        str(tmp_path / "east/azure_vmss.yml"),
    ]
    assert (
        inventory_problems(
            inventory_source(tmp_path / "azure_vmss.yml"),
            inventory_source(tmp_path / "east/azure_vmss.yml"),
            given=[tmp_path],
        )
        == []
    )


def test_a_partial_source_is_named_with_its_errors() -> None:
    partial = inventory_source("/ops/b_azure_vmss.yml", complete=False, errors=["403 on compute", "429 on login"])
    assert inventory_problems(inventory_source(), partial) == [
        "The inventory of /ops/b_azure_vmss.yml is partial (403 on compute; 429 on login): mend that, or nodes would be"
        " lost."
    ]


def test_a_source_from_an_outdated_cache_is_partial() -> None:
    [problem] = inventory_problems(inventory_source(complete=False))
    assert "is partial (it came from an outdated cache)" in problem


def test_a_partial_source_out_of_the_cache_is_told_once() -> None:
    [problem] = inventory_problems(inventory_source(complete=False, errors=["403"], from_cache=True, age_seconds=90))
    assert "is partial (403)" in problem


@pytest.mark.parametrize("role", ["controller", "compute"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_cluster_without_that_role_is_refused(role: str, empty: bool) -> None:
    groups = {name: hosts for name, hosts in GROUPS.items() if name != f"hpcai_{role}"}
    if empty:
        groups[f"hpcai_{role}"] = []
    assert inventory_problems(inventory_source(), groups=groups) == [
        f"No host is in the group hpcai_{role}: tag a machine that runs and is provisioned with hpcai_role={role}, or "
        "name its group so."
    ]


def test_a_login_node_of_its_own_is_not_asked_for() -> None:
    assert "hpcai_login" not in GROUPS
    assert inventory_problems(inventory_source()) == []


def test_two_clusters_are_refused_with_a_host_of_each() -> None:
    other = [{"inventory_hostname": f"b-{number}", "azure_tags": {"hpcai_cluster": "b"}} for number in range(2)]
    assert inventory_problems(inventory_source(), hosts=[*HOSTS, *other]) == [
        "The inventory holds several clusters: 'b' (b-0), 'sim' (ctl). "
        "Keep one value of the tag hpcai_cluster (option tags)."
    ]


def test_a_host_without_the_clusters_tag_is_no_other_cluster() -> None:
    others: list[dict[str, Any]] = [
        {"inventory_hostname": "a", "azure_tags": {"team": "x"}},
        {"inventory_hostname": "b"},
    ]
    assert inventory_problems(inventory_source(), hosts=[*HOSTS, *others]) == []


@pytest.mark.parametrize("prefix", ["172.16.0.0/16", "172.16.255.0/24", "172.16.0.0/12", "0.0.0.0/0", "172.16.5.1/24"])
def test_a_network_that_overlaps_the_reserved_one_is_named(prefix: str) -> None:
    assert inventory_problems(inventory_source(**network("10.0.0.0/16", prefix))) == [
        f"Virtual network /x/virtualNetworks/hpc ({prefix}) overlaps 172.16.0.0/16, which is reserved for RDMA."
    ]


@pytest.mark.parametrize("prefix", ["172.17.0.0/16", "172.15.255.0/24", "10.0.0.0/8", "fd00::/8", "::/0"])
def test_a_network_beside_the_reserved_one_is_fine(prefix: str) -> None:
    assert inventory_problems(inventory_source(**network(prefix))) == []


def test_a_network_whose_ranges_nobody_knows_is_no_problem() -> None:
    assert inventory_problems(inventory_source(virtual_networks=[{"id": "/x", "address_prefixes": None}])) == []


def test_a_network_that_two_sources_share_is_named_once() -> None:
    assert (
        len(
            inventory_problems(
                inventory_source("/a", **network("172.16.0.0/16")),
                inventory_source("/b", **network("172.16.0.0/16")),
            )
        )
        == 1
    )


def test_hosts_in_the_reserved_network_are_named_in_one_line() -> None:
    hosts = [{"inventory_hostname": f"c-{number}", "azure_private_ipv4": f"172.16.0.{number}"} for number in range(9)]
    assert inventory_problems(inventory_source(), hosts=[*HOSTS, *hosts]) == [
        "Hosts have addresses in 172.16.0.0/16, which is reserved for RDMA: "
        "c-0 (172.16.0.0), c-1 (172.16.0.1), c-2 (172.16.0.2) and 6 more."
    ]
    assert inventory_problems(inventory_source(), hosts=[*HOSTS, *hosts[:3]])[0].endswith("c-2 (172.16.0.2).")


def test_a_host_without_address_is_no_problem() -> None:
    assert (
        inventory_problems(
            inventory_source(), hosts=[*HOSTS, {"inventory_hostname": "c-0", "azure_private_ipv4": None}]
        )
        == []
    )


def test_every_problem_is_told_and_each_once(tmp_path: pathlib.Path) -> None:
    failed = tmp_path / "azure_vmss.yml"
    failed.touch()
    hosts = [
        {"inventory_hostname": "a", "azure_tags": {"hpcai_cluster": "a"}, "azure_private_ipv4": "172.16.0.4"},
        {"inventory_hostname": "b", "azure_tags": {"hpcai_cluster": "b"}},
    ]
    partial = inventory_source(complete=False, errors=["403"], **network("172.16.0.0/16"))
    told = inventory_problems(partial, groups={}, hosts=iter(hosts), given=[failed])
    starts = [
        *("The inventory source", "The inventory of", "No host is in the group hpcai_controller"),
        *(
            "No host is in the group hpcai_compute",
            "The inventory holds several clusters",
            "Virtual network",
            "Hosts have",
        ),
    ]
    assert len(told) == len(starts)
    assert all(problem.startswith(start) for problem, start in zip(told, starts, strict=True))
    assert not [problem for problem in told if "\n" in problem]


def test_reports_one_line_for_each_scale_set() -> None:
    inventory = {
        "sources": [inventory_source(scale_sets=[COMPUTE, "flex: 0"]), inventory_source(scale_sets=["slow: 1"])]
    }
    assert report(inventory) == [COMPUTE, "flex: 0", "slow: 1"]


def test_an_inventory_written_by_hand_has_nothing_to_report() -> None:
    assert report(None) == []
