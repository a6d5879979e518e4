# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Azure Container Registry: gets a password with the machine's own identity."""

from __future__ import annotations

import json
import re
import time

from .http_get import NoAnswer, Refused, Sleep, get
from .imds import read_token

ROLE = "AcrPull"
"""The built-in Azure role with the fewest permissions that may pull images."""
LIMIT_S = 30.0

_PASSING = (408, 429)
# The resource for tokens, by the registry's cloud. A token is sent to no other host.
_AUDIENCES = {
    "azurecr.io": "https://containerregistry.azure.net",
    "azurecr.cn": "https://management.chinacloudapi.cn",
    "azurecr.us": "https://management.usgovcloudapi.net",
}
_REGISTRY = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9-]{3,62}[a-z0-9])\.(?P<suffix>azurecr\.(?:io|cn|us))(?P<port>:[0-9]{1,5})?"
)


class RegistryError(RuntimeError):
    """No password was received; the message is one line, and never contains a part of a token."""


def audience_of(registry: str) -> str:
    """Return the resource for a token of the registry.

    :raises RegistryError: it is not an Azure registry; this machine's token is sent to no other host.
    """
    found = _REGISTRY.fullmatch(registry)
    if not found:
        raise RegistryError(
            f"{registry!r} is not an Azure container registry: expected NAME.azurecr.io (or .azurecr.cn, .azurecr.us)."
        )
    return _AUDIENCES[found["suffix"]]


def exchange(registry: str, token: str, limit_s: float = LIMIT_S, sleep: Sleep = time.sleep) -> str:
    """Exchange this machine's token for the registry's token: the password of the user whose name is all zeros.

    :param token: an access token for ``audience_of(registry)``.
    :raises RegistryError: the registry cannot be reached, or refuses.
    """
    audience_of(registry)
    url = f"https://{registry}/oauth2/exchange"
    form = {"grant_type": "access_token", "service": registry.partition(":")[0], "access_token": token}
    try:
        body = get(url, {"Accept": "application/json"}, limit_s, _PASSING, sleep, form=form)
    except NoAnswer as error:
        raise RegistryError(f"{registry} gave no answer in {limit_s:.3g} s: {error}.") from None
    except Refused as refused:
        if refused.status in (401, 403):
            raise RegistryError(
                f"this machine's identity may not pull images from {registry} (HTTP status {refused.status}): "
                f'az role assignment create --role "{ROLE}" --assignee-object-id PRINCIPAL --assignee-principal-type '
                f"ServicePrincipal --scope $(az acr show --name {registry.partition('.')[0]} --query id -o tsv)"
            ) from None
        raise RegistryError(f"{registry} answered with {refused}.") from None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    password = answer.get("refresh_token") if isinstance(answer, dict) else None
    if (
        not isinstance(password, str)
        or not password.isascii()
        or not password.isprintable()
        or " " in password
        or not password
    ):
        raise RegistryError(f"{registry} is not a container registry: no refresh_token in its answer.")
    return password


def registry_password(registry: str, client_id: str | None = None, limit_s: float = LIMIT_S) -> str:
    """Return a password for the registry. It is a secret: never write it to logs, arguments or files.

    :param client_id: which identity to use if the machine has several.
    :raises ImdsError: the machine has no such identity.
    :raises RegistryError: the registry cannot be reached, or refuses.
    """
    return exchange(registry, read_token(audience_of(registry), client_id, limit_s), limit_s)
