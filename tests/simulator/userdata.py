# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User data of machines: set when a machine is created in Azure, readable from inside, 64 KiB at most.

A scenario cannot know addresses in advance, so its user data may contain placeholders, which are filled at each
request: ``{address:ctl}`` is the private address of the machine ctl, ``{vault}`` the URL of the first key vault.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

PLACEHOLDER = re.compile(r"\{(address):([A-Za-z0-9._-]+)\}|\{(vault)\}")
LONGEST = 64 * 1024
"""Azure's limit for the encoded form in bytes."""


def text_of(value: Any) -> str:
    """A scenario's user data as text: a mapping becomes JSON."""
    return json.dumps(value, indent=2) if isinstance(value, Mapping) else str(value)


def placeholders(text: str) -> list[tuple[str, str]]:
    """The placeholders in a text: kind and name, such as ("address", "ctl") or ("vault", "")."""
    return [(found[1] or found[3], found[2] or "") for found in PLACEHOLDER.finditer(text)]


def fill_in(text: str, values: Mapping[tuple[str, str], str]) -> str:
    """The text with its placeholders replaced. A placeholder without a known value stays."""
    return PLACEHOLDER.sub(lambda found: values.get((found[1] or found[3], found[2] or ""), found[0]), text)


def encode(text: str) -> str:
    """The text in base64, as Azure returns it."""
    return base64.b64encode(text.encode()).decode()


def decode(encoded: str) -> str:
    """The decoded text. Raises ValueError if the input is not a text in base64."""
    return base64.b64decode(encoded, validate=True).decode()
