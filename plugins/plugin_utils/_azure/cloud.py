# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where Azure Resource Manager is, and which tokens it takes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import InventoryError

_PUBLIC = "AzureCloud"

# azure-identity's AzureAuthorityHosts and the endpoints of each cloud's documentation, by the names that `az` has.
_CLOUDS = {
    _PUBLIC: ("https://management.azure.com", "login.microsoftonline.com"),
    "AzureUSGovernment": ("https://management.usgovcloudapi.net", "login.microsoftonline.us"),
    "AzureChinaCloud": ("https://management.chinacloudapi.cn", "login.chinacloudapi.cn"),
}

CLOUD_NAMES = tuple(_CLOUDS)


@dataclass(frozen=True)
class Cloud:
    """One Azure Resource Manager.

    :ivar endpoint: its base URL, without a slash at the end.
    :ivar scope: what a token must be asked for.
    :ivar authority: host name of the directory that gives out tokens.
    :ivar loopback: it is on this machine, so it is no Azure but a simulated one.
    """

    endpoint: str
    scope: str
    authority: str
    loopback: bool

    @property
    def plain_http(self) -> bool:
        """Whether requests go unencrypted; only ever on this machine."""
        return self.endpoint.startswith("http://")


def find_cloud(name: str, endpoint: str | None) -> Cloud:
    """Return the cloud called ``name``, or the one behind a base URL of its own.

    :raises InventoryError: the name is unknown, or the URL is one that a token must not be sent to.
    """
    if name not in _CLOUDS:
        raise InventoryError(f"cloud: {name!r} is unknown; known are {', '.join(CLOUD_NAMES)}.")
    home, authority = _CLOUDS[name]
    if not endpoint:
        return Cloud(home, f"{home}/.default", authority, loopback=False)
    base = endpoint.rstrip("/")
    parts = urlsplit(base)
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise InventoryError(f"endpoint: {endpoint!r} is no base URL such as {home}.")
    loopback = is_loopback(host)
    if parts.scheme == "http" and not loopback:
        raise InventoryError(
            f"endpoint: {endpoint!r} would send the token unencrypted; use https (plain http is for this machine only)."
        )
    # A regional or private door of the same cloud takes the cloud's tokens, anything else (Azure Stack) its own.
    home_host = urlsplit(home).hostname or ""
    same_cloud = host == home_host or host.endswith(f".{home_host}")
    return Cloud(base, f"{home if same_cloud else base}/.default", authority, loopback)


def is_loopback(host: str | None) -> bool:
    """Say whether a host name or address is this machine. Other names are not resolved: an answer could change."""
    if not host:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
