# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens of managed identities: each is good for one audience and says who asks."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass

from simulator import TOKEN

MANAGEMENT = "https://management.azure.com"
VAULT = "https://vault.azure.net"
AUDIENCES = (MANAGEMENT, "https://management.core.windows.net", VAULT, "https://storage.azure.com")
"""What a token can be for. (A vault's own URL gets a token too, as in Azure, but no vault takes it.)"""
SECONDS = 86399


@dataclass(frozen=True)
class Grant:
    """What a token says.

    :ivar audience: URL of the service that it is for, without a slash at its end.
    :ivar names: lower-case names of the machine that got it: its own and its scale set's.
    """

    audience: str
    names: frozenset[str]
    expires: float


class Tokens:
    """The tokens given out. They are opaque: nothing can be read in them or made up from them."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {TOKEN: Grant(MANAGEMENT, frozenset(), float("inf"))}
        self._lock = threading.Lock()

    def issue(self, audience: str, names: set[str]) -> str:
        """A token for one audience; Resource Manager takes one and the same from everybody."""
        audience = audience.rstrip("/")
        if audience in AUDIENCES[:2]:
            return TOKEN
        token = f"simulated.{secrets.token_urlsafe(48)}"
        with self._lock:
            self._grants[token] = Grant(audience, frozenset(name.lower() for name in names), time.time() + SECONDS)
        return token

    def find(self, token: str) -> Grant | None:
        """What a token says; None for one that was not given out or has expired."""
        with self._lock:
            grant = self._grants.get(token)
        return grant if grant is not None and grant.expires > time.time() else None
