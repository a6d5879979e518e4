# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages and the links between them.

A link is absolute and keeps $expand, $filter and api-version, as Azure's does. Its token contains the last resource of
the page, so a list that changes while it is read neither repeats nor omits other resources.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import quote, urlencode

from flask import request

from simulator.arm.errors import bad_parameter
from simulator.model import Kind, Listing

TOKEN = "$skiptoken"


def query() -> dict[str, str]:
    """The query's parameters with lower-case names, because Azure ignores their case."""
    return {name.lower(): value for name, value in request.args.items()}


def base_url() -> str:
    """The URL that links start with. Azure's links have the port, even if it is the default one."""
    default = {"https": ":443", "http": ":80"}.get(request.scheme, "")
    return f"{request.scheme}://{request.host}{'' if ':' in request.host else default}"


def page(listing: Listing[Kind], size: int) -> tuple[list[Kind], str | None]:
    """The requested page, and the link to the next one."""
    token = query().get(TOKEN)
    start = listing.after(_serial(token)) if token else 0
    found = listing[start : start + size]
    if start + size >= len(listing):
        return found, None
    return found, _link(found[-1].serial)


def _link(serial: int) -> str:
    token = base64.urlsafe_b64encode(f"after:{serial}".encode()).decode().rstrip("=")
    kept = [(name, value) for name, value in request.args.items() if name.lower() != TOKEN]
    path = quote(request.environ["simulator.path"], safe="/'()")
    return f"{base_url()}{path}?{urlencode([*kept, ('$skipToken', token)], safe='$')}"


def _serial(token: str) -> int:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        word, _colon, number = text.partition(":")
        if word == "after":
            return int(number)
    except (ValueError, binascii.Error):
        pass
    raise bad_parameter("$skipToken", "this service did not issue the token")
