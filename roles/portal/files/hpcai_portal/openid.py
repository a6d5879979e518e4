# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an OpenID provider publishes, and the check of an id_token that it has signed.

OpenID Connect Core 1.0 (section 3.1.3.7) and Discovery 1.0. oauthenticator reads an id_token without a check of its
signature and of its issuer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

import jwt

DISCOVERY = "/.well-known/openid-configuration"
LEEWAY_S = 60.0
"""By how much the clocks of the provider and of this machine may differ."""
# Signatures with a public key only: with a shared secret, whoever checks could also sign.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ProviderProblem(ValueError):
    """The provider does not publish what it should."""


class TokenRefused(ValueError):
    """The provider has not issued this token, or not for this portal, or it is too old."""


class UnknownKey(TokenRefused):
    """The token is signed with a key that is not among the given ones. The provider may have new keys."""


@dataclass(frozen=True)
class Endpoints:
    """A provider's addresses."""

    authorize_url: str
    token_url: str
    keys_url: str


def endpoints(document: Any, issuer: str) -> Endpoints:
    """Return the addresses in a provider's discovery document.

    :raises ProviderProblem: it is that of another issuer, lacks an address, or has one without TLS.
    """
    if not isinstance(document, Mapping):
        raise ProviderProblem(f"{issuer}{DISCOVERY} is not a JSON object")
    said = document.get("issuer")
    if said != issuer:
        raise ProviderProblem(
            f"{issuer}{DISCOVERY} is that of the issuer {said!r}. Set this issuer if it is the right one"
        )
    found = []
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        address = document.get(name)
        if not isinstance(address, str) or not is_safe(address, issuer):
            raise ProviderProblem(f"{issuer}{DISCOVERY} has no {name} with https")
        found.append(address)
    return Endpoints(*found)


def is_safe(address: str, issuer: str) -> bool:
    """Whether nobody on the way can change what an address answers. Only an issuer on this machine needs no TLS."""
    parts = urlparse(address)
    on_this_machine = urlparse(issuer).hostname in _LOOPBACK and parts.hostname in _LOOPBACK
    return parts.scheme == "https" or (parts.scheme == "http" and on_this_machine)


def claims_of(token: Any, keys: Any, issuer: str, client_id: str) -> dict[str, Any]:
    """Return the claims of an id_token after all checks.

    :param keys: the provider's JSON Web Key Set.
    :raises UnknownKey: no key of the set has the token's ``kid``.
    :raises TokenRefused: any other fault.
    """
    try:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in _ALGORITHMS:
            raise TokenRefused(f"it is signed with {algorithm!r}")
        given = keys.get("keys") if isinstance(keys, Mapping) else None
        matching = [key for key in given or () if key.get("kid") == key_id and key.get("use", "sig") == "sig"]
        if len(matching) != 1:
            raise UnknownKey(f"the provider has no key {key_id!r}")
        claims: dict[str, Any] = jwt.decode(
            token,
            jwt.PyJWK.from_dict(matching[0], algorithm=algorithm).key,
            algorithms=[algorithm],
            audience=client_id,
            issuer=issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
    except (jwt.PyJWTError, TypeError, AttributeError) as error:
        raise TokenRefused(str(error)) from error
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != client_id:
        raise TokenRefused("it is for several clients, and was issued to another one")
    return claims
