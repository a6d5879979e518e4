# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container registry over real TLS: its password for the machine's token, and what is never displayed."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from stand_ins.http_service import Answer, Service

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import containers
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import registry
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.registry import RegistryError, exchange
from simulator.authority import Authority

HOST = "training.azurecr.io"
TOKEN, PASSWORD = "eyJ0.token-of-the-machine", "eyJ0.refresh-token-of-the-registry"
GOOD: Answer = (200, {}, json.dumps({"refresh_token": PASSWORD}).encode())

Serve = Callable[..., tuple[Service, str]]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A function that starts a registry at a registry's name."""
    authority = Authority.fresh("azurecr.io")
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(authority.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *more, **named: resolve("127.0.0.1" if host == HOST else host, *more, **named),
    )
    started: list[Service] = []

    def start(*answers: Answer) -> tuple[Service, str]:
        started.append(Service(*answers, tls=authority.server_context([HOST])))
        return started[-1], f"{HOST}:{started[-1].port}"

    yield start
    for service in started:
        service.stop()


def failure(name: str) -> str:
    """Request the password from this registry; return the error."""
    with pytest.raises(RegistryError) as caught:
        exchange(name, TOKEN, 2, sleep=lambda _seconds: None)
    assert TOKEN not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_machines_token_is_exchanged_for_the_registrys_token(serve: Serve) -> None:
    service, name = serve(GOOD)
    assert exchange(name, TOKEN, 5) == PASSWORD
    assert service.requests[0][0] == "/oauth2/exchange"
    assert parse_qs(service.posted[0].decode()) == {
        "grant_type": ["access_token"],
        "service": [HOST],
        "access_token": [TOKEN],
    }


@pytest.mark.parametrize("status", [429, 503])
def test_temporary_errors_are_retried(serve: Serve, status: int) -> None:
    service, name = serve((status, {}, b""), GOOD)
    assert exchange(name, TOKEN, 5, sleep=lambda _seconds: None) == PASSWORD
    assert len(service.posted) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_the_error_of_an_identity_without_the_role_names_the_role(serve: Serve, status: int) -> None:
    _service, name = serve((status, {}, b"{}"))
    assert 'az role assignment create --role "AcrPull"' in failure(name)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"refresh_token": "two words"}', b'{"refresh_token": 1}'])
def test_an_answer_that_is_not_a_registrys_is_an_error(serve: Serve, body: bytes) -> None:
    _service, name = serve((200, {}, body))
    assert "is not a container registry" in failure(name)


@pytest.mark.parametrize(
    "name", ["example.com", "training.azurecr.io.example.com", "a b.azurecr.io", "x@evil.azurecr.io"]
)
def test_names_that_are_not_azure_registries_are_refused(name: str) -> None:
    assert "is not an Azure container registry" in failure(name)


@pytest.mark.parametrize(
    ("name", "audience"),
    [
        ("training.azurecr.io", "https://containerregistry.azure.net"),
        ("training.azurecr.cn", "https://management.chinacloudapi.cn"),
        ("training.azurecr.us", "https://management.usgovcloudapi.net"),
    ],
)
def test_each_cloud_has_its_audience(name: str, audience: str) -> None:
    assert registry.audience_of(name) == audience


def test_hpcnode_prints_the_password_and_nothing_else(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _service, name = serve(GOOD)
    asked: list[Any] = []

    def token(*arguments: Any) -> str:
        asked.append(arguments)
        return TOKEN

    monkeypatch.setattr(registry, "read_token", token)
    identity = "11111111-2222-3333-4444-555555555555"
    status = main(["containers", "token", name, "--client-id", identity], (containers.COMMAND,))
    assert (status, capsys.readouterr().out) == (0, f"{PASSWORD}\n")
    assert asked[0][:2] == ("https://containerregistry.azure.net", identity)
