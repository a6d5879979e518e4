# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Public host keys as OpenSSH writes them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

_CURVES = ("nistp256", "nistp384", "nistp521")
_PARTS = {"ssh-ed25519": 2, "ssh-rsa": 3, **{f"ecdsa-sha2-{curve}": 3 for curve in _CURVES}}
"""Kinds of keys that are taken from a console, with the number of parts of each."""
_ED25519_BYTES = 32


@dataclass(frozen=True)
class HostKey:
    """A public key.

    :ivar kind: its type, e.g. ``ssh-ed25519``.
    :ivar text: its base64.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.text}"

    @property
    def fingerprint(self) -> str:
        """What ``ssh-keygen -l`` shows of it."""
        try:
            digest = hashlib.sha256(base64.b64decode(self.text)).digest()
        except binascii.Error:
            return f"{self.kind} (unreadable)"
        return f"{self.kind} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def complete_key(line: str) -> HostKey | None:
    """Return the key of a line of a ``.pub`` file, if it is a complete one of a known kind."""
    kind, _blank, rest = line.partition(" ")
    text = rest.partition(" ")[0]
    if kind not in _PARTS:
        return None
    try:
        parts = _parts(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        return None
    if len(parts) != _PARTS[kind] or parts[0] != kind.encode():
        return None
    if kind == "ssh-ed25519" and len(parts[1]) != _ED25519_BYTES:
        return None
    if kind.startswith("ecdsa") and parts[1].decode("latin-1") != kind.rpartition("-")[2]:
        return None
    return HostKey(kind, text)


def _parts(blob: bytes) -> list[bytes]:
    """Return the strings that a key consists of.

    :raises ValueError: it is cut, or something follows it.
    """
    parts = []
    while blob:
        end = 4 + int.from_bytes(blob[:4], "big")
        if end > len(blob) or end == 4:
            raise ValueError("a part of the key is missing")
        parts.append(blob[4:end])
        blob = blob[end:]
    return parts
