# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""When Azure has to be asked: at once if Slurm shows a change, rarely if nothing happens. Its requests are counted."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from .book import DELETING, JOINED, LEASED, LEAVING, Book
from .decide import idle_since
from .settings import Settings
from .views import SlurmView

STEADY_S, EMPTY_S = 120.0, 300.0
"""Seconds between two readings while nothing changes, at least: of a set with nodes, and of one without."""
_PAGE, _MINUTE_S = 120, 60.0
"""Instances on a page of Azure's list, and for how long one request counts while nothing changes and no job runs: all
sets together may send one in a minute."""
FIRST_S, LONGEST_S = 5.0, 60.0
"""Seconds between two readings while something is expected: the interval doubles with each."""
_ERROR_S = 15.0
_LONGEST_THROTTLED_S = 600.0
_LEAST_S = 2.0


@dataclass
class Reading:
    """How and when a set was read last.

    :ivar at: when it was read, in seconds since the epoch; 0 if never.
    :ivar every_s: interval to the next one, while something is expected.
    :ivar signature: what Slurm and the book showed at that time.
    :ivar not_before: Azure asked to wait until then.
    :ivar throttled: how many readings in a row Azure has refused because of too many requests.
    """

    at: float = 0.0
    every_s: float = FIRST_S
    signature: object = None
    not_before: float = 0.0
    throttled: int = 0

    @property
    def is_failing(self) -> bool:
        """Whether Azure did not answer the last reading, or asked to wait."""
        return self.not_before > self.at

    def noted(self, now: float, name: str, settings: Settings, slurm: SlurmView, book: Book) -> None:
        """Note a complete reading, after the book was brought up to date with it."""
        signature = _signature(name, settings, slurm, book)
        self.every_s = FIRST_S if signature != self.signature else min(LONGEST_S, self.every_s * 2)
        self.at, self.signature, self.throttled = now, signature, 0

    def failed(self, now: float, retry_s: float) -> None:
        """Note that Azure did not answer, or asked to wait.

        A reading needs several requests, but Azure says when it accepts one. If each reading began then, it might never
        get through all of them, so the time doubles with each refusal in a row.
        """
        longer_s = min(_LONGEST_THROTTLED_S, retry_s * 2 ** min(self.throttled, 10))
        self.throttled += bool(retry_s)
        self.not_before = now + max(_ERROR_S, retry_s, longer_s)


def next_s(name: str, settings: Settings, book: Book, reading: Reading, now: float) -> float:
    """Return after how many seconds the set has to be read again because something is expected; else infinity."""
    if not reading.at or not _expects(name, settings, book):
        return math.inf
    return max(reading.at + reading.every_s, reading.not_before) - now


def why_read(name: str, settings: Settings, slurm: SlurmView, book: Book, reading: Reading, now: float) -> str:
    """Return why the set has to be read now; empty if it need not."""
    if now < reading.not_before:
        return ""
    age = now - reading.at
    if not reading.at or age < 0:
        return "it was not read yet"
    if age < _LEAST_S:
        return ""
    if _signature(name, settings, slurm, book) != reading.signature:
        return "Slurm or the book shows a change"
    if _is_due(name, settings, slurm, book, now):
        return "a deadline has passed"
    if _expects(name, settings, book):
        return "something is expected" if age >= reading.every_s else ""
    counts = Counter(settings.owner_of(slot) for slot in book.leases)
    # A reading is a request for the set, and one for each page of its instances.
    requests = sum(1 + max(1, math.ceil(counts[one] / _PAGE)) for one in settings.sets)
    # A job on a machine that Azure has deleted, and whose node Slurm has not asked yet, must not wait for other sets.
    at_least = 0.0 if _has_job(name, settings, slurm, book) else requests * _MINUTE_S
    return "it is time" if age >= max(STEADY_S if counts[name] else EMPTY_S, at_least) else ""


def _has_job(name: str, settings: Settings, slurm: SlurmView, book: Book) -> bool:
    nodes = (slurm.nodes.get(slot) for slot in settings.followed(name, book.leases) if slot in book.leases)
    return any(node is not None and node.in_use for node in nodes)


def _signature(name: str, settings: Settings, slurm: SlurmView, book: Book) -> object:
    """Return what of Slurm's answer makes it necessary to ask Azure. That a node joins does not."""
    shown: list[tuple[object, ...]] = []
    for slot in settings.followed(name, book.leases):
        node = slurm.nodes.get(slot)
        if node is None:
            continue
        lease = book.leases.get(slot)
        if lease is None:
            shown.append((slot, node.coming and slot not in book.failures, node.joined, node.down, node.is_stuck))
        elif lease.state in (LEASED, JOINED):
            is_joined = lease.state == JOINED
            held = (is_joined and node.coming, is_joined and node.silent, node.away, node.down)
            # A machine that retires is drained when it joins.
            retires = (lease.retire, lease.state) if lease.retire else ()
            shown.append((slot, *held, *retires, node.is_retired))
    record = book.of(name)
    return (tuple(shown), record.paused, record.closed is None)


def _expects(name: str, settings: Settings, book: Book) -> bool:
    """Whether Azure is expected to change something."""
    record = book.of(name)
    if any(one.set == name for one in book.orders) or record.strangers or record.missing_capacity:
        return True
    return any(
        (slot in book.leases and (book.leases[slot].state in (LEAVING, DELETING) or book.leases[slot].missing))
        or (slot in book.wanted and slot not in book.leases)
        or slot in book.stray
        for slot in settings.followed(name, book.leases)
    )


def _is_due(name: str, settings: Settings, slurm: SlurmView, book: Book, now: float) -> bool:
    """Whether a set opens, a slot is offered again, or a node has been idle for long enough."""
    record, options = book.of(name), settings.sets[name]
    if record.closed and record.closed.until and now >= record.closed.until:
        return True
    leases = 0
    due = False
    for slot in settings.followed(name, book.leases):
        failure, lease, node = book.failures.get(slot), book.leases.get(slot), slurm.nodes.get(slot)
        if failure and failure.until and now >= failure.until:
            return True
        if lease is None or node is None:
            continue
        leases += 1
        if lease.retire and node.is_retired and not node.in_use and not node.away:
            return True
        is_late = lease.state == LEASED and now - lease.granted > options.boot_s
        if is_late and not node.is_kept_by_people:
            return True
        if lease.state == JOINED and node.idle and slot not in book.keep:
            due = due or now - idle_since(node, lease, now) > options.idle_s
    return due and leases > options.min
