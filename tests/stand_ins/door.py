# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The portal's door: the portal on loopback, an OpenID provider at which users log in, and a browser in front of it."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from browser import chromium
from browser.portal_page import Portal

from . import portal as stand_in
from .blob.certificate import certificate_for
from .oidc import Provider

SLOW_S = 240.0


class Door:
    """The portal, its provider, and a browser in front of it."""

    def __init__(self, portal: Portal, provider: Provider, certificate: pathlib.Path) -> None:
        self.portal, self.provider, self.certificate = portal, provider, certificate

    def log_in(self, account: str, fault: str = "") -> None:
        """Log in with the provider, which gives a token with this fault."""
        self.provider.fault = fault
        self.portal.forget()
        self.portal.open("/hub/login")
        self.portal.click("a[href*=oauth_login]", SLOW_S)
        self.portal.click(f"#{account}", SLOW_S)
        self.portal.page.wait("location.pathname.startsWith('/hub/')", SLOW_S)


@contextlib.contextmanager
def open_door(
    folder: pathlib.Path,
    port: int,
    accounts: dict[str, list[Any]],
    claims: dict[str, dict[str, Any]],
    environment: dict[str, str],
    **settings: Any,
) -> Iterator[Door]:
    """Run the portal; nobody is logged in. Skips the test without a browser or the portal's programs.

    :param accounts: uid and groups by name.
    :param claims: the provider's claims by account.
    :param environment: secrets of the portal.
    :param settings: the portal's settings.
    """
    if chromium.find() is None:
        pytest.skip("no browser here: tests/setup/host.sh installs one")
    stand_in.programs()
    certificate = certificate_for("portal", "127.0.0.1", folder)
    certificate.public.rename(folder / "tls.crt")
    certificate.key.rename(folder / "tls.key")
    callback = f"https://{settings.get('domain') or '127.0.0.1'}:{port}/hub/oauth_callback"
    provider = Provider("portal", stand_in.SECRETS["PORTAL_OPENID_SECRET"], callback, claims)
    openid = {"issuer": provider.issuer, "client_id": "portal", "oauth_callback_url": callback, "domain": "example.org"}
    defaults = {"login_service": "Example", "name_claim": "preferred_username", "scope": ["openid", "profile"]}
    given: dict[str, Any] = {"openid": {**openid, **defaults}, **settings}
    try:
        with stand_in.portal(folder, port, accounts, environment, **given) as url, chromium.browser() as browser:
            yield Door(Portal(browser, url).prepare(), provider, folder / "tls.crt")
    finally:
        provider.stop()
