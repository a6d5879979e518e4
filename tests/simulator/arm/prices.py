# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List prices, as Azure's public Retail Prices API returns them: without a token, in pages, selected by $filter.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, jsonify, request

from simulator.arm.context import context
from simulator.arm.errors import bad_parameter
from simulator.arm.paging import base_url, query

blueprint = Blueprint("prices", __name__)
PATH = "/api/retail/prices"
_TOKEN = re.compile(r"\s*(?:(?P<sign>[()])|(?P<word>and|or)\b|(?P<name>\w+) eq '(?P<value>[^']*)')\s*")
_FIELDS = {
    **dict.fromkeys(("armRegionName", "armSkuName", "meterName", "productName", "serviceName", "skuName"), ""),
    "currencyCode": "USD",
    "isPrimaryMeterRegion": True,
    "retailPrice": 0.0,
    "tierMinimumUnits": 0.0,
    "type": "Consumption",
    "unitOfMeasure": "1 Hour",
}
"""The fields of a price, with the values that a price of ``limits.prices`` need not state."""
Row = Mapping[str, Any]
Test = Callable[[Row], bool]


@blueprint.get(PATH)
def show() -> Response:
    """A page of prices."""
    currency = request.args.get("currencyCode", "'USD'").strip("'")
    wanted = _Filter(request.args["$filter"]).test if "$filter" in request.args else lambda _row: True
    rows = [{**_FIELDS, **row} for row in context().model.limits.prices]
    found = [row for row in rows if row["currencyCode"] == currency and wanted(row)]
    start, size = int(query().get("$skip", 0)), context().options.price_page_size
    shown, link = found[start : start + size], None
    if start + size < len(found):
        kept = {name: value for name, value in request.args.items() if name != "$skip"}
        link = f"{base_url()}{PATH}?{urlencode({**kept, '$skip': start + size})}"
    head = {"BillingCurrency": currency, "CustomerEntityId": "Default", "CustomerEntityType": "Retail"}
    return jsonify({**head, "Items": shown, "NextPageLink": link, "Count": len(shown)})


class _Filter:
    """Comparisons of fields with texts, joined by and, or, and parentheses. The API compares with case."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.test = self._any()
        if self._at != len(text):
            raise self._invalid()

    def _invalid(self) -> Exception:
        return bad_parameter("$filter", f"not understood at {self._text[self._at :][:40]!r}")

    def _next(self, **expected: str) -> re.Match[str] | None:
        """The next token, if it is the expected one."""
        found = _TOKEN.match(self._text, self._at)
        if found is None or any(found[group] != value for group, value in expected.items()):
            return None
        self._at = found.end()
        return found

    def _any(self) -> Test:
        tests = [self._all()]
        while self._next(word="or"):
            tests.append(self._all())
        return lambda row: any(test(row) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._next(word="and"):
            tests.append(self._one())
        return lambda row: all(test(row) for test in tests)

    def _one(self) -> Test:
        if self._next(sign="("):
            test = self._any()
            if not self._next(sign=")"):
                raise self._invalid()
            return test
        found = self._next()
        # The filter has another name for the field "type".
        name = {"priceType": "type"}.get(found["name"], found["name"]) if found and found["name"] else ""
        if found is None or name not in _FIELDS:
            raise self._invalid()
        return lambda row: str(row[name]) == found["value"]
