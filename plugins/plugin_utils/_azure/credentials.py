# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Azure cloud and the credentials of azure-identity, selected by the option ``auth_source``."""

from __future__ import annotations

import ipaddress
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .errors import InventoryError, missing_package

_PUBLIC = "AzureCloud"

# Endpoints from each cloud's documentation and azure-identity's AzureAuthorityHosts, by the names that `az` uses.
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
    :ivar scope: the scope of its tokens.
    :ivar authority: host name of the directory that issues tokens.
    :ivar loopback: whether it is on this machine, and therefore a simulated Azure.
    """

    endpoint: str
    scope: str
    authority: str
    loopback: bool

    @property
    def plain_http(self) -> bool:
        """Whether requests are unencrypted. This is only possible on this machine."""
        return self.endpoint.startswith("http://")


def find_cloud(name: str, endpoint: str | None) -> Cloud:
    """Return the cloud with this name, or the one at the given base URL.

    :raises InventoryError: the name is unknown, or a token must not be sent to the URL.
    """
    if name not in _CLOUDS:
        raise InventoryError(f"cloud: {name!r} is unknown; known are {', '.join(CLOUD_NAMES)}.")
    home, authority = _CLOUDS[name]
    if not endpoint:
        return Cloud(home, f"{home}/.default", authority, loopback=False)
    base = endpoint.rstrip("/")
    split = urlsplit(base)
    host = split.hostname
    if split.scheme not in ("http", "https") or not host or split.query or split.fragment or split.username:
        raise InventoryError(f"endpoint: {endpoint!r} is not a base URL such as {home}.")
    loopback = is_loopback(host)
    if split.scheme == "http" and not loopback:
        raise InventoryError(
            f"endpoint: {endpoint!r} would send the token unencrypted; use https (plain http is for this machine only)."
        )
    # A regional or private endpoint of the cloud uses the cloud's tokens. Other endpoints (Azure Stack) use their own.
    home_host = urlsplit(home).hostname or ""
    same_cloud = host == home_host or host.endswith(f".{home_host}")
    return Cloud(base, f"{home if same_cloud else base}/.default", authority, loopback)


def is_loopback(host: str | None) -> bool:
    """Say whether a host name or address is this machine. Names are not resolved, because the result could change."""
    if not host:
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


AUTH_SOURCES = (
    "auto",
    "cli",
    "managed_identity",
    "workload_identity",
    "service_principal",
    "environment",
    "token",
)

_NO_LOG = logging.NullHandler()
# A token that expires within this time is renewed.
_RENEW_SECONDS = 300


@dataclass(frozen=True)
class Identity:
    """The configured identity. Its secrets are only passed to azure-identity.

    :ivar auth_source: one of ``AUTH_SOURCES``.
    """

    auth_source: str = "auto"
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    certificate_path: str | None = None
    token: str | None = None

    def __repr__(self) -> str:
        return f"Identity({self.auth_source!r}, tenant_id={self.tenant_id!r}, client_id={self.client_id!r})"

    def fingerprint(self) -> list[str | None]:
        """Return the values that distinguish identities, without secrets. They are part of the cache key."""
        environment = [
            os.environ.get(name)
            for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_USERNAME", "AZURE_CONFIG_DIR")
        ]
        return [self.auth_source, self.tenant_id, self.client_id, *environment]


def check_identity(identity: Identity, cloud: Cloud) -> None:
    """Refuse an identity that cannot work, or whose secret could be sent to the wrong place.

    :raises InventoryError: an option is invalid. The message names it.
    """
    if identity.auth_source not in AUTH_SOURCES:
        raise InventoryError(f"auth_source: {identity.auth_source!r} is unknown; known are {', '.join(AUTH_SOURCES)}.")
    if _uses_token(identity) and not cloud.loopback:
        raise InventoryError(
            f"token: a fixed token is sent to a simulated Azure on this machine only, not to {cloud.endpoint}; "
            "remove it (also HPCAI_AZURE_TOKEN) and set auth_source."
        )
    if identity.auth_source == "token" and not identity.token:
        raise InventoryError(
            "auth_source: token needs the option token, or the environment variable HPCAI_AZURE_TOKEN."
        )
    if identity.auth_source == "service_principal":
        missing = [name for name in ("tenant_id", "client_id") if not getattr(identity, name)]
        if not identity.client_secret and not identity.certificate_path:
            missing.append("client_secret or certificate_path")
        if missing:
            raise InventoryError(f"auth_source: service_principal needs {', '.join(missing)}.")


def make_credential(identity: Identity, cloud: Cloud) -> Any:
    """Return a credential for Azure's SDK that all its clients share.

    :raises InventoryError: sign-in with these options is not possible.
    """
    # The error message contains the reason why a credential fails, so the SDK's log lines are suppressed.
    logging.getLogger("azure").addHandler(_NO_LOG)
    try:
        return SharedCredential(_credential(identity, cloud))
    except ImportError as error:
        raise missing_package("azure-identity") from error
    except ValueError as error:
        raise InventoryError(f"auth_source: {identity.auth_source} cannot be used: {error}") from error


class SharedCredential:
    """Requests a token once for all clients and threads.

    The SDK caches tokens per client, and azure-identity starts `az` for each of them.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, ...], Any] = {}

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:
        """Return a token for ``scopes``. The SDK calls this method."""
        with self._lock:
            token = self._tokens.get(scopes)
            # With claims, the service demands a new token.
            if token is None or kwargs.get("claims") or token.expires_on < time.time() + _RENEW_SECONDS:
                token = self._tokens[scopes] = self._inner.get_token(*scopes, **kwargs)
            return token


class _FixedToken:
    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:
        from azure.core.credentials import AccessToken

        return AccessToken(self._token, int(time.time()) + 86400)


def _uses_token(identity: Identity) -> bool:
    return bool(identity.token) and identity.auth_source in ("auto", "token")


def _credential(identity: Identity, cloud: Cloud) -> Any:
    if _uses_token(identity):
        return _FixedToken(str(identity.token))

    # Imported only here, because a cached answer and a simulated Azure do not need it.
    from azure import identity as sdk

    by_client: dict[str, Any] = {"client_id": identity.client_id} if identity.client_id else {}
    by_tenant: dict[str, Any] = {"tenant_id": identity.tenant_id} if identity.tenant_id else {}
    match identity.auth_source:
        case "cli":
            return sdk.AzureCliCredential(**by_tenant)
        case "managed_identity":
            return sdk.ManagedIdentityCredential(**by_client)
        case "workload_identity":
            return sdk.WorkloadIdentityCredential(authority=cloud.authority, **by_client, **by_tenant)
        case "environment":
            return sdk.EnvironmentCredential(authority=cloud.authority)
        case "service_principal" if identity.certificate_path:
            return sdk.CertificateCredential(
                str(identity.tenant_id),
                str(identity.client_id),
                identity.certificate_path,
                authority=cloud.authority,
            )
        case "service_principal":
            return sdk.ClientSecretCredential(
                str(identity.tenant_id),
                str(identity.client_id),
                str(identity.client_secret),
                authority=cloud.authority,
            )
    # auto: first the identity of a machine or a pipeline, then the account of `az login`. Nothing that opens a window.
    return sdk.DefaultAzureCredential(
        authority=cloud.authority,
        managed_identity_client_id=identity.client_id,
        workload_identity_client_id=identity.client_id,
        exclude_shared_token_cache_credential=True,
        exclude_visual_studio_code_credential=True,
        exclude_developer_cli_credential=True,
        exclude_powershell_credential=True,
        exclude_interactive_browser_credential=True,
    )
