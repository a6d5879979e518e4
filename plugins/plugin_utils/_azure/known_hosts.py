# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Public host keys as OpenSSH writes them, and the file of those that ssh knows."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CURVES = ("nistp256", "nistp384", "nistp521")
_PARTS = {"ssh-ed25519": 2, "ssh-rsa": 3, **{f"ecdsa-sha2-{curve}": 3 for curve in _CURVES}}
"""Kinds of keys that are taken from a console, with the number of parts of each."""
_ED25519_BYTES = 32
_HASHED = "|1|"


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


def read_file(path: Path) -> str:
    """Return the file's text; none if there is no file."""
    try:
        return path.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def known_keys(text: str, name: str) -> tuple[HostKey, ...]:
    """Return the keys that ssh knows under a name, without lines that have a marker (``@revoked``) or a pattern."""
    keys = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 3 and _names(fields[0], name.lower()):
            keys.append(HostKey(fields[1], fields[2]))
    return tuple(keys)


def disagreement(name: str, vm_id: str, path: Path, known: Iterable[HostKey], shown: Iterable[HostKey]) -> str:
    """Say in which key ssh's file and the machine's console differ; empty if they agree."""
    right = set(shown)
    wrong = [key for key in known if key not in right]
    if not wrong:
        return ""
    return (
        f"{name}: {path} has the host key {_fingerprints(wrong)} for {vm_id}, which the machine's serial console does "
        f"not show; it shows {_fingerprints(right)}. Another machine may have answered at the first contact. If you "
        f"changed the keys or reimaged the machine: ssh-keygen -f {shlex.quote(str(path))} -R {vm_id}"
    )


def as_lines(vm_id: str, keys: Iterable[HostKey]) -> str:
    """Return the lines of keys that ssh shall know under a name."""
    return "".join(f"{vm_id.lower()} {key}\n" for key in keys)


def with_lines(text: str, lines: str) -> str:
    """Return the file's text with lines added."""
    return text + ("\n" if text and lines and not text.endswith("\n") else "") + lines


def append(path: Path, text: str, lines: str) -> None:
    """Add lines to the file, by one write at its end: ssh may be adding others at the same time.

    :param text: what the file held.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with open(descriptor, "ab", buffering=0) as file:
        file.write(with_lines(text, lines)[len(text) :].encode())


def _names(field: str, name: str) -> bool:
    if field.startswith(_HASHED):
        try:
            salt, digest = (base64.b64decode(part, validate=True) for part in field[len(_HASHED) :].split("|"))
        except (ValueError, binascii.Error):
            return False
        # What ssh writes with HashKnownHosts.
        return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
    return name in field.lower().split(",")


def _fingerprints(keys: Iterable[HostKey]) -> str:
    return ", ".join(sorted(key.fingerprint for key in keys))
