# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which cloud is used, and with which identity the plugin signs in."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from azure import identity as sdk
from azure.core.credentials import AccessToken

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure import credentials
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.credentials import (
    AUTH_SOURCES,
    Identity,
    SharedCredential,
    check_identity,
    find_cloud,
    is_loopback,
    make_credential,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError


@pytest.mark.parametrize(
    ("name", "endpoint", "authority"),
    [
        ("AzureCloud", "https://management.azure.com", "login.microsoftonline.com"),
        ("AzureUSGovernment", "https://management.usgovcloudapi.net", "login.microsoftonline.us"),
        ("AzureChinaCloud", "https://management.chinacloudapi.cn", "login.chinacloudapi.cn"),
    ],
)
def test_each_cloud_has_its_own_endpoint_and_token_scope(name: str, endpoint: str, authority: str) -> None:
    cloud = find_cloud(name, None)

    assert (cloud.endpoint, cloud.authority) == (endpoint, authority)
    assert cloud.scope == f"{endpoint}/.default"
    assert not cloud.loopback
    assert not cloud.plain_http


def test_an_unknown_cloud_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(InventoryError, match="AzureCloud, AzureUSGovernment, AzureChinaCloud"):
        find_cloud("AzureMoonCloud", None)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8470", "http://127.0.0.1:8470/", "http://[::1]:80", "http://localhost:1"]
)
def test_plain_http_is_allowed_for_loopback(endpoint: str) -> None:
    cloud = find_cloud("AzureCloud", endpoint)

    assert cloud.loopback
    assert cloud.plain_http
    assert cloud.scope == f"{endpoint.rstrip('/')}/.default"


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://management.azure.com",
        "http://10.0.0.4",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "http://0.0.0.0",
    ],
)
def test_plain_http_is_refused_for_other_hosts(endpoint: str) -> None:
    with pytest.raises(InventoryError, match="would send the token unencrypted; use https"):
        find_cloud("AzureCloud", endpoint)


@pytest.mark.parametrize(
    "endpoint",
    ["management.azure.com", "ftp://localhost", "https://", "https://user@host", "https://a/?b", "file:///x"],
)
def test_refuses_an_endpoint_that_is_not_a_base_url(endpoint: str) -> None:
    with pytest.raises(InventoryError, match="is not a base URL"):
        find_cloud("AzureCloud", endpoint)


@pytest.mark.parametrize(
    ("endpoint", "scope"),
    [
        ("https://eastus.management.azure.com", "https://management.azure.com/.default"),
        ("https://management.local.azurestack.external", "https://management.local.azurestack.external/.default"),
        ("https://management.azure.com.example.org", "https://management.azure.com.example.org/.default"),
    ],
)
def test_only_endpoints_of_a_cloud_get_its_tokens(endpoint: str, scope: str) -> None:
    assert find_cloud("AzureCloud", endpoint).scope == scope


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "LOCALHOST"])
def test_recognises_loopback_hosts(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", [None, "", "10.0.0.1", "8.8.8.8", "localhost.", "127.0.0.1.nip.io", "::2"])
def test_does_not_treat_other_hosts_as_loopback(host: str | None) -> None:
    assert not is_loopback(host)


AZURE = find_cloud("AzureCloud", None)
GOVERNMENT = find_cloud("AzureUSGovernment", None)
HERE = find_cloud("AzureCloud", "http://127.0.0.1:8470")
SECRETS = {"client_secret": "s3cret", "token": "t0ken"}


class Counting:
    """A credential that records the requests for tokens."""

    def __init__(self, lifetime: float = 3600) -> None:
        self.calls: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        self.lifetime = lifetime

    def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        self.calls.append((scopes, kwargs))
        time.sleep(0.01)
        return AccessToken(f"token {len(self.calls)}", int(time.time() + self.lifetime))


@pytest.mark.parametrize("auth_source", ["auto", "token"])
def test_a_fixed_token_is_allowed_for_loopback_only(auth_source: str) -> None:
    identity = Identity(auth_source, token="t0ken")

    check_identity(identity, HERE)
    with pytest.raises(
        InventoryError, match="a fixed token is sent to a simulated Azure on this machine only"
    ) as raised:
        check_identity(identity, AZURE)
    assert "t0ken" not in str(raised.value)


def test_another_auth_source_ignores_a_fixed_token() -> None:
    check_identity(Identity("cli", token="t0ken"), AZURE)


def test_a_fixed_token_is_returned_unchanged() -> None:
    token = make_credential(Identity("auto", token="t0ken"), HERE).get_token(HERE.scope)

    assert token.token == "t0ken"
    assert token.expires_on > time.time() + 3600


def test_auth_source_token_requires_a_token() -> None:
    with pytest.raises(InventoryError, match="HPCAI_AZURE_TOKEN"):
        check_identity(Identity("token"), HERE)


def test_an_unknown_auth_source_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(InventoryError, match="managed_identity"):
        check_identity(Identity("password"), AZURE)


def test_an_incomplete_service_principal_lists_all_missing_options() -> None:
    with pytest.raises(InventoryError, match="needs tenant_id, client_id, client_secret or certificate_path"):
        check_identity(Identity("service_principal"), AZURE)


def test_a_complete_service_principal_is_accepted() -> None:
    check_identity(Identity("service_principal", "tenant", "client", "secret"), AZURE)
    check_identity(Identity("service_principal", "tenant", "client", certificate_path="/c.pem"), AZURE)


@pytest.mark.parametrize(
    ("auth_source", "kind"),
    [
        ("auto", sdk.DefaultAzureCredential),
        ("cli", sdk.AzureCliCredential),
        ("managed_identity", sdk.ManagedIdentityCredential),
        ("workload_identity", sdk.WorkloadIdentityCredential),
        ("service_principal", sdk.ClientSecretCredential),
        ("environment", sdk.EnvironmentCredential),
    ],
)
def test_each_auth_source_uses_its_class_of_azure_identity(
    auth_source: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", "/token")
    tenant = "11111111-1111-1111-1111-111111111111"

    credential = make_credential(Identity(auth_source, tenant, tenant, "secret"), GOVERNMENT)

    assert isinstance(credential._inner, kind)


def test_every_auth_source_is_tested_here() -> None:
    assert set(AUTH_SOURCES) == {
        *("auto", "cli", "managed_identity", "workload_identity", "service_principal", "environment", "token")
    }


def test_a_sovereign_cloud_has_its_own_sign_in_host() -> None:
    credential = make_credential(Identity("service_principal", "tenant", "client", "secret"), GOVERNMENT)

    assert "login.microsoftonline.us" in str(vars(credential._inner))


def test_auth_source_auto_never_opens_a_browser() -> None:
    chain = make_credential(Identity("auto"), AZURE)._inner.credentials

    assert not [link for link in chain if "Interactive" in type(link).__name__ or "SharedToken" in type(link).__name__]
    assert [link for link in chain if isinstance(link, sdk.AzureCliCredential)]


def test_all_threads_share_one_token() -> None:
    inner = Counting()
    shared = SharedCredential(inner)
    threads = [threading.Thread(target=shared.get_token, args=("scope",)) for _thread in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(inner.calls) == 1
    shared.get_token("other")
    assert len(inner.calls) == 2


def test_a_token_that_expires_soon_is_renewed() -> None:
    inner = Counting(lifetime=60)
    shared = SharedCredential(inner)

    shared.get_token("scope")
    shared.get_token("scope")

    assert len(inner.calls) == 2


def test_additional_claims_are_passed_on() -> None:
    inner = Counting()
    shared = SharedCredential(inner)

    shared.get_token("scope")
    shared.get_token("scope", claims="more")

    assert inner.calls[1] == (("scope",), {"claims": "more"})


def test_secrets_are_not_in_the_repr_or_the_fingerprint() -> None:
    identity = Identity("auto", "tenant", "client", **SECRETS)

    for secret in SECRETS.values():
        assert secret not in repr(identity)
        assert secret not in str(identity.fingerprint())


@pytest.mark.parametrize(
    "other", [Identity("cli"), Identity("auto", tenant_id="other"), Identity("auto", client_id="other")]
)
def test_different_identities_have_different_fingerprints(other: Identity) -> None:
    assert other.fingerprint() != Identity("auto").fingerprint()


def test_the_error_names_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: Any) -> Any:
        raise ImportError("azure.identity")

    monkeypatch.setattr(credentials, "_credential", missing)

    with pytest.raises(InventoryError, match=r"azure-identity is missing .* requirements.txt"):
        make_credential(Identity(), find_cloud("AzureCloud", None))
