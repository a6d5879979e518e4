# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and instance ids in Azure's format.

The rules are from "Understand names and instance IDs for Azure Virtual Machine Scale Set VMs" (Azure's documentation).
Uniform: name ``SET_N``, computer name PREFIX plus six base-36 digits of N. Flexible: name ``SET_`` plus eight digits of
a GUID, computer name PREFIX plus six.
"""

from __future__ import annotations

import base64
import hashlib
import random
import uuid
from collections.abc import Iterator

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def base36(number: int, width: int = 6) -> str:
    """``number`` in upper-case base 36, padded with zeros: 17 is 00000H."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits.rjust(width, "0")


def instance_ids(first: list[int]) -> Iterator[int]:
    """The given ids, then larger ones with gaps.

    Azure guarantees no order and leaves gaps (overprovisioned and deleted instances). Here the steps grow from two to
    nine and start again, so that no client can rely on contiguous ids, and every run has the same ids.
    """
    yield from first
    last = max(first, default=-1)
    gap = 2 if first else 1
    while True:
        last += gap
        yield last
        gap = gap + 1 if gap < 9 else 2


def public_key(seed: str) -> str:
    """A public host key in the format of ``ssh_host_ed25519_key.pub``. The same seed gives the same key."""
    kind, key = b"ssh-ed25519", hashlib.sha256(seed.encode()).digest()
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, key))
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} root@localhost"


class Identities:
    """Random but repeatable identifiers: a seed always gives the same sequence, without duplicates."""

    def __init__(self, seed: int | None) -> None:
        self._random = random.Random(seed)
        self._given: set[str] = set()

    def uuid(self) -> str:
        """A version 4 UUID."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def hexadecimal(self, digits: int) -> str:
        """A new number in lower-case hexadecimal. Without the check, six digits repeat after about 5,000 draws."""
        while (drawn := f"{self._random.getrandbits(4 * digits):0{digits}x}") in self._given:
            pass
        self._given.add(drawn)
        return drawn
