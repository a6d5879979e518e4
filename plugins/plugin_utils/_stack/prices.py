# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads list prices from Azure's public Retail Prices API, which needs no sign-in, as the content of a price file.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices

The names of products and meters are those of several public clients of the API; Microsoft documents no list of them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.lookup import canonical_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import (
    BASTION,
    NAT_GATEWAY,
    PUBLIC_ADDRESS,
    SHARE_GIB,
    PriceList,
    SizePrice,
)

from .._azure.clients import Clients
from .._azure.errors import Asking, InventoryError, explain
from .preflight_json import all_pages

ENDPOINT = "https://prices.azure.com"
_PATH = "/api/retail/prices"
_VERSION = "2023-01-01-preview"
HOURS_PER_MONTH = 730
"""By which Azure's price pages convert prices per month."""
_HOUR, _MONTH, _GIB_MONTH = ("1 Hour",), ("1/Month", "1 Month"), ("1 GB/Month", "1 GiB/Month")
_GLOBAL = "Global"
_DISKS = {
    "p": "Premium SSD Managed Disks",
    "e": "Standard SSD Managed Disks",
    "s": "Standard HDD Managed Disks",
}


class Meter(NamedTuple):
    """How the API names an item.

    :ivar units: the units of measure that are known for it.
    """

    service: str
    product: str
    meter: str
    units: tuple[str, ...]


_METERS = {
    NAT_GATEWAY: Meter("NAT Gateway", "NAT Gateway", "Standard Gateway", _HOUR),
    PUBLIC_ADDRESS: Meter("Virtual Network", "IP Addresses", "Standard IPv4 Static Public IP", _HOUR),
    SHARE_GIB: Meter("Storage", "Premium Files", "Premium LRS Provisioned", _GIB_MONTH),
    BASTION: Meter("Azure Bastion", "Azure Bastion", "Standard Gateway", _HOUR),
}


def meter_of(item: str) -> Meter:
    """Return how the API names an item of the price file."""
    if item in _METERS:
        return _METERS[item]
    tier = item.removeprefix("disk_")
    return Meter("Storage", _DISKS[tier[0]], f"{tier.upper()} LRS Disk", _MONTH)


def fetch_prices(
    clients: Clients,
    region: str,
    sizes: Iterable[str],
    items: Iterable[str],
    currency: str,
    today: datetime.date,
    endpoint: str = ENDPOINT,
) -> PriceList:
    """Return today's list prices. A price that the API does not have, or has in several versions, stays unknown.

    It takes one request for all sizes, and one for each item, plus further pages.

    :param region: name of the region, e.g. ``westeurope``.
    :param sizes: canonical VM sizes.
    :param items: items of the price file.
    :raises InventoryError: the API does not answer, or not with prices.
    """
    if not clients.may_read(endpoint):
        raise InventoryError(f"prices_endpoint: {endpoint} is not https; plain http is for this machine only.")
    wanted = sorted(set(sizes))
    by_size = _rows(clients, endpoint, currency, size_filter(region, wanted)) if wanted else []
    prices = {size: size_price(by_size, region, size) for size in wanted}
    found = {item: _item_price(clients, endpoint, currency, region, item) for item in sorted(set(items))}
    return PriceList(
        currency=currency,
        date=today.isoformat(),
        source=f"{endpoint}{_PATH}",
        sizes={(region, size): price for size, price in prices.items() if price != SizePrice()},
        items={(region, item): price for item, price in found.items() if price is not None},
    )


def size_filter(region: str, sizes: Iterable[str]) -> str:
    """Return the filter for the prices of VM sizes."""
    names = " or ".join(f"armSkuName eq '{size}'" for size in sizes)
    scope = f"serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq '{region}'"
    return f"{scope} and ({names})"


def size_price(rows: Iterable[Mapping[str, Any]], region: str, size: str) -> SizePrice:
    """Return the prices of one VM size, for Linux without a licence."""
    of_size = [
        row
        for row in rows
        if canonical_size(str(row.get("armSkuName"))) == canonical_size(size)
        and str(row.get("armRegionName")).lower() == region.lower()
        and not _is_other_product(str(row.get("productName")))
    ]
    normal, spot = [], []
    for row in of_size:
        words = str(row.get("skuName")).lower()
        if words.endswith(" spot"):
            spot.append(row)
        elif not words.endswith(" low priority"):
            normal.append(row)
    return SizePrice(_one_price(normal, _HOUR), _one_price(spot, _HOUR))


def _is_other_product(product: str) -> bool:
    words = product.lower().replace(" ", "")
    return any(word in words for word in ("windows", "cloudservices", "dedicatedhost"))


def _item_price(clients: Clients, endpoint: str, currency: str, region: str, item: str) -> float | None:
    meter = meter_of(item)
    # Some meters exist once, for all regions.
    query = (
        f"serviceName eq '{meter.service}' and priceType eq 'Consumption' and meterName eq '{meter.meter}' and "
        f"(armRegionName eq '{region}' or armRegionName eq '{_GLOBAL}')"
    )
    rows = [row for row in _rows(clients, endpoint, currency, query) if row.get("productName") == meter.product]
    of_region = [row for row in rows if str(row.get("armRegionName")).lower() == region.lower()]
    price = _one_price(of_region or rows, meter.units)
    return price if price is None or meter.units == _HOUR else price / HOURS_PER_MONTH


def _one_price(rows: Iterable[Mapping[str, Any]], units: Iterable[str]) -> float | None:
    """Return the price in these rows; None if there is none, or if they contradict each other."""
    usable = [
        row
        for row in rows
        if row.get("type") == "Consumption"
        and str(row.get("unitOfMeasure")) in units
        and not row.get("tierMinimumUnits")
        and isinstance(row.get("retailPrice"), (int, float))
        and row["retailPrice"] > 0
    ]
    primary = [row for row in usable if row.get("isPrimaryMeterRegion") is not False]
    prices = {float(row["retailPrice"]) for row in primary or usable}
    return prices.pop() if len(prices) == 1 else None


def _rows(clients: Clients, endpoint: str, currency: str, query: str) -> list[dict[str, Any]]:
    parameters = {"api-version": _VERSION, "currencyCode": f"'{currency}'", "$filter": query}
    try:
        rows = all_pages(clients.signed(), f"{endpoint}{_PATH}", parameters, "Items", "NextPageLink")
    except Exception as error:
        asking = Asking("read the prices", "of nobody", "give a price_file instead")
        raise InventoryError(explain(error, asking)) from None
    other = {str(row.get("currencyCode")) for row in rows} - {currency}
    if other:
        raise InventoryError(f"could not read the prices: they are in {', '.join(sorted(other))}, not in {currency}.")
    return rows
