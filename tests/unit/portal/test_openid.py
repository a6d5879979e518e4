# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks of an OpenID provider's documents and tokens, against a stand-in that signs really."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from stand_ins.oidc import FAULTS, Provider

from hpcai_portal import openid

CLIENT = "portal"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """The provider, whose tokens have no fault."""
    made = Provider(CLIENT, "secret", "https://portal/hub/oauth_callback", {"alice": {"preferred_username": "alice"}})
    yield made
    made.stop()


@pytest.fixture
def fault(provider: Provider, request: pytest.FixtureRequest) -> Iterator[str]:
    """One fault of the provider's tokens, for one test."""
    provider.fault = request.param
    yield provider.fault
    provider.fault = ""


def claims(provider: Provider, token: Any, keys: Any = None, client: str = CLIENT) -> dict[str, Any]:
    """The claims of a token."""
    return openid.claims_of(token, provider.keys() if keys is None else keys, provider.issuer, client)


def test_a_signed_token_gives_its_claims(provider: Provider) -> None:
    assert claims(provider, provider.id_token("alice"))["preferred_username"] == "alice"


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "no_token"], indirect=True)
def test_a_token_with_a_fault_is_refused(provider: Provider, fault: str) -> None:
    with pytest.raises(openid.TokenRefused) as refused:
        claims(provider, provider.id_token("alice"))
    assert not isinstance(refused.value, openid.UnknownKey), fault


def test_changed_claims_are_refused(provider: Provider) -> None:
    head, _body, signature = provider.id_token("alice").split(".")
    other = jwt.encode({"preferred_username": "bob"}, "x" * 32, algorithm="HS256").split(".")[1]
    with pytest.raises(openid.TokenRefused):
        claims(provider, f"{head}.{other}.{signature}")


def test_the_public_key_is_no_secret_that_signs(provider: Provider) -> None:
    # Whoever knows the published key could otherwise sign with it (RFC 8725, section 2.1).
    (key,) = provider.keys()["keys"]
    forged = jwt.encode(
        jwt.decode(provider.id_token("alice"), options={"verify_signature": False}),
        key["n"],
        algorithm="HS256",
        headers={"kid": key["kid"]},
    )
    with pytest.raises(openid.TokenRefused, match="'HS256'"):
        claims(provider, forged)


@pytest.mark.parametrize("token", [None, 7, "", "a.b.c", "x" * 10_000])
def test_what_is_no_token_is_refused(provider: Provider, token: Any) -> None:
    with pytest.raises(openid.TokenRefused):
        claims(provider, token)


@pytest.mark.parametrize("keys", [{}, {"keys": []}, [], {"keys": [{"kid": "other"}]}])
def test_a_key_that_is_not_published_may_be_new(provider: Provider, keys: Any) -> None:
    with pytest.raises(openid.UnknownKey):
        claims(provider, provider.id_token("alice"), keys)


def test_a_key_for_encryption_does_not_count(provider: Provider) -> None:
    (key,) = provider.keys()["keys"]
    with pytest.raises(openid.UnknownKey):
        claims(provider, provider.id_token("alice"), {"keys": [{**key, "use": "enc"}]})


def test_a_token_for_several_clients_must_be_issued_to_this_one(provider: Provider) -> None:
    provider.claims["alice"] = {"aud": [CLIENT, "other"], "azp": "other"}
    with pytest.raises(openid.TokenRefused, match="issued to another"):
        claims(provider, provider.id_token("alice"))
    provider.claims["alice"] = {"aud": [CLIENT, "other"], "azp": CLIENT}
    assert claims(provider, provider.id_token("alice"))["azp"] == CLIENT
    provider.claims["alice"] = {"preferred_username": "alice"}


def test_the_discovery_document_names_the_addresses(provider: Provider) -> None:
    found = openid.endpoints(provider.discovery(), provider.issuer)
    assert found == openid.Endpoints(*(f"{provider.issuer}/{name}" for name in ("authorize", "token", "keys")))
    assert openid.endpoints(DOCUMENT, ISSUER).token_url == f"{ISSUER}/token"


ISSUER = "https://idp.example.org"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not a JSON object"),
        ({**DOCUMENT, "issuer": "https://evil.example.org"}, "'https://evil.example.org'"),
        ({**DOCUMENT, "jwks_uri": None}, "no jwks_uri"),
        ({**DOCUMENT, "jwks_uri": "http://idp.example.org/keys"}, "no jwks_uri with https"),
        ({**DOCUMENT, "token_endpoint": "http://127.0.0.1/token"}, "no token_endpoint with https"),
        ({**DOCUMENT, "authorization_endpoint": "javascript:alert(1)"}, "no authorization_endpoint with https"),
    ],
)
def test_a_discovery_document_with_a_fault_is_refused(document: Any, message: str) -> None:
    with pytest.raises(openid.ProviderProblem, match=message):
        openid.endpoints(document, ISSUER)
