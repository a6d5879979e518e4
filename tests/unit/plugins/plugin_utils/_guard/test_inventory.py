# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of an inventory that prevent a run."""

from __future__ import annotations

import pathlib
import types
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._guard.inventory import problems, report

GROUPS = types.MappingProxyType(
    {"all": ["ctl", "compute-0"], "hpcai_controller": ["ctl"], "hpcai_compute": ["compute-0"]}
)
HOSTS: tuple[dict[str, Any], ...] = (
    {"inventory_hostname": "ctl", "azure_tags": {"hpcai_cluster": "sim"}, "azure_private_ipv4": "10.77.0.4"},
    {"inventory_hostname": "compute-0", "azure_tags": {"hpcai_cluster": "sim"}, "azure_private_ipv4": "10.77.0.5"},
)
COMPUTE = "compute: 2 of 2 Standard_ND96asr_v4, Uniform, single placement group yes, accelerated networking yes"


def source(path: pathlib.Path | str = "/ops/azure_vmss.yml", **changes: Any) -> dict[str, Any]:
    """One complete source of azure_inventory without problems."""
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


def found(
    *sources: dict[str, Any],
    groups: Mapping[str, list[str]] = GROUPS,
    hosts: Iterable[dict[str, Any]] = HOSTS,
    given: Iterable[pathlib.Path | str] = (),
) -> list[str]:
    """The problems of an inventory of these sources. Without sources it is a static inventory."""
    inventory = {"sources": list(sources)} if sources else None
    return problems(inventory, groups, hosts, [str(path) for path in given])


def network(*prefixes: str) -> dict[str, Any]:
    """The entry of a source for a virtual network with these address ranges."""
    return {"virtual_networks": [{"id": "/x/virtualNetworks/hpc", "address_prefixes": list(prefixes)}]}


def test_a_good_inventory_of_the_plugin_has_no_problems(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "azure_vmss.yml"
    file.touch()
    assert found(source(file), given=[file]) == []


def test_a_cached_inventory_is_a_problem() -> None:
    """The run would remove nodes that joined after the inventory was cached."""
    (problem,) = found(source(from_cache=True, age_seconds=42))
    assert "42 s old" in problem
    assert "--flush-cache" in problem


def test_a_good_static_inventory_has_no_problems(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "hosts.yml"
    file.touch()
    hosts: list[dict[str, Any]] = [
        {"inventory_hostname": "ctl"},
        {"inventory_hostname": "compute-0", "azure_tags": None},
    ]
    assert found(hosts=hosts, given=[file, "compute-0,", "localhost,"]) == []


def test_names_a_source_that_could_not_be_read(tmp_path: pathlib.Path) -> None:
    read, failed = tmp_path / "a.azure_vmss.yml", tmp_path / "b.azure_vmss.yaml"
    for file in (read, failed):
        file.touch()
    [problem] = found(source(read), given=[read, failed])
    assert problem == (
        f"The inventory source {failed} could not be read: see the warnings above. "
        "To fail at that point, set any_unparsed_is_failed = true in the section [inventory] of ansible.cfg."
    )


def test_names_a_failed_source_next_to_a_static_one(tmp_path: pathlib.Path) -> None:
    failed = tmp_path / "azure_vmss.yml"
    failed.touch()
    [problem] = found(given=[tmp_path / "hosts.yml", failed])
    assert problem.startswith(f"The inventory source {failed} could not be read")


def test_names_a_source_that_does_not_exist() -> None:
    [problem] = found(given=["/ops/inventories/azrue/azure_vmss.yml"])
    assert problem.startswith("The inventory source /ops/inventories/azrue/azure_vmss.yml could not be read")


def test_a_list_of_hosts_is_not_a_source_file() -> None:
    assert found(given=["ctl,azure_vmss.yml"]) == []


def test_a_source_counts_as_read_under_any_of_its_paths(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link = tmp_path / "azure_vmss.yml", tmp_path / "link.azure_vmss.yml"
    file.touch()
    link.symlink_to(file)
    monkeypatch.chdir(tmp_path)
    assert found(source(file), given=["azure_vmss.yml", f"{tmp_path}/../{tmp_path.name}/azure_vmss.yml", link]) == []


def test_checks_the_sources_in_a_folder_and_its_subfolders(tmp_path: pathlib.Path) -> None:
    names = ["azure_vmss.yml", "east/azure_vmss.yml", "hosts.yml", ".azure_vmss.yml", "group_vars/all/azure_vmss.yml"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [problem.split()[3] for problem in found(given=[tmp_path])] == [
        str(tmp_path / "azure_vmss.yml"),
        str(tmp_path / "east/azure_vmss.yml"),
    ]
    assert (
        found(
            source(tmp_path / "azure_vmss.yml"),
            source(tmp_path / "east/azure_vmss.yml"),
            given=[tmp_path],
        )
        == []
    )


def test_names_a_partial_source_with_its_errors() -> None:
    partial = source("/ops/b_azure_vmss.yml", complete=False, errors=["403 on compute", "429 on login"])
    assert found(source(), partial) == [
        "The inventory of /ops/b_azure_vmss.yml is partial (403 on compute; 429 on login). Fix this first, because the"
        " run would remove the missing nodes from the cluster."
    ]


def test_a_source_from_an_outdated_cache_is_partial() -> None:
    [problem] = found(source(complete=False))
    assert "is partial (it came from an outdated cache)" in problem


def test_a_partial_source_from_the_cache_is_one_problem() -> None:
    [problem] = found(source(complete=False, errors=["403"], from_cache=True, age_seconds=90))
    assert "is partial (403)" in problem


@pytest.mark.parametrize("role", ["controller", "compute"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_cluster_without_a_controller_or_compute_node_is_refused(role: str, empty: bool) -> None:
    groups = {name: hosts for name, hosts in GROUPS.items() if name != f"hpcai_{role}"}
    if empty:
        groups[f"hpcai_{role}"] = []
    assert found(source(), groups=groups) == [
        f"No host is in the group hpcai_{role}: set the tag hpcai_role={role} on a running, provisioned machine, or "
        "add a host to this group."
    ]


def test_a_cluster_needs_no_login_node() -> None:
    assert "hpcai_login" not in GROUPS
    assert found(source()) == []


def test_two_clusters_are_refused_with_an_example_host_of_each() -> None:
    other = [{"inventory_hostname": f"b-{number}", "azure_tags": {"hpcai_cluster": "b"}} for number in range(2)]
    assert found(source(), hosts=[*HOSTS, *other]) == [
        "The inventory contains several clusters: 'b' (b-0), 'sim' (ctl). "
        "Select one value of the tag hpcai_cluster (option tags)."
    ]


def test_hosts_without_the_clusters_tag_are_accepted() -> None:
    others: list[dict[str, Any]] = [
        {"inventory_hostname": "a", "azure_tags": {"team": "x"}},
        {"inventory_hostname": "b"},
    ]
    assert found(source(), hosts=[*HOSTS, *others]) == []


@pytest.mark.parametrize("prefix", ["172.16.0.0/16", "172.16.255.0/24", "172.16.0.0/12", "0.0.0.0/0", "172.16.5.1/24"])
def test_names_a_network_that_overlaps_the_reserved_one(prefix: str) -> None:
    assert found(source(**network("10.0.0.0/16", prefix))) == [
        f"Virtual network /x/virtualNetworks/hpc ({prefix}) overlaps 172.16.0.0/16, which is reserved for RDMA."
    ]


@pytest.mark.parametrize("prefix", ["172.17.0.0/16", "172.15.255.0/24", "10.0.0.0/8", "fd00::/8", "::/0"])
def test_a_network_outside_the_reserved_one_is_accepted(prefix: str) -> None:
    assert found(source(**network(prefix))) == []


def test_a_network_with_unknown_ranges_is_accepted() -> None:
    assert found(source(virtual_networks=[{"id": "/x", "address_prefixes": None}])) == []


def test_names_a_network_of_two_sources_once() -> None:
    assert (
        len(
            found(
                source("/a", **network("172.16.0.0/16")),
                source("/b", **network("172.16.0.0/16")),
            )
        )
        == 1
    )


def test_names_hosts_in_the_reserved_network_in_one_line() -> None:
    hosts = [{"inventory_hostname": f"c-{number}", "azure_private_ipv4": f"172.16.0.{number}"} for number in range(9)]
    assert found(source(), hosts=[*HOSTS, *hosts]) == [
        "Hosts have addresses in 172.16.0.0/16, which is reserved for RDMA: "
        "c-0 (172.16.0.0), c-1 (172.16.0.1), c-2 (172.16.0.2) and 6 more."
    ]
    assert found(source(), hosts=[*HOSTS, *hosts[:3]])[0].endswith("c-2 (172.16.0.2).")


def test_a_host_without_address_is_accepted() -> None:
    assert found(source(), hosts=[*HOSTS, {"inventory_hostname": "c-0", "azure_private_ipv4": None}]) == []


def test_every_problem_is_listed_once(tmp_path: pathlib.Path) -> None:
    failed = tmp_path / "azure_vmss.yml"
    failed.touch()
    hosts = [
        {"inventory_hostname": "a", "azure_tags": {"hpcai_cluster": "a"}, "azure_private_ipv4": "172.16.0.4"},
        {"inventory_hostname": "b", "azure_tags": {"hpcai_cluster": "b"}},
    ]
    partial = source(complete=False, errors=["403"], **network("172.16.0.0/16"))
    problems = found(partial, groups={}, hosts=iter(hosts), given=[failed])
    starts = [
        *("The inventory source", "The inventory of", "No host is in the group hpcai_controller"),
        *(
            "No host is in the group hpcai_compute",
            "The inventory contains several clusters",
            "Virtual network",
            "Hosts have",
        ),
    ]
    assert len(problems) == len(starts)
    assert all(problem.startswith(start) for problem, start in zip(problems, starts, strict=True))
    assert not [problem for problem in problems if "\n" in problem]


def test_reports_one_line_for_each_scale_set() -> None:
    inventory = {"sources": [source(scale_sets=[COMPUTE, "flex: 0"]), source(scale_sets=["slow: 1"])]}
    assert report(inventory) == [COMPUTE, "flex: 0", "slow: 1"]


def test_a_static_inventory_has_an_empty_report() -> None:
    assert report(None) == []
