# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Key vaults, and the secrets and keys in them."""

from __future__ import annotations

import secrets
import string
import threading
from dataclasses import dataclass, field, replace
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256

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


class Key:
    """An RSA key that never leaves the vault."""

    def __init__(self, name: str, bits: int = 2048) -> None:
        self.name = name
        self.version = secrets.token_hex(16)
        self._private = rsa.generate_private_key(public_exponent=65537, key_size=bits)

    @property
    def public(self) -> tuple[int, int]:
        """Modulus and exponent."""
        numbers = self._private.public_key().public_numbers()
        return numbers.n, numbers.e

    def sign(self, digest: bytes) -> bytes:
        """The RS256 signature of a SHA-256."""
        return self._private.sign(digest, padding.PKCS1v15(), Prehashed(SHA256()))


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
        self._keys: dict[str, list[Key]] = {}
        for name in scenario.keys:
            self.make_key(name)

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

    def key(self, name: str, version: str = "") -> Key | None:
        """The requested version of a key, or the newest one."""
        with self._lock:
            versions = self._keys.get(name.lower(), [])
            return next((item for item in reversed(versions) if version.lower() in ("", item.version)), None)

    def make_key(self, name: str) -> Key:
        """Add a version of a key."""
        made = Key(name)
        with self._lock:
            self._keys.setdefault(name.lower(), []).append(made)
        return made

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
