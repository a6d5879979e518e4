# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The price file: list prices per hour, of VM sizes and of what else a cluster costs, for one day and one currency.

::

    {
      "schema": 1, "currency": "USD", "date": "2026-11-20", "source": "https://prices.azure.com",
      "sizes": [{"region": "westeurope", "size": "Standard_ND96asr_v4", "hourly": 32.77, "spot_hourly": 9.83}],
      "items": [{"region": "westeurope", "item": "disk_p10", "hourly": 0.027}]
    }

A price that is not in the file is unknown, which is never the same as 0. Therefore 0 is refused in a file.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..forms import Malformed, anything, checked, list_of, matching, number, optional, record, text, wrong
from .lookup import canonical_size

SCHEMA = 1
"""Schema of the file. Increase it when readers of the old form would misread the new one."""
NAT_GATEWAY, PUBLIC_ADDRESS, SHARE_GIB = "nat_gateway", "public_address", "files_premium_gib"
BASTION = "bastion_standard"
"""Items: one NAT gateway, one static public IPv4 address, one provisioned GiB of a premium file share, one Azure
Bastion of the tier Standard. The others are managed disks, by tier: ``disk_p10``, ``disk_e10``, ``disk_s10`` (Premium
SSD, Standard SSD, Standard HDD)."""
_ITEM = rf"{NAT_GATEWAY}|{PUBLIC_ADDRESS}|{SHARE_GIB}|{BASTION}|disk_[pes][0-9]{{1,2}}"
_PRICE = number(above=True, maximum=1e6)


@dataclass(frozen=True)
class SizePrice:
    """Prices of a VM size in a region, per hour of one VM; None if unknown."""

    hourly: float | None = None
    spot_hourly: float | None = None


@dataclass(frozen=True)
class PriceList:
    """The content of a price file.

    :ivar currency: three letters, e.g. ``USD``.
    :ivar date: the day on which the prices were read, ``YYYY-MM-DD``.
    :ivar source: where they are from; empty if the file does not say.
    :ivar sizes: by region (lower case) and canonical size.
    :ivar items: price per hour of one unit, by region (lower case) and item.
    """

    currency: str
    date: str
    source: str = ""
    sizes: Mapping[tuple[str, str], SizePrice] = field(default_factory=dict)
    items: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def of_size(self, region: str, size: str, spot: bool = False) -> float | None:
        """Return the price of one VM per hour; None if it is unknown. The normal price is never used for spot."""
        price = self.sizes.get((region.lower(), canonical_size(size)), SizePrice())
        return price.spot_hourly if spot else price.hourly

    def of_item(self, region: str, item: str) -> float | None:
        """Return the price of one unit per hour; None if it is unknown."""
        return self.items.get((region.lower(), item))

    def age_days(self, today: datetime.date) -> int:
        """Return how many days old the prices are."""
        return (today - datetime.date.fromisoformat(self.date)).days


def read_prices(content: str, where: str) -> PriceList:
    """Return the prices in the text of a file.

    :param where: the file's name, for messages.
    :raises Malformed: it is not a price file.
    """
    try:
        document = json.loads(content)
    except ValueError as error:
        raise Malformed(f"{where}: it is not JSON: {error}") from None
    return checked(prices_form, document, where)


def as_document(prices: PriceList) -> dict[str, Any]:
    """Return the content of a price file, sorted, without the prices that are unknown."""
    sizes = [
        {"region": region, "size": size, "hourly": price.hourly, "spot_hourly": price.spot_hourly}
        for (region, size), price in sorted(prices.sizes.items())
    ]
    return {
        "schema": SCHEMA,
        "currency": prices.currency,
        "date": prices.date,
        "source": prices.source,
        "sizes": [{key: value for key, value in size.items() if value is not None} for size in sizes],
        "items": [
            {"region": region, "item": item, "hourly": hourly}
            for (region, item), hourly in sorted(prices.items.items())
        ],
    }


def prices_form(path: str, value: Any) -> PriceList:
    """The form of a price file's content."""
    if isinstance(value, Mapping) and value.get("schema") != SCHEMA:
        raise wrong("schema", f"{SCHEMA}, which is the schema that this release reads", value.get("schema"))
    given = _FILE(path, value)
    sizes: dict[tuple[str, str], SizePrice] = {}
    for position, one in enumerate(given["sizes"]):
        _add(sizes, (one["region"].lower(), canonical_size(one["size"])), _size_price(one), f"sizes[{position}]")
    items: dict[tuple[str, str], float] = {}
    for position, one in enumerate(given["items"]):
        _add(items, (one["region"].lower(), one["item"]), float(one["hourly"]), f"items[{position}]")
    return PriceList(given["currency"], given["date"], given["source"], sizes, items)


def _size_price(one: Mapping[str, Any]) -> SizePrice:
    return SizePrice(*(None if one.get(key) is None else float(one[key]) for key in ("hourly", "spot_hourly")))


def _add(known: dict[Any, Any], key: tuple[str, str], price: Any, where: str) -> None:
    if key in known:
        raise Malformed(f"{where}: {key[1]} in {key[0]} is listed twice.")
    known[key] = price


def _day(path: str, value: Any) -> str:
    try:
        return datetime.date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise wrong(path, "a day such as 2026-11-20", value) from None


_SIZE = record(
    {"region": text, "size": text, "hourly": optional(_PRICE), "spot_hourly": optional(_PRICE)}, ("region", "size")
)
_ONE_ITEM = record(
    {
        "region": text,
        "item": matching(_ITEM, f"{NAT_GATEWAY}, {PUBLIC_ADDRESS}, {SHARE_GIB}, {BASTION} or a disk such as disk_p10"),
        "hourly": _PRICE,
    },
    ("region", "item", "hourly"),
)
_FILE = record(
    {
        "schema": anything,
        "currency": matching("[A-Z]{3}", "three capital letters such as USD"),
        "date": _day,
        "source": text,
        "sizes": list_of(_SIZE),
        "items": list_of(_ONE_ITEM),
    },
    ("currency", "date"),
    defaults={"source": "a file without a source", "sizes": [], "items": []},
)
