# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bearer token for Azurite, which checks the claims but not the signature."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping


def bearer_token(audience: str = "https://storage.azure.com/") -> str:
    """Return a token of a managed identity, valid for an hour."""
    now = int(time.time())
    claims = {
        "aud": audience,
        "iss": "https://sts.windows.net/00000000-0000-0000-0000-00000000000a/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + 3600,
        "oid": "00000000-0000-0000-0000-00000000000b",
        "tid": "00000000-0000-0000-0000-00000000000a",
        "ver": "1.0",
    }
    return ".".join(_part(part) for part in ({"alg": "RS256", "typ": "JWT"}, claims, {"none": ""}))


def _part(content: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
