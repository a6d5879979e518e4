# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of lists: their sizes and links, and lists that change while a client reads them."""

from __future__ import annotations

from typing import Any

import requests

from simulator.testing import Simulator, running

GROUP = "hpcai-sim"
BIG: dict[str, Any] = {
    "virtual_networks": [{"address_prefixes": ["10.0.0.0/16"]}],
    "scale_sets": [
        {"name": "uni", "capacity": 250, "single_placement_group": False},
        {"name": "flex", "capacity": 130, "orchestration_mode": "Flexible"},
    ],
}


def pages(simulator: Simulator, path: str) -> list[dict[str, Any]]:
    """All pages of a list; follows the links without changes."""
    headers = {"Authorization": f"Bearer {simulator.token}"}
    url: str | None = f"{simulator.endpoint}/subscriptions/{simulator.subscription_id}{path}"
    found = []
    while url:
        found.append(requests.get(url, headers=headers, timeout=10).json())
        url = found[-1].get("nextLink")
    return found


def test_pages_have_azures_sizes_and_links_keep_the_query() -> None:
    with running(BIG) as simulator:
        scale_set = f"/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/uni"
        found = pages(simulator, f"{scale_set}/virtualMachines?api-version=2024-11-01&$expand=instanceView")
        assert [len(page["value"]) for page in found] == [120, 120, 10]
        assert found[0]["nextLink"].startswith(f"{simulator.endpoint}/subscriptions/")
        assert "$expand=instanceView" in found[0]["nextLink"]
        assert all("instanceView" in item["properties"] for page in found for item in page["value"])
        assert len({item["id"] for page in found for item in page["value"]}) == 250
        interfaces = pages(simulator, f"{scale_set}/networkInterfaces?api-version=2024-05-01")
        assert [len(page["value"]) for page in interfaces] == [100, 100, 50]


def test_the_sdk_reads_all_pages_of_a_filtered_list() -> None:
    with running(BIG, vm_page_size=7) as simulator:
        compute = simulator.compute()
        set_id = simulator.scale_set("flex").id
        chosen = f"'virtualMachineScaleSet/id' eq '{set_id}'"
        found = list(compute.virtual_machines.list(GROUP, filter=chosen, expand="instanceView"))
        assert len({item.name for item in found}) == 130
        assert all(item.instance_view is not None for item in found)
        assert len(simulator.requests()) == 19
        assert all("$filter=" in item["query"] for item in simulator.requests())


def test_a_list_that_shrinks_during_reading_skips_no_instance() -> None:
    with running(BIG, vm_page_size=100) as simulator:
        reading = simulator.compute().virtual_machine_scale_set_vms.list(GROUP, "uni").by_page()
        names = [item.name for item in next(reading)]
        members = simulator.scale_set("uni").members
        for instance_id in list(members)[:50]:
            simulator.model.remove(members[instance_id])
        names += [item.name for page in reading for item in page]
        assert len(names) == len(set(names)) == 250


def test_ten_thousand_instances_are_84_pages() -> None:
    """How long they take is a benchmark's figure: bare lists of the SDK, in docs/evidence.md."""
    scenario = {
        "virtual_networks": [{"address_prefixes": ["10.0.0.0/16"]}],
        "scale_sets": [
            {"name": "uni", "capacity": 5000, "single_placement_group": False},
            {"name": "flex", "capacity": 5000, "orchestration_mode": "Flexible"},
        ],
    }
    with running(scenario) as simulator:
        path = "/providers/Microsoft.Compute/virtualMachines?api-version=2024-11-01"
        of_set = f"/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/uni/virtualMachines"
        found = pages(simulator, path) + pages(simulator, f"{of_set}?api-version=2024-11-01&$expand=instanceView")
        assert len({item["id"] for page in found for item in page["value"]}) == 10_000
        assert len(found) == len(simulator.requests()) == 84
