# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User data of machines: what whoever makes a machine in Azure hands to it, readable from inside, 64 KiB at most.

A scenario cannot know addresses beforehand, so its user data may hold placeholders, which are filled in when somebody
asks: ``{address:ctl}`` is the private address of the machine called ctl, ``{vault}`` the first key vault's URL.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

PLACEHOLDER = re.compile(r"\{(address):([A-Za-z0-9._-]+)\}|\{(vault)\}")
LONGEST = 64 * 1024
"""Bytes of the encoded form that Azure takes."""


def text_of(value: Any) -> str:
    """A scenario's user data as text: a mapping becomes JSON."""
    return json.dumps(value, indent=2) if isinstance(value, Mapping) else str(value)


def placeholders(text: str) -> list[tuple[str, str]]:
    """What has to be filled in: kind and name, such as ("address", "ctl") or ("vault", "")."""
    return [(found[1] or found[3], found[2] or "") for found in PLACEHOLDER.finditer(text)]


def fill_in(text: str, values: Mapping[tuple[str, str], str]) -> str:
    """The text with its placeholders replaced; one whose value is not known stays."""
    return PLACEHOLDER.sub(lambda found: values.get((found[1] or found[3], found[2] or ""), found[0]), text)


def encode(text: str) -> str:
    """As Azure shows it: in base 64."""
    return base64.b64encode(text.encode()).decode()


def decode(encoded: str) -> str:
    """The text; ValueError where it is no base 64 of a text."""
    return base64.b64decode(encoded, validate=True).decode()
