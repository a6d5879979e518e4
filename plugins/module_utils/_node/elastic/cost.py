# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What elastic nodes cost: node-hours by set, use and user, and the list price of them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..machine.atomic import write_file
from ..machine.root import Root
from .book import JOINED, LEASED, Book
from .settings import STATE_FOLDER, Settings
from .views import SlurmView

FILE = f"{STATE_FOLDER}/cost.json"
SCHEMA = 1
KEPT_DAYS = 400
WORK, IDLE, BOOTING, LEAVING = USES = ("work", "idle", "booting", "leaving")
"""What a machine does: it runs jobs, waits for one, has not joined yet, or leaves. All but the first is waste."""
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


def add(ledger: Ledger, book: Book, slurm: SlurmView, settings: Settings, now: float, seconds: float) -> None:
    """Count the time since the last pass."""
    hours = min(max(0.0, seconds), LONGEST_STEP_S) / 3600
    day = ledger.days.setdefault(date_of(now), Day())
    jobs = slurm.jobs_by_slot()
    for lease in book.leases.values():
        name, node = settings.set_of(lease.slot), slurm.nodes.get(lease.slot)
        if name is None:
            continue
        running = [job for job in jobs.get(lease.slot, []) if job.state != "CONFIGURING"]
        if lease.state == LEASED:
            use = BOOTING
        elif lease.state == JOINED and node is not None and not node.away:
            use = WORK if running else IDLE
        else:
            use = LEAVING
        by_use = day.sets.setdefault(name, {})
        by_use[use] = by_use.get(use, 0.0) + hours
        for job in running if use == WORK else []:
            by_user = day.users.setdefault(name, {})
            by_user[job.user] = by_user.get(job.user, 0.0) + hours / len(running)


def date_of(now: float) -> str:
    """Return the date in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(now))


def spent(ledger: Ledger, settings: Settings, since: str) -> float:
    """Return the list price of all nodes from a date on; sets without a price cost nothing."""
    total = 0.0
    for date, day in ledger.days.items():
        if date >= since:
            for name, by_use in day.sets.items():
                options = settings.sets.get(name)
                total += sum(by_use.values()) * ((options.price if options else None) or 0.0)
    return total


def why_stopped(ledger: Ledger, settings: Settings, now: float) -> str:
    """Return why nothing may grow because of the budget; empty if it may."""
    today, budget = date_of(now), settings.budget
    for limit, since, words in ((budget.day, today, "daily"), (budget.month, f"{today[:7]}-01", "monthly")):
        if limit is not None:
            cost = spent(ledger, settings, since)
            if cost >= limit:
                return f"the {words} budget of {limit:g} is used up ({cost:.2f} at list prices)"
    return ""


def summary(ledger: Ledger, settings: Settings, since: str) -> dict[str, Any]:
    """Return node-hours and list price from a date on, as plain values."""
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
                users[user] = (had + hours, cost + hours * (price_of(settings, name) or 0.0))
    return {
        "since": since,
        "sets": {
            name: {**{use: round(hours, 3) for use, hours in by_use.items()}, "cost": _cost(settings, name, by_use)}
            for name, by_use in sorted(sets.items())
        },
        "users": [
            {"user": user, "hours": round(hours, 3), "cost": round(cost, 2)}
            for user, (hours, cost) in sorted(users.items(), key=lambda one: -one[1][0])
        ],
    }


def price_of(settings: Settings, name: str) -> float | None:
    """Return the list price of a node of the set for an hour; None if it is not known."""
    options = settings.sets.get(name)
    return options.price if options else None


def _cost(settings: Settings, name: str, by_use: Hours) -> float | None:
    price = price_of(settings, name)
    return None if price is None else round(price * sum(by_use.values()), 2)


def lines(found: Mapping[str, Any]) -> list[str]:
    """Return a summary as lines for people."""
    made = [f"node-hours since {found['since']} (list price):"]
    for name, by_use in found["sets"].items():
        total = sum(by_use[use] for use in USES)
        waste = total - by_use[WORK]
        cost = "price not known" if by_use["cost"] is None else f"{by_use['cost']:.2f}"
        made.append(
            f"{name}: {total:.1f} h ({cost}): {by_use[WORK]:.1f} h with jobs; without: {by_use[IDLE]:.1f} h idle, "
            f"{by_use[BOOTING]:.1f} h booting, {by_use[LEAVING]:.1f} h leaving ({_share(waste, total)})"
        )
    made += [f"{one['user']}: {one['hours']:.1f} h, {one['cost']:.2f}" for one in found["users"]]
    return made if found["sets"] else [*made, "none"]


def _share(part: float, total: float) -> str:
    return f"{100 * part / total:.0f} %" if total else "0 %"


def read(root: Root, path: str = FILE) -> Ledger:
    """Return the ledger; an empty one if there is none, or if it is damaged."""
    try:
        held = json.loads(root.text(path) or "{}")
        if held.get("schema") != SCHEMA:
            return Ledger()
        return Ledger({date: Day(one["sets"], one["users"]) for date, one in held["days"].items()})
    except (ValueError, LookupError, TypeError, AttributeError):
        return Ledger()


def write(root: Root, ledger: Ledger, path: str = FILE) -> None:
    """Write the ledger.

    :raises OSError: it cannot be written.
    """
    for date in sorted(ledger.days)[:-KEPT_DAYS]:
        del ledger.days[date]
    days = {date: {"sets": day.sets, "users": day.users} for date, day in ledger.days.items()}
    write_file(root.at(path), json.dumps({"schema": SCHEMA, "days": days}, sort_keys=True) + "\n", mode=0o640)
