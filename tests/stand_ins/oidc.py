# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An OpenID provider on loopback, in place of Entra ID: discovery, authorize page, tokens with real signatures, keys.

It refuses what a real one refuses: another client, secret, redirect URI or PKCE verifier, and a code for the second
time. On request its id_tokens have one fault.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlparse

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

FAULTS = ("forged", "expired", "unsigned", "audience", "issuer", "no_token", "no_expiry")
LIFETIME_S = 600


class Provider:
    """The provider.

    :ivar claims: the claims of each account, besides those of the protocol.
    :ivar away: it answers no request.
    :ivar fault: what is wrong with the id_tokens: one of FAULTS, or empty.
    :ivar asked: the paths of the requests, in order.
    """

    def __init__(self, client_id: str, secret: str, redirect_uri: str, claims: dict[str, dict[str, Any]]) -> None:
        self.client_id, self.secret, self.redirect_uri, self.claims = client_id, secret, redirect_uri, claims
        self.fault = ""
        self.away = False
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._subjects: dict[str, str] = {}
        self._foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.rotate()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider._get(self)

            def do_POST(self) -> None:
                provider._post(self, self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

            def log_message(self, *_arguments: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Stop the server and close its port."""
        self._server.shutdown()
        self._server.server_close()

    def rotate(self) -> None:
        """Use a new key, and publish only this one."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._key_id = secrets.token_hex(4)

    def keys(self) -> dict[str, Any]:
        """The published keys."""
        key = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**key, "kid": self._key_id, "use": "sig", "alg": "RS256"}]}

    def id_token(self, account: str) -> str:
        """An id_token for an account, with the fault."""
        now = int(time.time())
        subject = self._subjects.setdefault(account, secrets.token_hex(8))
        claims = {"iss": self.issuer, "aud": self.client_id, "sub": subject, "iat": now, "exp": now + LIFETIME_S}
        claims |= self.claims[account]
        if self.fault == "expired":
            claims |= {"iat": now - 2 * LIFETIME_S, "exp": now - LIFETIME_S}
        elif self.fault == "audience":
            claims["aud"] = "another-client"
        elif self.fault == "issuer":
            claims["iss"] = "https://another.example.org"
        elif self.fault == "no_expiry":
            del claims["exp"]
        if self.fault == "unsigned":
            return jwt.encode(claims, "", algorithm="none", headers={"kid": self._key_id})
        key = self._foreign if self.fault == "forged" else self._key
        return jwt.encode(claims, key, algorithm="RS256", headers={"kid": self._key_id})

    def discovery(self) -> dict[str, Any]:
        """The discovery document."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def _get(self, request: BaseHTTPRequestHandler) -> None:
        address = urlparse(request.path)
        self.asked.append(address.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if self.away:
            self._answer(request, 503, {"error": "temporarily_unavailable"})
        elif address.path == "/.well-known/openid-configuration":
            self._answer(request, 200, self.discovery())
        elif address.path == "/keys":
            self._answer(request, 200, self.keys())
        elif address.path == "/authorize":
            self._authorize(request, query)
        else:
            self._answer(request, 404, {"error": "not_found"})

    def _authorize(self, request: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        """Show the page on which somebody chooses an account; then send the browser back with a code."""
        wrong = query.get("client_id") != self.client_id or query.get("redirect_uri") != self.redirect_uri
        if wrong or query.get("response_type") != "code" or "openid" not in query.get("scope", "").split():
            self._answer(request, 400, {"error": "invalid_request"})
            return
        account = query.pop("account", "")
        if account not in self.claims:
            fields = "".join(
                f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
                for name, value in query.items()
            )
            buttons = "".join(
                f'<button id="{name}" name="account" value="{name}">{name}</button>' for name in self.claims
            )
            page = f'<!doctype html><title>Provider</title><form action="/authorize">{fields}{buttons}</form>'
            self._send(request, 200, {"Content-Type": "text/html"}, page.encode())
            return
        code = secrets.token_urlsafe(16)
        self._codes[code] = {"account": account, "challenge": query.get("code_challenge", "")}
        back = urlencode({"code": code, "state": query.get("state", "")})
        self._send(request, 302, {"Location": f"{self.redirect_uri}?{back}"}, b"")

    def _post(self, request: BaseHTTPRequestHandler, body: str) -> None:
        self.asked.append(urlparse(request.path).path)
        form = {name: values[0] for name, values in parse_qs(body).items()}
        grant = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        verifier = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if form.get("client_id") != self.client_id or form.get("client_secret") != self.secret:
            self._answer(request, 401, {"error": "invalid_client", "error_description": "another client"})
        elif grant is None or form.get("redirect_uri") != self.redirect_uri or grant["challenge"] != verifier:
            self._answer(request, 400, {"error": "invalid_grant", "error_description": "the code is not valid"})
        else:
            answer = {"access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "expires_in": LIFETIME_S}
            if self.fault != "no_token":
                answer["id_token"] = self.id_token(grant["account"])
            self._answer(request, 200, answer)

    def _answer(self, request: BaseHTTPRequestHandler, status: int, document: dict[str, Any]) -> None:
        self._send(request, status, {"Content-Type": "application/json"}, json.dumps(document).encode())

    def _send(self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "Cache-Control": "no-store"}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
