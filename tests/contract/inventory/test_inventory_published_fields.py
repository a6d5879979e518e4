# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory must not depend on fields that only the simulator has, and Azure does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.inventory.data import InventoryData

from .clusters import CLUSTER
from .reading import Source, facts, report

OPTIONS: dict[str, Any] = {
    "include_vms": "tagged",
    "list_public_addresses": True,
    "connect_with": ["public_ipv4", "private_ipv4"],
}


def everything(inventory: InventoryData) -> dict[str, Any]:
    """The complete content of the inventory, without its source and time."""
    summary = {**report(inventory), "source": "", "fetched_at": "", "age_seconds": 0}
    return {
        "hosts": {name: facts(inventory, name) for name in inventory.hosts},
        "groups": {name: sorted(host.name for host in group.get_hosts()) for name, group in inventory.groups.items()},
        "report": summary,
    }


def test_the_inventory_uses_only_fields_of_azures_published_examples(simulate: Callable[..., Source]) -> None:
    scenario = {**CLUSTER, "scale_sets": [{**item, "public_ip": True} for item in CLUSTER["scale_sets"]]}

    full = everything(simulate(scenario).read(**OPTIONS))
    published = everything(simulate(scenario, only_published=True).read(**OPTIONS))

    assert len(full["hosts"]) == 6
    assert published == full
