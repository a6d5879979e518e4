# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Account SAS for Azurite's only account, whose key is public."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from urllib.parse import urlencode

ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-12-02"


def account_sas(permissions: str = "rwdlac", hours: float = 6) -> str:
    """Return a SAS for all containers and blobs, without a leading question mark."""
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + hours * 3600))
    signed = "\n".join([ACCOUNT, permissions, "b", "sco", "", expiry, "", "https,http", _VERSION, "", ""])
    signature = hmac.new(base64.b64decode(_KEY), signed.encode(), hashlib.sha256).digest()
    return urlencode(
        {
            "sv": _VERSION,
            "ss": "b",
            "srt": "sco",
            "sp": permissions,
            "se": expiry,
            "spr": "https,http",
            "sig": base64.b64encode(signature).decode(),
        }
    )


def wrong_sas() -> str:
    """Return a SAS with an invalid signature."""
    return account_sas().partition("sig=")[0] + "sig=" + "A" * 43 + "%3D"
