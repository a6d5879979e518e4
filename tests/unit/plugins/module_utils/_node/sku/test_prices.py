# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The price file: an unknown price is None, and a file that would make it 0 is refused."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import Malformed
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import PriceList, as_document, read_prices

FILE: dict[str, Any] = {
    "schema": 1,
    "currency": "USD",
    "date": "2026-11-20",
    "source": "the test",
    "sizes": [
        {"region": "WestEurope", "size": "nd96asr_v4", "hourly": 32.77, "spot_hourly": 9.83},
        {"region": "westeurope", "size": "Standard_D8s_v5", "hourly": 0.46},
    ],
    "items": [{"region": "westeurope", "item": "disk_p10", "hourly": 0.027}],
}


def read(**changes: Any) -> PriceList:
    """The prices of FILE with some keys changed."""
    return read_prices(json.dumps({**FILE, **changes}), "prices.json")


def test_finds_prices_by_any_spelling_of_region_and_size() -> None:
    assert read().of_size("westeurope", "Standard_ND96asr_v4") == 32.77
    assert read().of_size("westeurope", "Standard_ND96asr_v4", spot=True) == 9.83
    assert read().of_item("westeurope", "disk_p10") == 0.027


def test_a_price_that_is_not_in_the_file_is_unknown() -> None:
    assert read().of_size("northeurope", "Standard_ND96asr_v4") is None
    assert read().of_size("westeurope", "Standard_ND96isr_H100_v5") is None
    # The normal price is not used for spot.
    assert read().of_size("westeurope", "Standard_D8s_v5", spot=True) is None
    assert read().of_item("westeurope", "disk_p20") is None


def test_what_was_read_can_be_written_and_read_again() -> None:
    assert read_prices(json.dumps(as_document(read())), "again") == read()


def test_tells_how_old_the_prices_are() -> None:
    assert read().age_days(datetime.date(2026, 11, 26)) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [{"region": "a", "size": "b", "hourly": 0}]}, "sizes[0].hourly must be a number above 0"),
        ({"sizes": [{"region": "a", "size": "b", "hourly": "1"}]}, "sizes[0].hourly must be a number above 0"),
        ({"sizes": [{"region": "a", "size": "b", "hourly": float("nan")}]}, "sizes[0].hourly must be a number above 0"),
        ({"sizes": [{"region": "a", "size": "b", "price": 1}]}, "sizes[0] has unknown keys price"),
        ({"sizes": [FILE["sizes"][1], FILE["sizes"][1]]}, "sizes[1]: Standard_D8s_v5 in westeurope is listed twice."),
        ({"items": [{"region": "a", "item": "disk_p10"}]}, "items[0] lacks hourly"),
        ({"items": [{"region": "a", "item": "nat", "hourly": 1}]}, "items[0].item must be nat_gateway"),
        ({"schema": 2}, "schema must be 1"),
        ({"date": "20.11.2026"}, "date must be a day"),
        ({"currency": "$"}, "currency must be three capital letters"),
        ({"what": 1}, "unknown keys what"),
    ],
)
def test_refuses_a_file_in_another_form(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Malformed, match=r"^prices\.json: ") as raised:
        read(**changes)
    assert message in str(raised.value)


@pytest.mark.parametrize("content", ["", "[]", "{", "null"])
def test_refuses_what_is_not_a_price_file(content: str) -> None:
    with pytest.raises(Malformed, match=r"^prices\.json: "):
        read_prices(content, "prices.json")
