# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log of the received requests."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

KEPT = 20_000
"""How many of the latest requests are kept. The counts include all."""


class RequestLog:
    """A log of requests with the status of their answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()

    def add(self, method: str, path: str, query: str, status: int, **more: str) -> None:
        """Add a request, without headers and bodies, because they contain tokens and secrets."""
        with self._lock:
            self._entries.append({"method": method, "path": path, "query": query, "status": status, **more})
            self._counts[f"{method} {path}"] += 1
            if len(self._entries) > KEPT:
                del self._entries[: KEPT // 2]

    def clear(self) -> None:
        """Delete all entries and counts."""
        with self._lock:
            self._entries.clear()
            self._counts.clear()

    def document(self) -> dict[str, Any]:
        """The complete log: ``total``, ``counts`` by method and path, and the ``requests`` in order."""
        with self._lock:
            return {
                "total": sum(self._counts.values()),
                "counts": dict(self._counts),
                "requests": list(self._entries),
            }
