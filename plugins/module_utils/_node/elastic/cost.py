# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What elastic nodes cost: node-hours by set, use, user and account, and the list price of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..forms import Malformed
from ..machine.atomic import write_file
from ..machine.root import Root
from ..sku import prices
from .book import JOINED, LEASED, Book
from .settings import STATE_FOLDER, Settings
from .views import SlurmView

FILE = f"{STATE_FOLDER}/cost.json"
SCHEMA = 1
KEPT_DAYS = 400
WORK, IDLE, BOOTING, LEAVING, FAILED = USES = ("work", "idle", "booting", "leaving", "failed")
"""What a machine does: it runs jobs, waits for one, has not joined yet, leaves, or never joined. Instances without a
lease count as failed too. All but the first is waste."""
LONGEST_STEP_S = 900.0
"""Longer gaps between two passes are not counted: the daemon did not run, and does not know what the machines did."""

Hours = dict[str, float]


@dataclass
class Day:
    """One day in UTC, in node-hours.

    :ivar sets: by set and use.
    :ivar users: by set and user.
    """

    sets: dict[str, Hours] = field(default_factory=dict)
    users: dict[str, Hours] = field(default_factory=dict)


@dataclass
class Ledger:
    """All days, by date."""

    days: dict[str, Day] = field(default_factory=dict)


def add(ledger: Ledger, book: Book, slurm: SlurmView | None, settings: Settings, now: float, seconds: float) -> None:
    """Count the time since the last pass.

    :param slurm: None if slurmctld did not answer: machines cost the same, but count as idle.
    """
    hours = min(max(0.0, seconds), LONGEST_STEP_S) / 3600
    day = ledger.days.setdefault(date_of(now), Day())
    jobs = slurm.jobs_by_slot() if slurm else {}
    for lease in book.leases.values():
        name, node = settings.owner_of(lease.slot), slurm.nodes.get(lease.slot) if slurm else None
        if name is None:
            continue
        running = [job for job in jobs.get(lease.slot, []) if job.state != "CONFIGURING"]
        if lease.slot in book.failures:
            use = FAILED
        elif lease.state == LEASED:
            use = BOOTING
        elif lease.state == JOINED and (slurm is None or (node is not None and not node.away)):
            use = WORK if running else IDLE
        else:
            use = LEAVING
        by_use = day.sets.setdefault(name, {})
        by_use[use] = by_use.get(use, 0.0) + hours
        for job in running if use == WORK else []:
            by_user = day.users.setdefault(name, {})
            by_user[job.user] = by_user.get(job.user, 0.0) + hours / len(running)
    for name in settings.sets:
        strangers = len(book.of(name).strangers)
        if strangers:
            by_use = day.sets.setdefault(name, {})
            by_use[FAILED] = by_use.get(FAILED, 0.0) + hours * strangers


def date_of(now: float) -> str:
    """Return the date in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(now))


@dataclass(frozen=True)
class Prices:
    """What a node of each set costs for an hour.

    :ivar of_set: by set; a set whose price is not known is missing.
    :ivar currency: of the price file; empty if the prices are stated by hand.
    :ivar date: the day of the price file; empty without one.
    :ivar problem: why the price file cannot be read; empty if it can.
    """

    of_set: Mapping[str, float]
    currency: str = ""
    date: str = ""
    problem: str = ""


def read_prices(root: Root, settings: Settings) -> Prices:
    """Return the price of each set: the stated one, else that of the price file."""
    listed, problem = None, ""
    if settings.prices:
        content = root.text(settings.prices)
        try:
            listed = prices.read_prices(content, settings.prices) if content is not None else None
        except Malformed as error:
            problem = str(error)
        if content is None:
            problem = f"{settings.prices}: no such file"
    found: dict[str, float] = {}
    for name, one in settings.sets.items():
        price = one.price
        if price is None and listed is not None and one.vm_size:
            price = listed.of_size(settings.region, one.vm_size, one.spot)
        if price is not None:
            found[name] = price
    return Prices(found, listed.currency if listed else "", listed.date if listed else "", problem)


def spent(ledger: Ledger, known: Prices, since: str, until: str) -> float:
    """Return the price of all nodes from a date to another one; sets without a price cost nothing."""
    total = 0.0
    for date, day in ledger.days.items():
        if since <= date <= until:
            for name, by_use in day.sets.items():
                total += sum(by_use.values()) * known.of_set.get(name, 0.0)
    return total


def why_stopped(ledger: Ledger, settings: Settings, known: Prices, now: float) -> str:
    """Return why nothing may grow because of the budget; empty if it may."""
    today, budget = date_of(now), settings.budget
    for limit, since, words in ((budget.day, today, "daily"), (budget.month, f"{today[:7]}-01", "monthly")):
        if limit is not None:
            # A clock that was ahead has left hours on days to come.
            cost = spent(ledger, known, since, today)
            if cost >= limit:
                return f"the {words} budget of {limit:g} is used up ({cost:.2f} at list prices)"
    return ""


def summary(
    ledger: Ledger, known: Prices, since: str, accounts: Mapping[str, Mapping[str, float]] | None = None
) -> dict[str, Any]:
    """Return node-hours and their price from a date on, as plain values.

    :param accounts: node-hours by set and account, from slurmdbd; None if they are not known.
    """
    sets: dict[str, Hours] = {}
    users: dict[str, tuple[float, float]] = {}
    for date, day in ledger.days.items():
        if date < since:
            continue
        for name, by_use in day.sets.items():
            total = sets.setdefault(name, dict.fromkeys(USES, 0.0))
            for use, hours in by_use.items():
                total[use] = total.get(use, 0.0) + hours
        for name, by_user in day.users.items():
            for user, hours in by_user.items():
                had, cost = users.get(user, (0.0, 0.0))
                users[user] = (had + hours, cost + hours * known.of_set.get(name, 0.0))
    return {
        "since": since,
        "currency": known.currency,
        "prices_of": known.date,
        "problem": known.problem,
        "sets": {
            name: {**{use: round(hours, 3) for use, hours in by_use.items()}, "cost": _cost(known, name, by_use)}
            for name, by_use in sorted(sets.items())
        },
        "users": [
            {"user": user, "hours": round(hours, 3), "cost": round(cost, 2)}
            for user, (hours, cost) in sorted(users.items(), key=lambda one: -one[1][0])
        ],
        "accounts": None if accounts is None else _by_account(accounts, known),
    }


def _by_account(accounts: Mapping[str, Mapping[str, float]], known: Prices) -> list[dict[str, Any]]:
    totals: dict[str, tuple[float, float]] = {}
    for name, by_account in accounts.items():
        for account, hours in by_account.items():
            had, cost = totals.get(account, (0.0, 0.0))
            totals[account] = (had + hours, cost + hours * known.of_set.get(name, 0.0))
    return [
        {"account": account, "hours": round(hours, 3), "cost": round(cost, 2)}
        for account, (hours, cost) in sorted(totals.items(), key=lambda one: -one[1][0])
    ]


def _cost(known: Prices, name: str, by_use: Hours) -> float | None:
    price = known.of_set.get(name)
    return None if price is None else round(price * sum(by_use.values()), 2)


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return a summary as lines for people."""
    source = f"{found['currency']}, list prices of {found['prices_of']}" if found["prices_of"] else "stated prices"
    made = [f"node-hours since {found['since']} ({source}):"]
    if found["problem"]:
        made.append(f"problem: {found['problem']}")
    for name, by_use in found["sets"].items():
        total = sum(by_use[use] for use in USES)
        waste = total - by_use[WORK]
        cost = "price not known" if by_use["cost"] is None else f"{by_use['cost']:.2f}"
        made.append(
            f"{name}: {total:.1f} h ({cost}): {by_use[WORK]:.1f} h with jobs; without: {by_use[IDLE]:.1f} h idle, "
            f"{by_use[BOOTING]:.1f} h booting, {by_use[LEAVING]:.1f} h leaving, {by_use[FAILED]:.1f} h failed "
            f"({_share(waste, total)})"
        )
    made += [f"user {one['user']}: {one['hours']:.1f} h, {one['cost']:.2f}" for one in found["users"]]
    made += [f"account {one['account']}: {one['hours']:.1f} h, {one['cost']:.2f}" for one in found["accounts"] or ()]
    return made if found["sets"] else [*made, "none"]


def _share(part: float, total: float) -> str:
    return f"{100 * part / total:.0f} %" if total else "0 %"


def read(root: Root, path: str = FILE) -> Ledger:
    """Return the ledger; an empty one if there is none, or if it is damaged."""
    return _parsed(root.text(path) or "{}") or Ledger()


def set_aside(root: Root, path: str = FILE) -> str:
    """Move a file that cannot be read out of the way, because ``write`` would replace it; return a message then."""
    text = root.text(path)
    if text is None or _parsed(text) is not None:
        return ""
    os.replace(root.at(path), root.at(f"{path}.unreadable"))
    return f"{path} cannot be read; it was moved to {path}.unreadable. Costs and budgets are counted from now on only"


def _parsed(text: str) -> Ledger | None:
    try:
        held = json.loads(text)
        if held["schema"] != SCHEMA:
            return None
        return Ledger({date: Day(_hours(one["sets"]), _hours(one["users"])) for date, one in held["days"].items()})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _hours(held: Mapping[str, Mapping[str, Any]]) -> dict[str, Hours]:
    return {name: {str(key): float(hours) for key, hours in one.items()} for name, one in held.items()}


def write(root: Root, ledger: Ledger, path: str = FILE) -> None:
    """Write the ledger.

    :raises OSError: it cannot be written.
    """
    for date in sorted(ledger.days)[:-KEPT_DAYS]:
        del ledger.days[date]
    days = {date: {"sets": day.sets, "users": day.users} for date, day in ledger.days.items()}
    write_file(root.at(path), json.dumps({"schema": SCHEMA, "days": days}, sort_keys=True) + "\n", mode=0o640)
