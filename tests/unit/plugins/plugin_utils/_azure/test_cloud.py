# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.cloud import find_cloud, is_loopback
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError


@pytest.mark.parametrize(
    ("name", "endpoint", "authority"),
    [
        ("AzureCloud", "https://management.azure.com", "login.microsoftonline.com"),
        ("AzureUSGovernment", "https://management.usgovcloudapi.net", "login.microsoftonline.us"),
        ("AzureChinaCloud", "https://management.chinacloudapi.cn", "login.chinacloudapi.cn"),
    ],
)
def test_each_cloud_has_its_own_endpoint_and_tokens(name: str, endpoint: str, authority: str) -> None:
    cloud = find_cloud(name, None)

    assert (cloud.endpoint, cloud.authority) == (endpoint, authority)
    assert cloud.scope == f"{endpoint}/.default"
    assert not cloud.loopback
    assert not cloud.plain_http


def test_an_unknown_cloud_names_the_known_ones() -> None:
    with pytest.raises(InventoryError, match="AzureCloud, AzureUSGovernment, AzureChinaCloud"):
        find_cloud("AzureMoonCloud", None)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8470", "http://127.0.0.1:8470/", "http://[::1]:80", "http://localhost:1"]
)
def test_plain_http_is_for_this_machine(endpoint: str) -> None:
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
def test_plain_http_is_refused_for_any_other(endpoint: str) -> None:
    with pytest.raises(InventoryError, match="would send the token unencrypted; use https"):
        find_cloud("AzureCloud", endpoint)


@pytest.mark.parametrize(
    "endpoint",
    ["management.azure.com", "ftp://localhost", "https://", "https://user@host", "https://a/?b", "file:///x"],
)
def test_what_is_no_base_url_is_refused(endpoint: str) -> None:
    with pytest.raises(InventoryError, match="is no base URL"):
        find_cloud("AzureCloud", endpoint)


@pytest.mark.parametrize(
    ("endpoint", "scope"),
    [
        ("https://eastus.management.azure.com", "https://management.azure.com/.default"),
        ("https://management.local.azurestack.external", "https://management.local.azurestack.external/.default"),
        ("https://management.azure.com.example.org", "https://management.azure.com.example.org/.default"),
    ],
)
def test_only_doors_of_a_cloud_get_its_tokens(endpoint: str, scope: str) -> None:
    assert find_cloud("AzureCloud", endpoint).scope == scope


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "LOCALHOST"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", [None, "", "10.0.0.1", "8.8.8.8", "localhost.", "127.0.0.1.nip.io", "::2"])
def test_not_loopback(host: str | None) -> None:
    assert not is_loopback(host)
