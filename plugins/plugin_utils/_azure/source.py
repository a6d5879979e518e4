# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gets the hosts of one source: lists them or uses the cache, checks the result, and handles errors.

Ansible's cache plugins drop expired entries, but an old listing is still useful when Azure fails. Therefore entries in
the cache plugin never expire, and this module checks their age.
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

# Increase this number when the content of an answer changes, so that older answers are no longer used.
CACHE_VERSION = 2


class Store(Protocol):
    """The methods of Ansible's CachePluginAdjudicator that are used here."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value stored under ``key``."""

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a value, which :meth:`set_cache` then stores."""

    def set_cache(self) -> None:
        """Pass all values to the cache plugin."""


class CachedListing(NamedTuple):
    """An earlier answer and its time (seconds since 1970)."""

    answer: Listing
    fetched_at: float


class ListingCache:
    """Stores the last complete answer for one selection and identity.

    :param timeout: seconds after which an answer expires. 0 means never.
    """

    def __init__(self, store: Store, key: str, timeout: float, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._key = key
        self._timeout = timeout
        self._clock = clock

    def load(self) -> CachedListing | None:
        """Return the earlier answer, whatever its age is."""
        try:
            envelope = self._store.get(self._key)
        except Exception:  # cache plugins raise various errors for a truncated file, which counts as no entry
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
            # The entry was not written by this class.
            return None

    def is_fresh(self, kept: CachedListing) -> bool:
        """Say whether an answer may be used without new requests. An answer from the future is not trusted."""
        age = self._clock() - kept.fetched_at
        return age >= 0 and (self._timeout == 0 or age < self._timeout)

    def store(self, answer: Listing) -> CachedListing:
        """Store a complete answer."""
        now = self._clock()
        self._store[self._key] = {
            "version": CACHE_VERSION,
            "key": self._key,
            "fetched_at": now,
            "hosts": len(answer["instances"]),
            # One string, because Ansible's encoder handles each value separately, which takes seconds for 10,000 hosts.
            "answer": json.dumps(answer),
        }
        self._store.set_cache()
        return CachedListing(answer, now)


def cache_key(selection: Selection, cloud: Cloud, identity: Identity) -> str:
    """Return the cache key for this selection and identity. It contains no secret."""
    question = [CACHE_VERSION, asdict(selection), cloud.endpoint, identity.fingerprint()]
    digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
    return f"hpcai_azure_vmss_{digest[:32]}"


# A message with the first few errors is enough, for example if fifty scale sets fail.
_MOST_ERRORS = 5


class Outcome(NamedTuple):
    """The hosts of a source.

    :ivar problems: why they are not complete and current. Empty if they are.
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
    """Return the hosts of a source, from Azure or from the cache.

    :param ask: requests the answer from Azure.
    :param cache: where answers are stored, or None if they are not.
    :param remember: whether to use an earlier answer. It is false with --flush-cache.
    :raises InventoryError: there is no answer that the options allow.
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
    # Fail without any host, even with on_error: warn, because this is not a partial inventory.
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
    """Return problems of the number of hosts. None if a list call failed, because that explains the number."""
    if answer["errors"]:
        return []
    problems = []
    if len(hosts.hosts) < options.min_hosts:
        problems.append(f"{len(hosts.hosts)} hosts were found, min_hosts requires {options.min_hosts}.")
    if before and options.max_drop_percent is not None:
        was, now = len(before.answer["instances"]), len(answer["instances"])
        drop = 100.0 * (was - now) / was if was else 0.0
        if drop > options.max_drop_percent:
            problems.append(
                f"{now} instances were listed, {drop:.0f} % fewer than the {was} before; max_drop_percent allows "
                f"{options.max_drop_percent:g}. To accept this, run once with --flush-cache."
            )
    return problems


def _fall_back(options: Options, kept: CachedListing | None, problems: list[str]) -> Outcome:
    if options.on_error != USE_CACHE:
        raise InventoryError(_joined(problems))
    if kept is None:
        raise InventoryError(f"{_joined(problems)} There is no cached answer to use instead.")
    outcome = _outcome(options, kept, from_cache=True)
    return outcome._replace(problems=problems + outcome.problems)


def _joined(problems: list[str]) -> str:
    shown = " ".join(problems[:_MOST_ERRORS])
    more = len(problems) - _MOST_ERRORS
    return f"{shown} (and {more} more errors)" if more > 0 else shown
