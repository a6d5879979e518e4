# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""RSA keys in Azure Key Vault: the vault signs, and the private key never leaves it. Anybody with the public key can
verify, without a request.

Signatures are RS256: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017, section 8.2; RFC 7518, section 3.3).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from dataclasses import dataclass
from typing import Any

from .cluster_settings import Vault
from .http_get import NoAnswer, Refused, Sleep, get
from .key_vault import API_VERSION, VaultError

ROLE = "Key Vault Crypto User"
"""The built-in Azure role with the fewest permissions that may sign with a key and read its public part."""
NAME = re.compile(r"[A-Za-z0-9-]{1,127}")
VERSION = re.compile(r"[0-9a-f]{32}")
_PASSING = (408, 429)
# The DER encoding of the algorithm and of the length of a SHA-256 (RFC 8017, section 9.2, note 1).
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")
_SHORTEST_BITS = 2048


@dataclass(frozen=True)
class PublicKey:
    """The public part of a version of an RSA key.

    :ivar version: 32 hexadecimal digits.
    :ivar modulus: n.
    :ivar exponent: e.
    """

    version: str
    modulus: int
    exponent: int

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed the message. The padding is compared completely, not parsed."""
        size = (self.modulus.bit_length() + 7) // 8
        if len(signature) != size:
            return False
        number = int.from_bytes(signature, "big")
        if number >= self.modulus:
            return False
        found = pow(number, self.exponent, self.modulus).to_bytes(size, "big")
        digest = _SHA256 + hashlib.sha256(message).digest()
        return hmac.compare_digest(found, b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest)


def public_key(
    vault: Vault, name: str, version: str, token: str, limit_s: float, sleep: Sleep = time.sleep
) -> PublicKey:
    """Return the public part of a key.

    :param version: empty for the newest.
    :param token: an access token for ``vault.resource``.
    :raises VaultError: the vault cannot be reached, or refuses, or the key is no RSA key of at least 2048 bits.
    """
    path = f"{name}/{version}" if version else name
    document = _ask(vault, name, path, token, limit_s, sleep)
    key = document.get("key")
    try:
        if not isinstance(key, dict) or not str(key["kty"]).startswith("RSA"):
            raise ValueError
        found = _version_of(key["kid"], name)
        modulus, exponent = (int.from_bytes(decoded(key[part]), "big") for part in ("n", "e"))
        if modulus.bit_length() < _SHORTEST_BITS or (version and found != version):
            raise ValueError
    except (LookupError, TypeError, ValueError):
        raise VaultError(
            f"key {name} of key vault {vault.name} is no RSA key of at least {_SHORTEST_BITS} bits",
            f"az keyvault key create --vault-name {vault.name} --name {name} --kty RSA --size 3072 --ops sign verify",
        ) from None
    return PublicKey(found, modulus, exponent)


def sign(
    vault: Vault, name: str, version: str, message: bytes, token: str, limit_s: float, sleep: Sleep = time.sleep
) -> bytes:
    """Return the signature of a message, which the vault makes from its SHA-256.

    :param token: an access token for ``vault.resource``.
    :raises VaultError: the vault cannot be reached, or refuses.
    """
    body = json.dumps({"alg": "RS256", "value": encoded(hashlib.sha256(message).digest())}).encode()
    document = _ask(vault, name, f"{name}/{version}/sign", token, limit_s, sleep, body)
    try:
        if _version_of(document["kid"], name) != version:
            raise ValueError
        return decoded(document["value"])
    except (LookupError, TypeError, ValueError):
        raise VaultError(f"{vault.url} is not a key vault: no signature in its answer", "correct its name") from None


def encoded(content: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decoded(text: Any) -> bytes:
    """Return what base64url without padding stands for.

    :raises ValueError: it is not valid.
    """
    if not isinstance(text, str) or not re.fullmatch(r"[A-Za-z0-9_-]*", text):
        raise ValueError("no base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _version_of(identifier: Any, name: str) -> str:
    found = re.fullmatch(rf"https://[^/]+/keys/{re.escape(name)}/([0-9a-f]{{32}})", str(identifier), re.IGNORECASE)
    if not found:
        raise ValueError("no identifier of a key")
    return found[1].lower()


def _ask(
    vault: Vault, name: str, path: str, token: str, limit_s: float, sleep: Sleep, body: bytes | None = None
) -> dict[str, Any]:
    url = f"{vault.url}/keys/{path}?api-version={API_VERSION}"
    headers = {"Authorization": f"Bearer {token}", **({"Content-Type": "application/json"} if body else {})}
    where = f"key {name} of key vault {vault.name}"
    try:
        document = json.loads(get(url, headers, limit_s, _PASSING, sleep, body=body))
    except NoAnswer as error:
        raise VaultError(
            f"key vault {vault.name} gave no answer in {limit_s:.3g} s: {error}",
            f"check that this machine can reach {vault.url} directly: name, route, firewall, private endpoint",
        ) from None
    except Refused as refused:
        actions = {
            403: f'assign this machine\'s identity the role "{ROLE}" at the key',
            404: f"az keyvault key create --vault-name {vault.name} --name {name} --kty RSA --ops sign verify",
        }
        raise VaultError(
            f"{where} cannot be used (HTTP status {refused.status})",
            actions.get(refused.status, f"correct {vault.url}"),
        ) from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise VaultError(f"{vault.url} is not a key vault: its answer is no JSON object", "correct its name")
    return document
