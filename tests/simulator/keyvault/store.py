# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Key vaults and the secrets in them."""

from __future__ import annotations

import secrets
import string
import threading
from dataclasses import dataclass, field, replace
from datetime import datetime

from simulator.resources import Document, now
from simulator.scenario import VaultScenario

DOMAIN = "vault.azure.net"
GENERATED = "generated"
_LETTERS = string.ascii_letters + string.digits


def generate() -> str:
    """A text of 128 random letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _number in range(128))


@dataclass(frozen=True)
class Secret:
    """One version of a secret. Its value is not in the repr, so no log or traceback contains it."""

    name: str
    version: str
    value: str = field(repr=False)
    created: datetime
    updated: datetime
    enabled: bool = True


@dataclass(frozen=True)
class DeletedVault:
    """A soft-deleted key vault, which can be recovered."""

    document: Document
    vault: Vault
    deleted: datetime


class Vault:
    """One key vault."""

    def __init__(self, scenario: VaultScenario) -> None:
        self.name = scenario.name
        self.host = f"{scenario.name.lower()}.{DOMAIN}"
        self.url = f"https://{self.host}"
        self.readers = scenario.readers
        self.writers = scenario.writers
        self.azure_id = ""
        """Its id in Resource Manager, if a client made it. Then role assignments allow its use."""
        self.policies: tuple[tuple[str, tuple[str, ...]], ...] = ()
        """Principals and what its access policies allow them to do with secrets."""
        self._lock = threading.Lock()
        self._secrets: dict[str, list[Secret]] = {}
        for name, value in scenario.secrets.items():
            self.put(name, value)

    def allows(self, principals: frozenset[str], action: str) -> bool:
        """Whether an access policy lets one of the principals read (getSecret) or write (setSecret) secrets."""
        word = action.removesuffix("Secret")
        return any(
            principal in principals and {word, "all"} & {item.lower() for item in allowed}
            for principal, allowed in self.policies
        )

    def get(self, name: str, version: str = "") -> Secret | None:
        """The requested version, or the newest one."""
        with self._lock:
            versions = self._secrets.get(name.lower(), [])
            if not version:
                return versions[-1] if versions else None
            return next((item for item in versions if item.version == version.lower()), None)

    def put(self, name: str, value: str) -> Secret:
        """Add a version. ``generated`` becomes a random text."""
        value = generate() if value == GENERATED else value
        moment = now()
        secret = Secret(name, secrets.token_hex(16), value, moment, moment)
        with self._lock:
            self._secrets.setdefault(name.lower(), []).append(secret)
        return secret

    def enable(self, name: str, enabled: bool) -> None:
        """Enable or disable the newest version."""
        with self._lock:
            versions = self._secrets[name.lower()]
            versions[-1] = replace(versions[-1], enabled=enabled, updated=now())

    def remove(self, name: str) -> bool:
        """Delete a secret with all its versions. Returns False if there was none."""
        with self._lock:
            return self._secrets.pop(name.lower(), None) is not None


def may(names: frozenset[str], allowed: tuple[str, ...]) -> bool:
    """Whether one of the caller's names is allowed."""
    return "*" in allowed or bool(names & {name.lower() for name in allowed})
