# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The secrets that the service itself needs: user-delegation keys, kept in memory only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...machine.azure import LONGEST_S, STORAGE, Account, DelegationKey, StorageError, delegation_key
from ...machine.imds import ImdsError, read_token

TOKEN_LIMIT_S = 10.0
_REPEATED_S = 5.0
"""A failure answers the questions of the next seconds too, so that an account that does not answer is asked once."""


class Unavailable(RuntimeError):
    """Azure did not give what is needed; the message is one line without any secret."""


@dataclass
class _Kept:
    key: DelegationKey | None = None
    failure: str = ""
    failed_at: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


def node_token(resource: str, client_id: str) -> str:
    """Return a token of the node's own identity. It never leaves this process but for Azure's own services."""
    return read_token(resource, client_id or None, TOKEN_LIMIT_S)


class Keys:
    """User-delegation keys by account, each fetched once for all SAS that are signed with it.

    :param token: gives the node's token for a resource and a client id.
    """

    def __init__(self, token: Callable[[str, str], str] = node_token, clock: Callable[[], float] = time.time) -> None:
        self._token, self._clock = token, clock
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._lock = threading.Lock()

    def key(self, account: Account, client_id: str, life_s: int) -> DelegationKey:
        """Return a key of the account that lives for ``life_s`` and more.

        :raises Unavailable: there is none.
        """
        with self._lock:
            kept = self._kept.setdefault((account.url, client_id), _Kept())
        with kept.lock:
            now = self._clock()
            if kept.key and kept.key.ends >= now + life_s:
                return kept.key
            if 0 <= now - kept.failed_at < _REPEATED_S:
                raise Unavailable(kept.failure)
            try:
                token = self._token(STORAGE, client_id)
                kept.key = delegation_key(account, token, now, now + min(2 * life_s, LONGEST_S))
            except (ImdsError, StorageError) as error:
                kept.failure, kept.failed_at = str(error), self._clock()
                raise Unavailable(kept.failure) from None
            return kept.key
