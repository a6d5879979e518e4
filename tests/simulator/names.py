# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and numbers as Azure makes them.

The rules are those of "Understand names and instance IDs for Azure Virtual Machine Scale Set VMs" (Azure's
documentation): Uniform ``SET_N`` and PREFIX plus six base-36 digits of N; Flexible ``SET_`` plus eight digits of a
GUID and PREFIX plus six.
"""

from __future__ import annotations

import base64
import hashlib
import random
import uuid
from collections.abc import Iterator

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def base36(number: int, width: int = 6) -> str:
    """``number`` in upper-case base 36, filled with zeroes: 17 is 00000H."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits.rjust(width, "0")


def instance_ids(first: list[int]) -> Iterator[int]:
    """The given ids, then ever larger ones with gaps.

    Azure promises no order and leaves gaps (overprovisioned and deleted instances). The gaps here grow from two to
    nine and start again, so that no client can count on contiguous ids and every run sees the same ones.
    """
    yield from first
    last = max(first, default=-1)
    gap = 2 if first else 1
    while True:
        last += gap
        yield last
        gap = gap + 1 if gap < 9 else 2


def public_key(seed: str) -> str:
    """A public host key as in ``ssh_host_ed25519_key.pub``; the same seed gives the same key."""
    kind, key = b"ssh-ed25519", hashlib.sha256(seed.encode()).digest()
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, key))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} root@localhost"


class Identities:
    """Random but repeatable identifiers: one seed gives one sequence, and no identifier comes twice."""

    def __init__(self, seed: int | None) -> None:
        self._random = random.Random(seed)
        self._given: set[str] = set()

    def uuid(self) -> str:
        """A version 4 UUID."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def hexadecimal(self, digits: int) -> str:
        """So many lower-case hexadecimal digits. Six of them, drawn freely, repeat from some 5,000 draws on."""
        while (drawn := f"{self._random.getrandbits(4 * digits):0{digits}x}") in self._given:
            pass
        self._given.add(drawn)
        return drawn
