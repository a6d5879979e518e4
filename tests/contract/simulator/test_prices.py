# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List prices: without a token, selected by a filter, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from simulator.testing import Simulator, running

A100, HB = "Standard_ND96asr_v4", "Standard_HB176rs_v4"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """A subscription with the prices of two sizes in two regions."""
    machines = {"serviceName": "Virtual Machines"}
    prices = [
        {**machines, "armSkuName": size, "armRegionName": region, "retailPrice": price}
        for price, (size, region) in enumerate([(A100, "westeurope"), (A100, "uksouth"), (HB, "westeurope")], 1)
    ]
    prices.append({**prices[0], "currencyCode": "EUR"})
    prices.append({**prices[0], "type": "Reservation"})
    with running({"virtual_networks": [], "limits": {"prices": prices}}) as simulated:
        yield simulated


def prices(simulator: Simulator, wanted: str, **more: Any) -> requests.Response:
    """The answer to a request without a token."""
    parameters = {"api-version": "2023-01-01-preview", "$filter": wanted, **more}
    return requests.get(f"{simulator.endpoint}/api/retail/prices", parameters, timeout=10)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (f"armSkuName eq '{HB}'", [3]),
        ("priceType eq 'Consumption' and armRegionName eq 'westeurope'", [1, 3]),
        (f"priceType eq 'Consumption' and (armSkuName eq '{HB}' or armRegionName eq 'uksouth')", [2, 3]),
        ("armRegionName eq 'WestEurope'", []),
        ("priceType eq 'Reservation' or armRegionName eq 'uksouth'", [2, 1]),
    ],
)
def test_a_filter_selects_prices(simulator: Simulator, wanted: str, found: list[int]) -> None:
    answer = prices(simulator, wanted).json()
    assert sorted(one["retailPrice"] for one in answer["Items"]) == sorted(found)
    assert (answer["BillingCurrency"], answer["NextPageLink"], answer["Count"]) == ("USD", None, len(found))


def test_prices_of_another_currency_are_others(simulator: Simulator) -> None:
    (one,) = prices(simulator, f"armSkuName eq '{A100}'", currencyCode="'EUR'").json()["Items"]
    assert (one["currencyCode"], one["unitOfMeasure"]) == ("EUR", "1 Hour")


def test_pages_have_links(simulator: Simulator) -> None:
    simulator.options.price_page_size = 2
    first = prices(simulator, "priceType eq 'Consumption'").json()
    last = requests.get(first["NextPageLink"], timeout=10).json()
    assert [len(page["Items"]) for page in (first, last)] == [2, 1]
    assert last["NextPageLink"] is None


@pytest.mark.parametrize("wanted", ["price gt 3", "colour eq 'red'", "(armSkuName eq 'x'", "armSkuName eq 'x' and"])
def test_an_invalid_filter_is_refused(simulator: Simulator, wanted: str) -> None:
    assert prices(simulator, wanted).status_code == 400
