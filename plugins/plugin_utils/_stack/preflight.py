# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight report: all verdicts, the worst first, and the cost, as a document and as a table. Pure."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.verdict import FAIL, PASS, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import PriceList

from .._azure.errors import printable
from .._report.gather import STATES
from .._report.text import aligned
from .cost import Cost, Sum
from .preflight_facts import Answer, Facts, Verdict
from .preflight_machines import HARDWARE, IMAGE, QUOTA, SIZE, STOCK, judge_images, judge_quota, judge_sizes
from .preflight_needs import Needs
from .preflight_scope import (
    LOCKS,
    NAMES,
    POLICIES,
    PROVIDERS,
    RESOURCES,
    RIGHTS,
    ROLE_RIGHTS,
    SUBNET,
    SUBSCRIPTION,
    VALIDATION,
    judge_locks,
    judge_names,
    judge_providers,
    judge_resources,
    judge_rights,
    judge_subnets,
    judge_subscription,
    judge_validation,
)

SCHEMA = 1
"""Schema of the report. Increase it when readers of the old form would misread the new one."""
COST = "cost"
CHECKS = (
    SUBSCRIPTION,
    RIGHTS,
    ROLE_RIGHTS,
    PROVIDERS,
    RESOURCES,
    QUOTA,
    SIZE,
    HARDWARE,
    IMAGE,
    SUBNET,
    NAMES,
    LOCKS,
    VALIDATION,
    POLICIES,
    COST,
)
"""All checks, in the order in which they are listed within one verdict."""
OLD_PRICES_DAYS = 90


def judge(needs: Needs, facts: Facts, described: Mapping[str, Any] | None, cost: Verdict) -> list[Verdict]:
    """Return all verdicts, the worst first.

    :param described: VM sizes described by hand (``hpcai_vm_sizes``).
    :param cost: the verdict of the cost.
    """
    verdicts = [judge_subscription(needs, facts), cost]
    if facts.subscription.value is None:
        words = "not checked, because the subscription cannot be read"
        verdicts += [Verdict(check, "-", UNKNOWN, words) for check in CHECKS if check not in (SUBSCRIPTION, COST)]
    else:
        verdicts += judge_rights(needs, facts)
        verdicts += judge_providers(needs, facts)
        verdicts += judge_resources(needs, facts)
        verdicts += judge_quota(needs, facts)
        verdicts += judge_sizes(needs, facts, described)
        verdicts += judge_images(needs, facts)
        verdicts += judge_subnets(needs, facts)
        verdicts += judge_names(needs, facts)
        verdicts += judge_locks(needs, facts)
        verdicts += judge_validation(needs, facts)
    return sorted(verdicts, key=lambda one: (STATES.index(one.verdict), CHECKS.index(one.check)))


def judge_cost(cost: Cost, answer: Answer[PriceList], today: datetime.date) -> Verdict:
    """Return whether the cost is known. A cost is never a failure.

    :param answer: the prices of the cost; without a value if there is no price file.
    """
    if answer.problem:
        return answer.unknown(COST, "per day", "the price API")
    prices = answer.value
    if prices is None:
        action = "Give a price file (price_file), or let it be fetched once (fetch_prices: if_missing)."
        return Verdict(COST, "per day", UNKNOWN, "there is no price file, so no cost is known", action=action)
    value = f"{_range(cost.total)} {cost.currency} per day"
    source = f"{cost.source}, list prices of {cost.date}"
    if cost.unknown:
        summary = f"{value}; without {len(cost.unknown)} unknown prices: {', '.join(cost.unknown)}"
        action = "Add these prices to the price file, or fetch it again (fetch_prices: always)."
        return Verdict(COST, "per day", UNKNOWN, summary, value, "", source, action)
    if prices.age_days(today) > OLD_PRICES_DAYS:
        summary = f"{value}, with prices that are {prices.age_days(today)} days old"
        action = "Fetch the prices again (fetch_prices: always)."
        return Verdict(COST, "per day", WARN, summary, value, f"{OLD_PRICES_DAYS} days", source, action)
    return Verdict(COST, "per day", PASS, f"{value} at list prices", value, "", source)


def worst(verdicts: Iterable[Verdict]) -> str:
    """Return the worst verdict."""
    return min((one.verdict for one in verdicts), key=STATES.index, default=UNKNOWN)


def document(needs: Needs, name: str, verdicts: Sequence[Verdict], cost: Cost) -> dict[str, Any]:
    """Return the report. It contains no time, so that the same answers give the same report.

    :param name: the stack's name.
    """
    counts = Counter(one.verdict for one in verdicts)
    return {
        "schema": SCHEMA,
        "stack": name,
        "subscription": needs.subscription,
        "resource_group": needs.group,
        "location": needs.location,
        "verdict": worst(verdicts),
        "counts": {state: counts[state] for state in STATES if counts[state]},
        "checks": [one.as_dict() for one in verdicts],
        "cost": cost.as_dict(),
    }


def table(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of the report for a terminal: all verdicts, what to do, and the cost."""
    checks = report["checks"]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report["counts"].items())
    lines = [f"Preflight of {report['stack']} in {report['location']}: {counts}. {STOCK}", ""]
    rows = [("VERDICT", "CHECK", "ABOUT", "FOUND")]
    rows += [(one["verdict"], one["check"], printable(one["about"]), printable(one["summary"])) for one in checks]
    lines += aligned(rows)
    open_points = [one for one in checks if one["action"] and one["verdict"] in (FAIL, UNKNOWN, WARN)]
    if open_points:
        lines += ["", "To do:"]
        lines += [f"  {one['verdict']} {one['check']} {printable(one['about'])}: {_text(one)}" for one in open_points]
    return [*lines, "", *cost_table(report["cost"])]


def _text(check: Mapping[str, Any]) -> str:
    # Not shortened, because it is copied.
    return printable(check["action"])


def cost_table(cost: Mapping[str, Any]) -> list[str]:
    """Return the lines of the cost per day, by set."""
    if not cost["currency"]:
        return ["Cost: unknown, because there is no price file."]
    rows = [("COST PER DAY", "SMALLEST", "LARGEST", "OF WHICH")]
    for owner, of_owner in cost["by_owner"].items():
        lines = [line for line in cost["lines"] if line["owner"] == owner]
        rows.append((owner, *_both(Sum(**of_owner)), ", ".join(map(_piece, lines))))
    rows.append(("total", *_both(Sum(**cost["total"])), f"{cost['currency']}, list prices of {cost['date']}"))
    return [*aligned(rows), f"Not included: {'; '.join(cost['not_included'])}."]


def _both(of: Sum) -> tuple[str, str]:
    return _amount(of.least, of.least_complete), _amount(of.most, of.most_complete)


def _amount(amount: float, complete: bool) -> str:
    """Return an amount; an incomplete one as a lower bound, and one of which nothing is known as unknown."""
    if complete:
        return f"{amount:,.2f}"
    return f"at least {amount:,.2f}" if amount > 0 else "unknown"


def _range(total: Sum) -> str:
    return f"{_amount(total.least, total.least_complete)} to {_amount(total.most, total.most_complete)}"


def _piece(line: Mapping[str, Any]) -> str:
    price = "price unknown" if line["hourly"] is None else f"{line['hourly']:.4g}/h"
    return f"{line['least']} to {line['most']} x {line['what']} ({price})"
