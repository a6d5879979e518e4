# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prices from the Retail Prices API, over HTTP from a stand-in: paging, filters, and what stays unknown."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from stand_ins.http_service import Service

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import PriceList
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.clients import Clients
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.credentials import find_cloud
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.prices import fetch_prices, meter_of

SIZE = "Standard_ND96asr_v4"
REGION = "westeurope"
TODAY = datetime.date(2026, 11, 26)


def row(price: float, **changes: Any) -> dict[str, Any]:
    """A price of a VM as the API returns it (Microsoft's page of the API, with other values)."""
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": REGION,
        "location": "EU West",
        "effectiveStartDate": "2021-10-01T00:00:00Z",
        "meterName": "ND96asr A100 v4",
        "productName": "Virtual Machines NDasrA100v4 Series",
        "skuName": "ND96asr A100 v4",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": SIZE,
        **changes,
    }


SPOT = row(9.0, skuName="ND96asr A100 v4 Spot")
WINDOWS = row(36.0, productName="Virtual Machines NDasrA100v4 Series Windows")
LOW_PRIORITY = row(12.0, skuName="ND96asr A100 v4 Low Priority")


def answer(*rows: dict[str, Any], link: str | None = None) -> tuple[int, dict[str, str], bytes]:
    """A page of the API."""
    body = {"BillingCurrency": "USD", "Items": list(rows), "NextPageLink": link, "Count": len(rows)}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()


@pytest.fixture
def services() -> Iterator[list[Service]]:
    """The services of a test, which are stopped after it."""
    started: list[Service] = []
    yield started
    for service in started:
        service.stop()


def fetch(service: Service, sizes: tuple[str, ...] = (SIZE,), items: tuple[str, ...] = ()) -> PriceList:
    """Fetch prices from a service."""
    deadline = Deadline(20)
    clients = Clients(find_cloud("AzureCloud", "http://127.0.0.1:1"), None, deadline)
    try:
        return fetch_prices(clients, REGION, sizes, items, "USD", TODAY, service.endpoint)
    finally:
        clients.close()


def fetched(services: list[Service], *rows: dict[str, Any], item: str = "") -> PriceList:
    """The prices in one answer, which is for sizes, or for an item."""
    services.append(Service(answer(*rows)))
    return fetch(services[0], () if item else (SIZE,), (item,) if item else ())


def test_keeps_the_linux_price_and_the_price_of_spot(services: list[Service]) -> None:
    prices = fetched(services, WINDOWS, SPOT, row(32.0), LOW_PRIORITY)
    assert prices.of_size(REGION, SIZE) == 32.0
    assert prices.of_size(REGION, SIZE, spot=True) == 9.0
    assert (prices.currency, prices.date) == ("USD", "2026-11-26")
    assert prices.source == f"{services[0].endpoint}/api/retail/prices"


def test_asks_for_all_sizes_at_once_without_a_token(services: list[Service]) -> None:
    services.append(Service(answer(row(32.0), row(0.5, armSkuName="Standard_D8s_v5"))))
    prices = fetch(services[0], (SIZE, "Standard_D8s_v5"))
    assert prices.of_size(REGION, "Standard_D8s_v5") == 0.5
    ((path, headers),) = services[0].requests
    assert "authorization" not in headers
    query = parse_qs(urlsplit(path).query)
    assert query["currencyCode"] == ["'USD'"]
    assert query["$filter"] == [
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq 'westeurope' and "
        "(armSkuName eq 'Standard_D8s_v5' or armSkuName eq 'Standard_ND96asr_v4')"
    ]


def test_reads_all_pages(services: list[Service]) -> None:
    service = Service(answer(WINDOWS), answer(row(32.0)))
    services.append(service)
    service.answers[0] = answer(WINDOWS, link=f"{service.endpoint}/api/retail/prices?$skip=1")
    assert fetch(service).of_size(REGION, SIZE) == 32.0
    assert service.requests[1][0] == "/api/retail/prices?$skip=1"


def test_does_not_follow_a_page_on_another_host(services: list[Service]) -> None:
    services.append(Service(answer(WINDOWS, link="http://localhost:9/prices")))
    with pytest.raises(InventoryError, match="its next page is on another host"):
        fetch(services[0])


def test_does_not_read_pages_forever(services: list[Service]) -> None:
    service = Service(answer(WINDOWS))
    services.append(service)
    service.answers[0] = answer(WINDOWS, link=f"{service.endpoint}/api/retail/prices?$skip=1")
    with pytest.raises(InventoryError, match="more than 100 pages"):
        fetch(service)
    assert len(service.requests) == 100


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row(0)],
        [row(32.0), row(33.0)],
        [row(32.0, type="Reservation")],
        [row(32.0, unitOfMeasure="1/Month")],
        [row(32.0, armRegionName="northeurope")],
        [row(32.0, tierMinimumUnits=100.0)],
        [row(32.0, productName="NDasrA100v4 Series Cloud Services")],
        [LOW_PRIORITY],
    ],
)
def test_a_price_that_is_missing_or_contradicts_another_is_unknown(
    services: list[Service], rows: list[dict[str, Any]]
) -> None:
    assert fetched(services, *rows).of_size(REGION, SIZE) is None


def test_prefers_the_primary_meter(services: list[Service]) -> None:
    assert fetched(services, row(33.0, isPrimaryMeterRegion=False), row(32.0)).of_size(REGION, SIZE) == 32.0


def item_row(item: str, price: float, **changes: Any) -> dict[str, Any]:
    """A price of an item as the API returns it."""
    meter = meter_of(item)
    given = {
        "serviceName": meter.service,
        "productName": meter.product,
        "meterName": meter.meter,
        "unitOfMeasure": meter.units[0],
        "armSkuName": "",
    }
    return row(price, **{**given, **changes})


def test_converts_prices_per_month_to_hours(services: list[Service]) -> None:
    prices = fetched(services, item_row("disk_p10", 21.9), item="disk_p10")
    assert prices.of_item(REGION, "disk_p10") == pytest.approx(0.03)
    assert "meterName eq 'P10 LRS Disk'" in parse_qs(urlsplit(services[0].requests[0][0]).query)["$filter"][0]


def test_uses_the_price_of_all_regions_if_the_region_has_none(services: list[Service]) -> None:
    everywhere = item_row("nat_gateway", 0.045, armRegionName="Global")
    assert fetched(services, everywhere, item="nat_gateway").of_item(REGION, "nat_gateway") == 0.045


def test_the_price_of_the_region_comes_first(services: list[Service]) -> None:
    everywhere = item_row("nat_gateway", 0.045, armRegionName="Global")
    prices = fetched(services, everywhere, item_row("nat_gateway", 0.05), item="nat_gateway")
    assert prices.of_item(REGION, "nat_gateway") == 0.05


def test_other_products_with_the_same_meter_are_not_used(services: list[Service]) -> None:
    # Azure Bastion's meter has the same name.
    other = item_row("nat_gateway", 0.29, productName="Azure Bastion")
    assert fetched(services, other, item="nat_gateway").of_item(REGION, "nat_gateway") is None


def test_refuses_prices_in_another_currency(services: list[Service]) -> None:
    with pytest.raises(InventoryError, match="they are in EUR, not in USD"):
        fetched(services, row(30.0, currencyCode="EUR"))


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[]", b"{}", b'{"Items": [1]}'])
def test_refuses_what_are_not_prices(services: list[Service], body: bytes) -> None:
    services.append(Service((200, {}, body)))
    with pytest.raises(InventoryError, match=r"^could not read the prices: the answer is not a"):
        fetch(services[0])


def test_waits_when_the_api_throttles(services: list[Service]) -> None:
    services.append(Service((429, {"Retry-After": "0"}, b""), answer(row(32.0))))
    assert fetch(services[0]).of_size(REGION, SIZE) == 32.0


def test_never_reads_prices_over_plain_http_from_elsewhere() -> None:
    clients = Clients(find_cloud("AzureCloud", None), None, Deadline(5))
    with pytest.raises(InventoryError, match=r"prices_endpoint: http://prices\.example is not https"):
        fetch_prices(clients, REGION, [SIZE], [], "USD", TODAY, "http://prices.example")
