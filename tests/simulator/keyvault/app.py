# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Key Vault's REST interface for secrets, and for signing with keys. The Host header selects the vault.

Codes and messages come from Azure's documentation ("Azure Key Vault REST API Error Codes") and from users' reports.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, cast

from flask import Blueprint, Flask, Response, current_app, request

from simulator import roles
from simulator.faults import Fault, Faults
from simulator.front import Front
from simulator.keyvault.store import Key, Secret, Vault, may
from simulator.misbehaviour import JSON
from simulator.model import Model
from simulator.requestlog import RequestLog
from simulator.resources import Instance
from simulator.tokens import VAULT, Grant

API_VERSION = re.compile(r"7\.\d(-preview\.\d)?|2016-10-01|20\d\d-\d\d-\d\d(-preview)?")
SECRET_NAME = re.compile(r"[A-Za-z0-9-]{1,127}")
CODES = {
    401: ("Unauthorized", "AKV10000: Request is missing a Bearer or PoP token."),
    403: ("Forbidden", "Caller is not authorized to perform action on resource."),
    404: ("NotFound", "The resource was not found."),
    429: ("Throttled", "Request was not processed because too many requests were received."),
    500: ("InternalServerError", "An internal error occurred."),
    503: ("ServiceUnavailable", "The service is temporarily unavailable."),
}

blueprint = Blueprint("keyvault", __name__)


class VaultError(Exception):
    """A request that ends with an error body."""

    def __init__(self, status: int, code: str, message: str, inner: str = "", headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body: dict[str, Any] = {"error": {"code": code, "message": message}}
        if inner:
            self.body["error"]["innererror"] = {"code": inner}

    def response(self) -> Response:
        """The HTTP answer."""
        return Response(json.dumps(self.body), status=self.status, content_type=JSON, headers=self.headers)


def create_app(model: Model, faults: Faults | None = None, requests: RequestLog | None = None) -> Flask:
    """The key vaults of one simulator."""
    app = Flask("keyvault", static_folder=None)
    app.config.update(model=model)
    app.register_blueprint(blueprint)
    app.register_error_handler(VaultError, VaultError.response)
    app.register_error_handler(404, lambda error: VaultError(404, *CODES[404]).response())
    app.register_error_handler(405, lambda error: VaultError(405, "MethodNotAllowed", "Not allowed.").response())
    Front("vault", _caller, _refusal, faults or Faults(), requests or RequestLog()).install(app)
    return app


@blueprint.get("/secrets/<name>")
@blueprint.get("/secrets/<name>/")
@blueprint.get("/secrets/<name>/<version>")
def get_secret(name: str, version: str = "") -> Response:
    """A secret, or one version of it."""
    vault, grant = _vault(), _grant()
    _check_version()
    _check_right(grant, vault, name, vault.readers, "getSecret")
    secret = vault.get(name, version)
    if secret is None:
        raise VaultError(
            404,
            "SecretNotFound",
            f"A secret with (name/id) {'/'.join(filter(None, (name, version)))} was not found in this key vault. "
            "If you recently deleted this secret you may be able to recover it using the correct recovery command.",
        )
    if not secret.enabled:
        raise VaultError(403, "Forbidden", "Operation get is not allowed on a disabled secret.", "SecretDisabled")
    return _json(payload(vault, secret))


@blueprint.put("/secrets/<name>")
def set_secret(name: str) -> Response:
    """Add a version of a secret."""
    vault, grant = _vault(), _grant()
    _check_version()
    _check_right(grant, vault, name, vault.writers, "setSecret")
    value = (request.get_json(silent=True) or {}).get("value")
    if not isinstance(value, str) or not SECRET_NAME.fullmatch(name):
        raise VaultError(400, "BadParameter", "The request body or the name of the secret is invalid.")
    return _json(payload(vault, vault.put(name, value)))


@blueprint.get("/keys/<name>")
@blueprint.get("/keys/<name>/<version>")
def get_key(name: str, version: str = "") -> Response:
    """The public part of a key, or of one version of it."""
    vault, grant = _vault(), _grant()
    _check_version()
    _check_key_right(grant, vault, name, "read")
    key = _key(vault, name, version)
    modulus, exponent = (_base64(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in key.public)
    stated = {"kid": _kid(vault, key), "kty": "RSA", "key_ops": ["sign", "verify"], "n": modulus, "e": exponent}
    return _json({"key": stated, "attributes": {"enabled": True, "recoveryLevel": "Recoverable+Purgeable"}})


@blueprint.post("/keys/<name>/<version>/sign")
def sign(name: str, version: str) -> Response:
    """The signature of a digest."""
    vault, grant = _vault(), _grant()
    _check_version()
    _check_key_right(grant, vault, name, "sign")
    key, body = _key(vault, name, version), request.get_json(silent=True) or {}
    try:
        digest = base64.urlsafe_b64decode(body["value"] + "=" * (-len(body["value"]) % 4))
    except (KeyError, TypeError, ValueError):
        digest = b""
    if body.get("alg") != "RS256" or len(digest) != 32:
        raise VaultError(400, "BadParameter", "The algorithm or the length of the digest is invalid.")
    return _json({"kid": _kid(vault, key), "value": _base64(key.sign(digest))})


def _key(vault: Vault, name: str, version: str) -> Key:
    key = vault.key(name, version)
    if key is None:
        raise VaultError(404, "KeyNotFound", f"A key with (name/id) {name} was not found in this key vault.")
    return key


def _kid(vault: Vault, key: Key) -> str:
    return f"{vault.url}/keys/{key.name}/{key.version}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _check_key_right(grant: Grant, vault: Vault, name: str, action: str) -> None:
    full = f"Microsoft.KeyVault/vaults/keys/{action}/action"
    if may(grant.names, vault.readers):
        return
    if not (vault.azure_id and roles.identity_allows(_model(), grant.names, vault.azure_id, full)):
        message = f"Caller is not authorized to perform action on resource. Action: '{full}' Key: {name}"
        raise VaultError(403, "Forbidden", message, "ForbiddenByRbac")


def payload(vault: Vault, secret: Secret) -> dict[str, Any]:
    """A secret in Azure's format."""
    return {
        "value": secret.value,
        "id": f"{vault.url}/secrets/{secret.name}/{secret.version}",
        "attributes": {
            "enabled": secret.enabled,
            "created": int(secret.created.timestamp()),
            "updated": int(secret.updated.timestamp()),
            "recoveryLevel": "Recoverable+Purgeable",
        },
    }


def _model() -> Model:
    return cast(Model, current_app.config["model"])


def _caller() -> Instance | None:
    return _model().by_address.get(request.remote_addr or "")


def _vault() -> Vault:
    host = request.host.partition(":")[0].lower()
    for vault in _model().vaults.values():
        if vault.host == host:
            return vault
    raise VaultError(404, "VaultNotFound", f"There is no key vault at {host}.")


def _grant() -> Grant:
    """Check the token before anything else: clients send their first request without one, to get the challenge."""
    scheme, _blank, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise _unauthorized(CODES[401][1])
    grant = _model().tokens.find(token.strip())
    if grant is None:
        raise _unauthorized("AKV10001: The token is not one that this service knows, or it has expired.")
    if grant.audience != VAULT:
        raise _unauthorized(f"AKV10022: Invalid audience. Expected {VAULT}, found: {grant.audience}.")
    return grant


def _unauthorized(message: str) -> VaultError:
    tenant = f"https://login.microsoftonline.com/{_model().subscription}"
    challenge = f'Bearer authorization="{tenant}", resource="{VAULT}"'
    return VaultError(401, "Unauthorized", message, headers={"WWW-Authenticate": challenge})


def _check_version() -> None:
    if not API_VERSION.fullmatch(request.args.get("api-version", "")):
        raise VaultError(400, "BadParameter", "The api-version query parameter is missing or not supported.")


def _check_right(grant: Grant, vault: Vault, name: str, allowed: tuple[str, ...], action: str) -> None:
    full = f"Microsoft.KeyVault/vaults/secrets/{action}/action"
    if not may(grant.names, allowed) and not vault.allows(grant.names, action):
        if vault.azure_id and roles.identity_allows(_model(), grant.names, vault.azure_id, full):
            return
        raise VaultError(
            403,
            "Forbidden",
            "Caller is not authorized to perform action on resource. If role assignments, deny assignments or role "
            "definitions were changed recently, please observe propagation time. "
            f"Action: '{full}' Vault: {vault.name} Secret: {name}",
            "ForbiddenByRbac",
        )


def _refusal(fault: Fault) -> Response:
    code, message = CODES.get(fault.status, CODES[500])
    return VaultError(
        fault.status, fault.code or code, fault.message or message, headers=dict(fault.headers)
    ).response()


def _json(body: dict[str, Any]) -> Response:
    return Response(json.dumps(body), content_type=JSON)
