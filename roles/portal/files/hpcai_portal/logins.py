# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The authenticators: PAM or an OpenID provider checks the identity, ``users`` decides who may log in."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyterhub.auth import Authenticator, PAMAuthenticator
from oauthenticator.generic import GenericOAuthenticator
from oauthenticator.oauth2 import OAuthLoginHandler
from tornado import httpclient, web
from traitlets import Instance, Unicode

from . import openid, users

DISCOVERY_AGE_S = 3600.0
KEYS_AGE_S = 60.0
"""How often keys are asked for again because a token has an unknown one. Anybody can cause such a question."""


class _ClusterUsers(Authenticator):
    """Adds the rules of ``users`` to an authenticator."""

    rules = Instance(users.Rules, args=(), config=True)

    def model_of(self, name: str) -> dict[str, Any] | None:
        """The user's model for JupyterHub; None if they may not log in."""
        account = users.account_of(name)
        problem = users.problem_of(account, self.rules)
        if problem or account is None:
            self.log.warning("Login refused: %r %s", name[:64], problem)
            return None
        # Nobody is JupyterHub's admin, who may act as every user. `config` has a role for portal_admin_groups.
        return {"name": account.name, "groups": list(account.groups), "admin": False}

    def normalize_username(self, username: str) -> str:
        """The name as this machine has it. JupyterHub would make it lower case, and so another user's."""
        return username

    async def refresh_user(self, user: Any, handler: Any = None, **_options: Any) -> dict[str, Any] | bool:
        """Look the user up again, because groups change and users leave."""
        return self.model_of(user.name) or False


class PamUsers(_ClusterUsers, PAMAuthenticator):
    """The cluster's users with their passwords."""

    async def authenticate(self, handler: Any, data: dict[str, str]) -> dict[str, Any] | None:
        """Let PAM check the password."""
        # The rules first, so that PAM is never asked about root.
        model = self.model_of(data.get("username", ""))
        if model is None:
            return None
        checked = await super().authenticate(handler, data)
        return model if checked else None


class _Login(OAuthLoginHandler):
    """Sends the browser to the provider."""

    async def get(self) -> None:
        """Find out the provider's address first."""
        await self.authenticator.discover()
        super().get()


class OpenIdUsers(_ClusterUsers, GenericOAuthenticator):
    """The cluster's users, with an OpenID provider such as Entra ID."""

    login_handler = _Login
    issuer = Unicode("", config=True)
    name_claim = Unicode("preferred_username", config=True)
    domain = Unicode("", config=True)

    _discovered: float | None = None
    _keys_url = ""
    _keys: Any = None
    _keys_asked: float | None = None
    _asks: asyncio.Lock

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._asks = asyncio.Lock()

    async def _ask(self, address: str) -> Any:
        try:
            return await self.httpfetch(address, "asking the OpenID provider", request_timeout=10, connect_timeout=5)
        except (OSError, ValueError, httpclient.HTTPError, web.HTTPError) as error:
            raise openid.ProviderProblem(f"{address} does not answer: {error}") from error

    async def discover(self) -> None:
        """Read the provider's addresses, if that was not done in the last hour. Old ones are better than none."""
        if self._discovered is not None and time.monotonic() - self._discovered < DISCOVERY_AGE_S:
            return
        try:
            found = openid.endpoints(await self._ask(self.issuer.rstrip("/") + openid.DISCOVERY), self.issuer)
        except openid.ProviderProblem as problem:
            self.log.error("OpenID: %s", problem)
            if self._discovered is None:
                raise web.HTTPError(503, "The login provider does not answer. Try again later.") from None
            return
        self.authorize_url, self.token_url, self._keys_url = found.authorize_url, found.token_url, found.keys_url
        self._discovered = time.monotonic()

    async def _newer_keys(self, known: Any) -> Any:
        """Return keys that are newer than these, which can be None, or the same ones if they are not old enough.

        :raises openid.ProviderProblem: the provider does not answer.
        """
        # Logins at the same time wait for one answer.
        async with self._asks:
            is_recent = self._keys_asked is not None and time.monotonic() - self._keys_asked < KEYS_AGE_S
            if self._keys is None or (self._keys is known and not is_recent):
                self._keys_asked = time.monotonic()
                self._keys = await self._ask(self._keys_url)
            return self._keys

    async def token_to_user(self, token_info: dict[str, Any]) -> dict[str, Any]:
        """The claims of the id_token. Entra ID's userinfo has no preferred_username.

        :raises web.HTTPError: the token is not valid.
        """
        await self.discover()
        token = token_info.get("id_token")
        try:
            keys = self._keys or await self._newer_keys(None)
            try:
                return openid.claims_of(token, keys, self.issuer, self.client_id)
            except openid.UnknownKey:
                newer = await self._newer_keys(keys)
                if newer is keys:
                    raise
                return openid.claims_of(token, newer, self.issuer, self.client_id)
        except openid.ProviderProblem as problem:
            self.log.error("OpenID: %s", problem)
            raise web.HTTPError(503, "The login provider does not answer. Try again later.") from None
        except openid.TokenRefused as problem:
            self.log.warning("Login refused: the id_token is not valid: %s", problem)
            raise web.HTTPError(403, "Login refused: the provider's answer is not valid. Log in again.") from None

    def user_info_to_username(self, user_info: dict[str, Any]) -> str:
        """The name in the cluster; one that nobody has if the claim has none."""
        return users.name_of_claim(user_info, self.name_claim, self.domain)

    async def get_user_groups(self, _auth_state: dict[str, Any]) -> set[str]:
        """None: the groups are those of this machine."""
        return set()

    async def authenticate(
        self, handler: Any, data: dict[str, str] | None = None, **options: Any
    ) -> dict[str, Any] | None:
        """Let the provider check the identity.

        :raises web.HTTPError: with a message for the user, who has proved an identity.
        """
        await self.discover()
        checked = await super().authenticate(handler, data, **options)
        name = str((checked or {}).get("name") or "")
        if not checked or not name:
            raise web.HTTPError(
                403, f"Login refused: your account's {self.name_claim} is no user name of this cluster."
            )
        model = self.model_of(name)
        if model is None:
            problem = users.problem_of(users.account_of(name), self.rules)
            raise web.HTTPError(403, f"Login refused: {name} {problem}.")
        return {**checked, **model}
