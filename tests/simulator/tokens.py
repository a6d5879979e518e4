# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens of managed identities. Each is valid for one audience and identifies the machine."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass

from simulator import TOKEN

MANAGEMENT = "https://management.azure.com"
VAULT = "https://vault.azure.net"
MANAGERS = (MANAGEMENT, "https://management.core.windows.net")
"""The audiences of Resource Manager."""
AUDIENCES = (*MANAGERS, VAULT, "https://storage.azure.com")
"""The audiences of tokens. (As in Azure, a vault's own URL also gets a token, but no vault accepts it.)"""
SECONDS = 86399


@dataclass(frozen=True)
class Grant:
    """The meaning of a token.

    :ivar audience: URL of the service for which it is valid, without a slash at the end.
    :ivar names: lower-case names of the machine that got it, and of its scale set.
    :ivar principals: lower-case ids of the identity's principals. Resource Manager allows what their roles allow.
        Without one, it allows everything: the token is the deployer's, or that of a scenario's machine.
    """

    audience: str
    names: frozenset[str]
    expires: float
    principals: frozenset[str] = frozenset()


class Tokens:
    """The issued tokens. They are random texts without readable content."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {TOKEN: Grant(MANAGEMENT, frozenset(), float("inf"))}
        self._lock = threading.Lock()

    def issue(self, audience: str, names: set[str], principals: frozenset[str] = frozenset()) -> str:
        """Issue a token for one audience."""
        audience = audience.rstrip("/")
        if audience in MANAGERS and not principals:
            return TOKEN
        token = f"simulated.{secrets.token_urlsafe(48)}"
        with self._lock:
            lower = frozenset(name.lower() for name in names)
            self._grants[token] = Grant(audience, lower, time.time() + SECONDS, principals)
        return token

    def find(self, token: str) -> Grant | None:
        """The meaning of a token, or None if it was not issued or has expired."""
        with self._lock:
            grant = self._grants.get(token)
        return grant if grant is not None and grant.expires > time.time() else None
