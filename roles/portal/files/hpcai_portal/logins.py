# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The authenticators: PAM or an OpenID provider checks the identity, ``users`` decides who may log in."""

from __future__ import annotations

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
        is_admin = bool(set(self.rules.admin_groups) & set(account.groups))
        return {"name": account.name, "groups": list(account.groups), "admin": is_admin}

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

    async def _ask_for_keys(self) -> bool:
        """Whether the keys are new; they are not asked for again within a minute."""
        if self._keys_asked is not None and time.monotonic() - self._keys_asked < KEYS_AGE_S:
            return False
        self._keys_asked = time.monotonic()
        self._keys = await self._ask(self._keys_url)
        return True

    async def token_to_user(self, token_info: dict[str, Any]) -> dict[str, Any]:
        """The claims of the id_token. Entra ID's userinfo has no preferred_username.

        :raises web.HTTPError: the token is not valid.
        """
        await self.discover()
        token = token_info.get("id_token")
        try:
            if self._keys is None:
                await self._ask_for_keys()
            try:
                return openid.claims_of(token, self._keys, self.issuer, self.client_id)
            except openid.UnknownKey:
                if not await self._ask_for_keys():
                    raise
                return openid.claims_of(token, self._keys, self.issuer, self.client_id)
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
