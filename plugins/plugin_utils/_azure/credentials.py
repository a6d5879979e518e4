# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Azure is used, and who signs in: azure-identity's credentials, by the names of the option ``auth_source``."""

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

# azure-identity's AzureAuthorityHosts and the endpoints of each cloud's documentation, by the names that `az` has.
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
    :ivar scope: what a token must be asked for.
    :ivar authority: host name of the directory that gives out tokens.
    :ivar loopback: it is on this machine, so it is no Azure but a simulated one.
    """

    endpoint: str
    scope: str
    authority: str
    loopback: bool

    @property
    def plain_http(self) -> bool:
        """Whether requests go unencrypted; only ever on this machine."""
        return self.endpoint.startswith("http://")


def find_cloud(name: str, endpoint: str | None) -> Cloud:
    """Return the cloud called ``name``, or the one behind a base URL of its own.

    :raises InventoryError: the name is unknown, or the URL is one that a token must not be sent to.
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
        raise InventoryError(f"endpoint: {endpoint!r} is no base URL such as {home}.")
    loopback = is_loopback(host)
    if split.scheme == "http" and not loopback:
        raise InventoryError(
            f"endpoint: {endpoint!r} would send the token unencrypted; use https (plain http is for this machine only)."
        )
    # A regional or private door of the same cloud takes the cloud's tokens, anything else (Azure Stack) its own.
    home_host = urlsplit(home).hostname or ""
    same_cloud = host == home_host or host.endswith(f".{home_host}")
    return Cloud(base, f"{home if same_cloud else base}/.default", authority, loopback)


def is_loopback(host: str | None) -> bool:
    """Say whether a host name or address is this machine. Other names are not resolved: an answer could change."""
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
# A token that ends within this time is not used any more.
_RENEW_SECONDS = 300


@dataclass(frozen=True)
class Identity:
    """Who the configuration says is asking. The secrets never leave this object but for azure-identity.

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
        """Return what tells two identities apart, without any secret; cached answers are kept apart by it."""
        environment = [
            os.environ.get(name)
            for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_USERNAME", "AZURE_CONFIG_DIR")
        ]
        return [self.auth_source, self.tenant_id, self.client_id, *environment]


def check_identity(identity: Identity, cloud: Cloud) -> None:
    """Refuse an identity that cannot work, or whose secret could end up where it does not belong.

    :raises InventoryError: it says which option to change.
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
    """Return a credential for Azure's SDK, signed in once for all its clients.

    :raises InventoryError: nobody can sign in by these options.
    """
    # The reason why a credential fails is in our own error, not in lines of logging between others.
    logging.getLogger("azure").addHandler(_NO_LOG)
    try:
        return SharedCredential(_credential(identity, cloud))
    except ImportError as error:
        raise missing_package("azure-identity") from error
    except ValueError as error:
        raise InventoryError(f"auth_source: {identity.auth_source} cannot be used: {error}") from error


class SharedCredential:
    """Asks for a token once, however many clients and threads want one.

    The SDK keeps a token per client, and azure-identity starts `az` anew for each of them.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, ...], Any] = {}

    def get_token(self, *scopes: str, **kwargs: Any) -> Any:
        """Return a token for ``scopes``; the method that the SDK calls."""
        with self._lock:
            token = self._tokens.get(scopes)
            # Claims are the service's demand for a better token than the one it was shown.
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

    # Imported late: a cached answer and a simulated Azure need none of it.
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
    # auto: what a machine or a pipeline was given first, then who is logged in. Nothing that opens a window.
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
