# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One source from its options to its hosts: list or use the cache, check, and decide what an error is worth.

Ansible's cache plugins drop or refuse what has expired, but an old listing is still useful when Azure fails: so the
plugin underneath never expires anything, and the age is checked here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol, cast

from .credentials import Cloud, Identity
from .errors import InventoryError
from .facts import Listing
from .hosts import Hosts, make_hosts
from .options import FAIL, USE_CACHE, Options
from .selection import Selection

# Raise it with every change to what an answer holds: older answers are then not read any more.
CACHE_VERSION = 1


class Store(Protocol):
    """What is used of Ansible's CachePluginAdjudicator."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return what is kept under ``key``."""

    def __setitem__(self, key: str, value: Any) -> None:
        """Keep something until :meth:`set_cache`."""

    def set_cache(self) -> None:
        """Hand everything to the cache plugin."""


class CachedListing(NamedTuple):
    """An answer from earlier, and when it was given (seconds since 1970)."""

    answer: Listing
    fetched_at: float


class ListingCache:
    """Keeps the last complete answer to one question.

    :param timeout: seconds after which an answer is old; 0 means never.
    """

    def __init__(self, store: Store, key: str, timeout: float, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._key = key
        self._timeout = timeout
        self._clock = clock

    def load(self) -> CachedListing | None:
        """Return the answer from earlier, however old it is."""
        try:
            envelope = self._store.get(self._key)
        except Exception:  # whatever a cache plugin raises for a file that was cut short: as good as nothing kept
            return None
        if (
            not isinstance(envelope, dict)
            or envelope.get("version") != CACHE_VERSION
            or envelope.get("key") != self._key
        ):
            return None
        try:
            return CachedListing(cast(Listing, json.loads(envelope["answer"])), float(envelope["fetched_at"]))
        except (KeyError, TypeError, ValueError):
            # Kept by something else.
            return None

    def is_fresh(self, kept: CachedListing) -> bool:
        """Say whether an answer may be used without asking again. One from the future is not trusted."""
        age = self._clock() - kept.fetched_at
        return age >= 0 and (self._timeout == 0 or age < self._timeout)

    def store(self, answer: Listing) -> CachedListing:
        """Keep a complete answer."""
        now = self._clock()
        self._store[self._key] = {
            "version": CACHE_VERSION,
            "key": self._key,
            "fetched_at": now,
            "hosts": len(answer["instances"]),
            # One string: Ansible's encoder walks through everything else value by value, seconds for 10,000 hosts.
            "answer": json.dumps(answer),
        }
        self._store.set_cache()
        return CachedListing(answer, now)


def cache_key(selection: Selection, cloud: Cloud, identity: Identity) -> str:
    """Return the name of what this identity is answered to this question. It holds no secret."""
    question = [CACHE_VERSION, asdict(selection), cloud.endpoint, identity.fingerprint()]
    digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
    return f"hpcai_azure_vmss_{digest[:32]}"


# An error that names fifty scale sets helps nobody more than one that names the first few.
_MOST_ERRORS = 5


class Outcome(NamedTuple):
    """What a source brought.

    :ivar problems: why it is not complete and current; empty when it is.
    """

    answer: Listing
    hosts: Hosts
    fetched_at: float
    from_cache: bool
    problems: list[str]


def read_source(
    options: Options,
    ask: Callable[[], Listing],
    cache: ListingCache | None,
    *,
    remember: bool = True,
    clock: Callable[[], float] = time.time,
) -> Outcome:
    """Return what a source brings, by itself or from the cache.

    :param ask: asks Azure.
    :param cache: where answers are kept; None if they are not.
    :param remember: whether an earlier answer counts for anything (it does not with --flush-cache).
    :raises InventoryError: there is no answer that the options allow to be used.
    """
    kept = cache.load() if cache and remember else None
    if cache and kept and cache.is_fresh(kept):
        outcome = _outcome(options, kept, from_cache=True)
        if not outcome.problems:
            return outcome
    try:
        answer = ask()
    except InventoryError as error:
        return _fall_back(options, kept, [str(error)])
    outcome = _outcome(options, CachedListing(answer, clock()), from_cache=False, before=kept)
    if not outcome.problems:
        if cache:
            cache.store(answer)
        return outcome
    # An inventory without any host is no partial one, whatever on_error says.
    if options.on_error in (FAIL, USE_CACHE) or not outcome.hosts.hosts:
        return _fall_back(options, kept, outcome.problems)
    return outcome


def _outcome(
    options: Options, kept: CachedListing, *, from_cache: bool, before: CachedListing | None = None
) -> Outcome:
    hosts = make_hosts(kept.answer, options.connection, options.hostnames, options.wants)
    problems = [*kept.answer["errors"], *_too_few(options, kept.answer, hosts, before)]
    return Outcome(kept.answer, hosts, kept.fetched_at, from_cache, problems)


def _too_few(options: Options, answer: Listing, hosts: Hosts, before: CachedListing | None) -> list[str]:
    """Return what is wrong with the number of hosts. A list that failed explains it already."""
    if answer["errors"]:
        return []
    problems = []
    if len(hosts.hosts) < options.min_hosts:
        problems.append(f"{len(hosts.hosts)} hosts were found, min_hosts wants {options.min_hosts}.")
    if before and options.max_drop_percent is not None:
        was, now = len(before.answer["instances"]), len(answer["instances"])
        drop = 100.0 * (was - now) / was if was else 0.0
        if drop > options.max_drop_percent:
            problems.append(
                f"{now} instances were listed, {drop:.0f} % less than the {was} of last time; max_drop_percent allows "
                f"{options.max_drop_percent:g}. If it is meant, run once with --flush-cache."
            )
    return problems


def _fall_back(options: Options, kept: CachedListing | None, problems: list[str]) -> Outcome:
    if options.on_error != USE_CACHE:
        raise InventoryError(_joined(problems))
    if kept is None:
        raise InventoryError(f"{_joined(problems)} There is no earlier answer to use instead.")
    outcome = _outcome(options, kept, from_cache=True)
    return outcome._replace(problems=problems + outcome.problems)


def _joined(problems: list[str]) -> str:
    shown = " ".join(problems[:_MOST_ERRORS])
    more = len(problems) - _MOST_ERRORS
    return f"{shown} (and {more} more errors)" if more > 0 else shown
