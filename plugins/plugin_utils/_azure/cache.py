# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers that are kept, with an expiry of their own.

Ansible's cache plugins drop or refuse what has expired, but an old answer is still worth something when Azure gives
none: so the plugin underneath never expires anything, and the age is looked at here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol, cast

from .answer import Answer
from .cloud import Cloud
from .credentials import Identity
from .selection import Selection

# Raise it with every change to what an answer holds: older answers are then not read any more.
VERSION = 1


class Store(Protocol):
    """What is used of Ansible's CachePluginAdjudicator."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return what is kept under ``key``."""

    def __setitem__(self, key: str, value: Any) -> None:
        """Keep something until :meth:`set_cache`."""

    def set_cache(self) -> None:
        """Hand everything to the cache plugin."""


class Kept(NamedTuple):
    """An answer from earlier, and when it was given (seconds since 1970)."""

    answer: Answer
    fetched_at: float


class AnswerCache:
    """Keeps the last complete answer to one question.

    :param timeout: seconds after which an answer is old; 0 means never.
    """

    def __init__(self, store: Store, key: str, timeout: float, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._key = key
        self._timeout = timeout
        self._clock = clock

    def load(self) -> Kept | None:
        """Return the answer from earlier, however old it is."""
        try:
            envelope = self._store.get(self._key)
        except Exception:  # whatever a cache plugin raises for a file that was cut short: as good as nothing kept
            return None
        if not isinstance(envelope, dict) or envelope.get("version") != VERSION or envelope.get("key") != self._key:
            return None
        try:
            return Kept(cast(Answer, json.loads(envelope["answer"])), float(envelope["fetched_at"]))
        except (KeyError, TypeError, ValueError):
            # Kept by something else.
            return None

    def is_fresh(self, kept: Kept) -> bool:
        """Say whether an answer may be used without asking again. One from the future is not trusted."""
        age = self._clock() - kept.fetched_at
        return age >= 0 and (self._timeout == 0 or age < self._timeout)

    def store(self, answer: Answer) -> Kept:
        """Keep a complete answer."""
        now = self._clock()
        self._store[self._key] = {
            "version": VERSION,
            "key": self._key,
            "fetched_at": now,
            "hosts": len(answer["instances"]),
            # One string: Ansible's encoder walks through everything else value by value, seconds for 10,000 hosts.
            "answer": json.dumps(answer),
        }
        self._store.set_cache()
        return Kept(answer, now)


def cache_key(selection: Selection, cloud: Cloud, identity: Identity) -> str:
    """Return the name of what this identity is answered to this question. It holds no secret."""
    question = [VERSION, asdict(selection), cloud.endpoint, identity.fingerprint()]
    digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
    return f"hpcai_azure_vmss_{digest[:32]}"
