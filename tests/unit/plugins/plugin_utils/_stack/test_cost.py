# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cost per day: hours times list price, and never 0 for what is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from stand_ins.preflight import COMPUTE, CONTROLLER, CPU, GPU, needs

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import PriceList, SizePrice
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.cost import Cost, cost_of, disk_item

REGION = "westeurope"
PRICES = PriceList(
    "USD",
    "2026-11-20",
    "the test",
    {(REGION, GPU): SizePrice(30.0, 9.0), (REGION, CPU): SizePrice(0.5)},
    {
        (REGION, "disk_p10"): 0.03,
        (REGION, "disk_p15"): 0.05,
        (REGION, "nat_gateway"): 0.045,
        (REGION, "public_address"): 0.005,
        (REGION, "files_premium_gib"): 0.0002,
        (REGION, "bastion_standard"): 0.3,
    },
)


def without(prices: PriceList, *, size: str = "", item: str = "") -> PriceList:
    """The prices without one."""
    return replace(
        prices,
        sizes={key: value for key, value in prices.sizes.items() if key[1] != size},
        items={key: value for key, value in prices.items.items() if key[1] != item},
    )


def days(cost: Cost, owner: str) -> tuple[Any, Any]:
    """The cost of an owner per day, at the smallest and at the largest size."""
    return pytest.approx(cost.by_owner[owner].least), pytest.approx(cost.by_owner[owner].most)


def test_multiplies_machines_and_disks_with_24_hours() -> None:
    cost = cost_of(needs(), PRICES)
    assert days(cost, "hpc-controller") == (24 * 0.53, 24 * 0.53)
    assert days(cost, "set compute") == (0.0, 4 * 24 * 30.03)
    assert days(cost, "network") == (24 * 0.05, 24 * 0.05)
    assert cost.total.least == pytest.approx(24 * (0.53 + 0.05))
    assert cost.total.most == pytest.approx(24 * (0.53 + 0.05 + 4 * 30.03))
    assert cost.total.most_complete
    assert not cost.unknown


def test_spot_machines_have_the_price_of_spot() -> None:
    cost = cost_of(needs(machines=(replace(COMPUTE, spot=True),)), PRICES)
    assert days(cost, "set compute") == (0.0, 4 * 24 * 9.03)


def test_an_unknown_price_makes_the_sum_a_lower_bound() -> None:
    cost = cost_of(needs(), without(PRICES, size=GPU))
    assert cost.unknown == (f"set compute: {GPU}",)
    assert not cost.total.most_complete
    assert cost.by_owner["set compute"].most == pytest.approx(4 * 24 * 0.03)
    line = next(one for one in cost.lines if one.what == GPU)
    assert (line.hourly, line.day_least, line.day_most) == (None, 0.0, None)
    # No machine of the set runs at the smallest size, so that size is known.
    assert cost.total.least_complete


def test_an_unknown_price_of_what_always_runs_leaves_both_sizes_incomplete() -> None:
    cost = cost_of(needs(), without(PRICES, item="nat_gateway"))
    assert (cost.total.least_complete, cost.total.most_complete) == (False, False)


def test_without_a_price_file_everything_is_unknown() -> None:
    cost = cost_of(needs(), None)
    assert cost.currency == ""
    assert len(cost.unknown) == len(cost.lines)
    assert not cost.total.most_complete


def test_prices_of_another_region_are_not_used() -> None:
    assert len(cost_of(needs(location="northeurope"), PRICES).unknown) == 6


def test_counts_shares_disks_and_bastion() -> None:
    more = needs(
        machines=(), share_gib=(("home", 1024),), disks=(("home", "Premium_LRS", 256),), bastions=1, nat_gateways=0
    )
    cost = cost_of(more, PRICES)
    assert days(cost, "storage") == (24 * (0.2048 + 0.05), 24 * (0.2048 + 0.05))
    assert days(cost, "network") == (24 * 0.305, 24 * 0.305)


def test_an_ephemeral_disk_costs_nothing() -> None:
    cost = cost_of(needs(machines=(replace(CONTROLLER, ephemeral=True),)), PRICES)
    assert [line.what for line in cost.lines if line.owner == "hpc-controller"] == [CPU]


def test_a_disk_of_the_images_size_is_unknown() -> None:
    cost = cost_of(needs(machines=(replace(CONTROLLER, disk_gib=None),)), PRICES)
    assert cost.unknown == ("hpc-controller: OS disk of the image's size Premium_LRS",)


@pytest.mark.parametrize(
    ("disk_type", "gib", "item"),
    [
        ("Premium_LRS", 128, "disk_p10"),
        ("Premium_LRS", 129, "disk_p15"),
        ("Premium_LRS", 4, "disk_p1"),
        ("StandardSSD_LRS", 64, "disk_e6"),
        ("Standard_LRS", 4, "disk_s4"),
        ("Premium_LRS", 40000, ""),
        ("Premium_ZRS", 128, ""),
        ("Premium_LRS", None, ""),
    ],
)
def test_a_disk_costs_its_next_larger_tier(disk_type: str, gib: int | None, item: str) -> None:
    assert disk_item(disk_type, gib) == item
