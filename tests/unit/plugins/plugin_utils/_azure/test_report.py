# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of the inventory's sources, and the summary line."""

from __future__ import annotations

from typing import Any, cast

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.facts import Listing, ScaleSetFacts
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hosts import Host, Hosts
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.report import (
    merge_reports,
    report_source,
    scale_set_variable,
    summary,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.selection import Scope
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.source import Outcome

from .instances import make_facts, make_scale_set

SCOPE: Scope = {"subscription_ids": ["s"], "resource_groups": ["Net"], "scale_sets": []}
NETWORK = "/subscriptions/s/resourceGroups/Net/providers/Microsoft.Network/virtualNetworks/main"


def outcome(
    *facts: dict[str, Any],
    scale_sets: list[ScaleSetFacts] | None = None,
    networks: list[Any] | None = None,
    left_out: dict[str, int] | None = None,
    problems: list[str] | None = None,
    from_cache: bool = False,
) -> Outcome:
    answer = {"instances": [], "scale_sets": scale_sets or [], "virtual_networks": networks or [], "left_out": {}}
    hosts = [
        Host(f"n{number}", item.pop("address", "10.0.0.4"), make_facts(ready=True, **item))
        for number, item in enumerate(facts)
    ]
    return Outcome(
        cast(Listing, {**answer, "errors": [], "requests": 1}),
        Hosts(hosts, left_out or {}),
        fetched_at=0,
        from_cache=from_cache,
        problems=problems or [],
    )


def test_the_report_of_a_source_has_all_fields() -> None:
    report = report_source("file", SCOPE, outcome({}, problems=["bad."], left_out={"x": 1}, from_cache=True), now=90.7)

    assert report == {
        "source": "file",
        "scope": SCOPE,
        "fetched_at": "1970-01-01T00:00:00+00:00",
        "from_cache": True,
        "age_seconds": 90,
        "complete": False,
        "hosts": 1,
        "left_out": {"x": 1},
        "errors": ["bad."],
        "scale_sets": [],
        "virtual_networks": [],
    }


def test_reports_all_networks_in_use_and_no_others() -> None:
    listed = [
        {"id": NETWORK, "name": "main", "address_prefixes": ["10.0.0.0/16"]},
        {"id": "/unused", "name": "unused", "address_prefixes": ["172.16.0.0/16"]},
    ]
    used = [NETWORK.upper(), "/other/hidden", None]

    report = report_source(
        "file", SCOPE, outcome(*[{"virtual_network": name} for name in used], networks=listed), now=0
    )

    assert report["virtual_networks"] == [
        {"id": "/other/hidden", "name": "hidden", "address_prefixes": None},
        listed[0],
    ]


def test_reports_the_network_of_a_scale_set_without_instances() -> None:
    scale_set = make_scale_set()
    scale_set["virtual_networks"] = [NETWORK]

    report = report_source("file", SCOPE, outcome(scale_sets=[scale_set]), now=0)

    assert [network["id"] for network in report["virtual_networks"]] == [NETWORK]


def test_unknown_facts_of_a_scale_set_come_from_its_instances() -> None:
    scale_set = make_scale_set()

    def entry(*accelerated: bool | None) -> ScaleSetFacts:
        member: dict[str, Any] = {"vmss_id": scale_set["id"].upper(), "virtual_network": NETWORK}
        facts = [{**member, "accelerated_networking": value} for value in accelerated]
        return report_source("file", SCOPE, outcome(*facts, scale_sets=[scale_set]), now=0)["scale_sets"][0]

    assert entry(True, None)["accelerated_networking"] is True
    assert entry(True, False)["accelerated_networking"] is False
    assert entry(None)["accelerated_networking"] is None
    assert entry(True)["virtual_networks"] == [NETWORK]
    # The listing itself is not changed.
    assert scale_set["accelerated_networking"] is None
    assert scale_set["virtual_networks"] == []


def described(**changes: Any) -> ScaleSetFacts:
    """A scale set with all facts."""
    known = {
        **make_scale_set("compute"),
        "vm_size": "Standard_ND96asr_v4",
        "capacity": 2,
        "found": 2,
        "single_placement_group": True,
        "accelerated_networking": True,
    }
    return cast(ScaleSetFacts, {**known, **changes})


def test_the_merged_report_has_one_line_per_scale_set() -> None:
    sets = [
        described(),
        described(name="slow", found=1, single_placement_group=False, accelerated_networking=False),
        {**make_scale_set("flex"), "orchestration_mode": "Flexible"},
    ]
    report = report_source("file", SCOPE, outcome(scale_sets=cast(list[ScaleSetFacts], sets)), now=0)

    assert merge_reports(None, report)["sources"][0]["scale_sets"] == [
        "compute: 2 of 2 Standard_ND96asr_v4, Uniform, single placement group yes, accelerated networking yes",
        "slow: 1 of 2 Standard_ND96asr_v4, Uniform, single placement group no, accelerated networking no",
        "flex: 0 of unknown unknown, Flexible, single placement group unknown, accelerated networking unknown",
    ]


def test_the_scale_set_variable_has_the_facts_that_hosts_lack() -> None:
    assert scale_set_variable(described(found=1)) == {
        "vm_size": "Standard_ND96asr_v4",
        "capacity": 2,
        "found": 1,
        "single_placement_group": True,
        "accelerated_networking": True,
    }


def test_the_merged_report_has_only_the_address_ranges_of_networks() -> None:
    listed = [{"id": NETWORK, "name": "main", "address_prefixes": ["10.0.0.0/16"]}]
    report = report_source("file", SCOPE, outcome({"virtual_network": NETWORK}, networks=listed), now=0)

    assert merge_reports(None, report)["sources"][0]["virtual_networks"] == [
        {"id": NETWORK, "address_prefixes": ["10.0.0.0/16"]}
    ]


def test_the_merged_report_is_complete_only_if_all_sources_are() -> None:
    good = report_source("good", SCOPE, outcome(), now=0)
    bad = report_source("bad", SCOPE, outcome(problems=["x"]), now=0)

    merged = merge_reports(merge_reports(None, good), bad)

    assert merged["version"] == 1
    assert [source["source"] for source in merged["sources"]] == ["good", "bad"]
    assert merged["complete"] is False
    assert merge_reports(None, good)["complete"] is True


def test_a_source_that_is_read_again_replaces_its_report() -> None:
    bad = report_source("file", SCOPE, outcome(problems=["x"]), now=0)
    good = report_source("file", SCOPE, outcome(), now=0)

    merged = merge_reports(merge_reports(None, bad), good)

    assert len(merged["sources"]) == 1
    assert merged["complete"] is True


def test_the_summary_without_problems_is_short() -> None:
    result = outcome({})

    assert summary(report_source("file", SCOPE, result, 0), result, 1.25) == "file: 1 host, 1 ready; 1 request in 1.2 s"


def test_the_summary_lists_missing_addresses_and_instances() -> None:
    scale_set = make_scale_set("gpu")
    scale_set["capacity"], scale_set["found"] = 8, 6
    result = outcome({}, {"address": None}, scale_sets=[scale_set], left_out={"b": 2, "a": 1})

    assert summary(report_source("file", SCOPE, result, 0), result, 0) == (
        "file: 2 hosts, 2 ready; 1 request in 0.0 s; without address: 1; left out: 1 (a), 2 (b); "
        "instances found: gpu 6 of 8"
    )
