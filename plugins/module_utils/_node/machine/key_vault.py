# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Azure Key Vault: reads one secret with the machine's own identity."""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from .cluster_settings import Vault
from .http_get import NoAnswer, Refused, Sleep, get

API_VERSION = "7.4"
ROLE = "Key Vault Secrets User"
"""The built-in Azure role with the fewest permissions that may read a secret."""

# A vault limits the request rate, like IMDS; 408 means a slow network.
_PASSING = (408, 429)
_RIGHTS_PAUSE_S = 5.0
"""Seconds until a request is repeated that was refused because a right is missing. Azure applies a new role assignment
within minutes, and not on all of its servers at once (MicrosoftDocs/azure-docs, role-based-access-control,
troubleshooting)."""
_FIREWALL = ("ForbiddenByFirewall", "ForbiddenByConnection")
_DISABLED = "SecretDisabled"
_TEXT_ENCODINGS = (None, "", "utf-8", "ascii")


class VaultError(RuntimeError):
    """The secret cannot be read; the message is one line, and never contains a part of the secret.

    :ivar action: one line: what to do about it.
    """

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


def read_secret(vault: Vault, secret: str, token: str, limit_s: float, sleep: Sleep = time.sleep) -> bytes:
    """Return the newest version of ``secret``: the bytes of its text, decoded if it is base64.

    Azure's command line stores base64 with ``--encoding base64``, and marks such a secret with the tag
    ``file-encoding``. A missing right is waited for, because it may be new.

    :param token: an access token for ``vault.resource``.
    :param limit_s: timeout for all attempts together.
    :raises VaultError: the vault cannot be reached, or refuses.
    """
    what = f"secret {secret} of key vault {vault.name}"
    url = f"{vault.url}/secrets/{secret}?api-version={API_VERSION}"
    body = _allowed(vault, secret, url, {"Authorization": f"Bearer {token}"}, limit_s, sleep)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("value"), str):
        raise VaultError(f"{vault.url} is not a key vault: no value in its answer", "correct its name")
    return _bytes_of(document, what)


def _allowed(vault: Vault, secret: str, url: str, headers: Mapping[str, str], limit_s: float, sleep: Sleep) -> bytes:
    """Return the vault's answer, after waiting for the right to it.

    :raises VaultError: the vault cannot be reached, or refuses until ``limit_s`` is over.
    """
    deadline = time.monotonic() + limit_s
    refusal: VaultError | None = None
    while True:
        try:
            return get(url, headers, deadline - time.monotonic(), _PASSING, sleep)
        except NoAnswer as error:
            raise refusal or VaultError(
                f"key vault {vault.name} gave no answer in {limit_s:.3g} s: {error}",
                f"check that this machine can reach {vault.url} directly: name, route, firewall, private endpoint",
            ) from None
        except Refused as refused:
            refusal = _explained(vault, secret, refused)
            lacks_right = refused.status == 403 and _reason(refused.body) not in (*_FIREWALL, _DISABLED)
            if not lacks_right or time.monotonic() + _RIGHTS_PAUSE_S >= deadline:
                raise refusal from None
        sleep(_RIGHTS_PAUSE_S)


def _bytes_of(document: dict[str, Any], what: str) -> bytes:
    tags = document.get("tags")
    encoding = tags.get("file-encoding") if isinstance(tags, dict) else None
    if encoding in _TEXT_ENCODINGS:
        return str(document["value"]).encode("utf-8", "surrogatepass")
    if encoding == "base64":
        try:
            return base64.b64decode("".join(document["value"].split()), validate=True)
        except (binascii.Error, ValueError):
            pass
        raise VaultError(f"{what} has the tag file-encoding=base64, but is not valid base64", _store(what))
    raise VaultError(f"{what} has the tag file-encoding={encoding}, which is not supported", _store(what))


def _store(what: str) -> str:
    return f"store {what} again with --encoding base64, or as plain text"


def _explained(vault: Vault, secret: str, refused: Refused) -> VaultError:
    """Return why the vault refused, and the command that corrects it."""
    where = f"key vault {vault.name}"
    reason = _reason(refused.body)
    if refused.status == 401:
        return VaultError(
            f"{where} does not know this machine's identity (HTTP status 401)",
            "check that the vault is in the tenant of the machine's identity",
        )
    if refused.status == 404:
        return VaultError(
            f"{where} has no secret {secret} (HTTP status 404)",
            f"az keyvault secret set --vault-name {vault.name} --name {secret} --file KEYFILE --encoding base64",
        )
    if refused.status != 403:
        return VaultError(f"{where} answered with {refused}{reason and f', {reason}'}", f"correct {vault.url}")
    if reason in _FIREWALL:
        return VaultError(
            f"{where} does not allow access from this network (HTTP status 403, {reason})",
            f"az keyvault network-rule add --name {vault.name} --subnet SUBNET, or give the vault a private endpoint",
        )
    if reason == _DISABLED:
        return VaultError(
            f"secret {secret} of {where} is disabled, expired or not valid yet (HTTP status 403)",
            f"az keyvault secret set-attributes --vault-name {vault.name} --name {secret} --enabled true",
        )
    return VaultError(
        f"this machine's identity may not read secret {secret} of {where} (HTTP status 403{reason and f', {reason}'})",
        f'az role assignment create --role "{ROLE}" --assignee-object-id PRINCIPAL --assignee-principal-type '
        f"ServicePrincipal --scope $(az keyvault show --name {vault.name} --query id -o tsv)/secrets/{secret}",
    )


def _reason(body: bytes) -> str:
    """Return the innermost error code of the vault's answer."""
    try:
        error = json.loads(body)["error"]
        code = (error.get("innererror") or {}).get("code") or error.get("code") or ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return code if isinstance(code, str) and re.fullmatch(r"[A-Za-z]{1,60}", code) else ""
