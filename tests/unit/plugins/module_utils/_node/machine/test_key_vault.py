# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The key vault over real TLS: which answers are accepted, and what must not happen meanwhile."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from stand_ins.http_service import Answer, Service

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import key_vault
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import Vault, vault_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.key_vault import VaultError, read_secret
from simulator.authority import Authority

HOST = "hpcai-sim.vault.azure.net"
TOKEN = "eyJ0.token-of-the-machine"
KEY = "s3cretKeyThatNobodyMaySee0123456789"
GOOD: Answer = (200, {}, json.dumps({"value": KEY, "id": f"https://{HOST}/secrets/munge-key/1"}).encode())

Serve = Callable[..., tuple[Service, Vault]]


@pytest.fixture(scope="module")
def authority() -> Authority:
    """The certificate authority of the vault."""
    return Authority.fresh()


@pytest.fixture
def serve(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A function that starts vaults at a vault's name, which this process trusts as a node trusts Azure's."""
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(authority.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    resolve = socket.getaddrinfo

    def here(host: Any, *arguments: Any, **named: Any) -> Any:
        return resolve("127.0.0.1" if str(host).endswith(".vault.azure.net") else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    started: list[Service] = []

    def start(*answers: Answer, name: str = HOST, **named: Any) -> tuple[Service, Vault]:
        started.append(Service(*answers, tls=authority.server_context([name]), **named))
        return started[-1], vault_of(f"https://{HOST}:{started[-1].port}")

    yield start
    for service in started:
        service.stop()


def refusal(status: int, code: str, inner: str = "") -> Answer:
    """An error as Key Vault returns it, with details of the caller that must not be displayed."""
    error: dict[str, Any] = {"code": code, "message": "Caller is not authorized.\r\nCaller: appid=1;oid=2"}
    if inner:
        error["innererror"] = {"code": inner}
    return status, {}, json.dumps({"error": error}).encode()


def failure(vault: Vault, limit_s: float = 2.0) -> VaultError:
    """Read from this vault; return the error."""
    with pytest.raises(VaultError) as caught:
        read_secret(vault, "munge-key", TOKEN, limit_s, sleep=lambda _seconds: None)
    text = f"{caught.value} {caught.value.action}"
    assert TOKEN not in text
    assert KEY not in text
    assert "\n" not in text
    return caught.value


def test_the_newest_version_is_read_with_a_bearer_token(serve: Serve) -> None:
    service, vault = serve(GOOD)
    assert read_secret(vault, "munge-key", TOKEN, 5) == KEY.encode()
    path, headers = service.requests[0]
    assert path == "/secrets/munge-key?api-version=7.4"
    assert headers["authorization"] == f"Bearer {TOKEN}"


def test_a_secret_that_is_tagged_as_base64_is_decoded(serve: Serve) -> None:
    stored = {"value": "AP/+\n/w==", "tags": {"file-encoding": "base64"}}
    _service, vault = serve((200, {}, json.dumps(stored).encode()))
    assert read_secret(vault, "munge-key", TOKEN, 5) == b"\x00\xff\xfe\xff"


@pytest.mark.parametrize("tags", [None, {}, {"file-encoding": "utf-8"}, {"owner": "x"}])
def test_any_other_secret_is_used_unchanged(serve: Serve, tags: Any) -> None:
    _service, vault = serve((200, {}, json.dumps({"value": "Grüße==\n", "tags": tags}).encode()))
    assert read_secret(vault, "munge-key", TOKEN, 5) == "Grüße==\n".encode()


@pytest.mark.parametrize(("encoding", "value"), [("base64", "#not base64#"), ("base64", "ü"), ("utf-16le", KEY)])
def test_the_error_of_an_invalid_encoding_does_not_contain_the_secret(serve: Serve, encoding: str, value: str) -> None:
    _service, vault = serve((200, {}, json.dumps({"value": value, "tags": {"file-encoding": encoding}}).encode()))
    error = failure(vault)
    assert f"file-encoding={encoding}" in str(error)
    assert value not in str(error)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_temporary_errors_are_retried(serve: Serve, status: int) -> None:
    service, vault = serve((status, {}, b""), (status, {}, b""), GOOD)
    slept: list[float] = []
    assert read_secret(vault, "munge-key", TOKEN, 5, sleep=slept.append) == KEY.encode()
    assert (slept, len(service.requests)) == ([0.2, 0.5], 3)


@pytest.mark.parametrize(
    ("answer", "message", "action"),
    [
        (refusal(401, "Unauthorized"), "does not know this machine's identity", "tenant"),
        (
            refusal(403, "Forbidden", "ForbiddenByRbac"),
            "this machine's identity may not read secret munge-key of key vault hpcai-sim (HTTP status 403, Forb",
            'az role assignment create --role "Key Vault Secrets User"',
        ),
        (refusal(403, "Forbidden", "AccessDenied"), "may not read secret munge-key", "Key Vault Secrets User"),
        (refusal(403, "Forbidden"), "may not read secret munge-key", "Key Vault Secrets User"),
        ((403, {}, b"<html>"), "may not read secret munge-key", "Key Vault Secrets User"),
        (
            refusal(403, "Forbidden", "ForbiddenByFirewall"),
            "does not allow access from this network",
            "network-rule add",
        ),
        (
            refusal(403, "Forbidden", "ForbiddenByConnection"),
            "does not allow access from this network",
            "private endpoint",
        ),
        (refusal(403, "Forbidden", "SecretDisabled"), "is disabled, expired", "set-attributes"),
        (refusal(404, "SecretNotFound"), "has no secret munge-key", "az keyvault secret set --vault-name hpcai-sim"),
        (refusal(400, "BadParameter"), "answered with HTTP status 400, BadParameter", "correct"),
        (refusal(400, "no\r\ncode"), "answered with HTTP status 400", "correct"),
    ],
)
def test_a_refusal_names_what_is_missing_and_the_command_that_helps(
    serve: Serve, answer: Answer, message: str, action: str
) -> None:
    service, vault = serve(answer, GOOD)
    error = failure(vault)
    assert message in str(error)
    assert action in error.action
    assert len(service.requests) == 1


LACKING = [
    refusal(403, "Forbidden", "ForbiddenByRbac"),
    refusal(403, "Forbidden", "AccessDenied"),
    refusal(403, "Forbidden"),
]
FINAL = [
    *(refusal(403, "Forbidden", one) for one in ("ForbiddenByFirewall", "ForbiddenByConnection", "SecretDisabled")),
    refusal(401, "Unauthorized"),
    refusal(404, "SecretNotFound"),
]


@pytest.mark.parametrize("answer", LACKING)
def test_a_right_that_is_new_is_waited_for(serve: Serve, answer: Answer) -> None:
    """Azure's servers do not all learn of it at once, so it can be refused again."""
    service, vault = serve(answer, answer, (503, {}, b""), answer, GOOD)
    slept: list[float] = []
    assert read_secret(vault, "munge-key", TOKEN, 30, sleep=slept.append) == KEY.encode()
    assert slept == [5.0, 5.0, 0.2, 5.0]
    assert len(service.requests) == 5


@pytest.mark.parametrize("answer", FINAL)
def test_no_other_refusal_is_waited_for(serve: Serve, answer: Answer) -> None:
    service, vault = serve(answer, GOOD)
    failure(vault, 30)
    assert len(service.requests) == 1


def test_a_right_that_stays_missing_takes_no_longer_than_the_limit(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_vault, "_RIGHTS_PAUSE_S", 0.2)
    service, vault = serve(*[LACKING[0]] * 50)
    begun = time.monotonic()
    with pytest.raises(VaultError, match="may not read secret munge-key"):
        read_secret(vault, "munge-key", TOKEN, 1.0)
    assert time.monotonic() - begun < 1.5
    assert 2 <= len(service.requests) <= 5


def test_a_vault_that_refuses_and_then_is_silent_has_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_vault, "_RIGHTS_PAUSE_S", 0.1)
    _service, vault = serve(LACKING[0], *[(503, {}, b"")] * 50)
    assert "may not read secret munge-key" in str(failure(vault, 1.0))


def test_redirects_are_not_followed(serve: Serve) -> None:
    elsewhere, _vault = serve(GOOD)
    _service, vault = serve((302, {"Location": f"https://{HOST}:{elsewhere.port}/secrets/munge-key"}, b""))
    assert "HTTP status 302" in str(failure(vault))
    assert elsewhere.requests == []


def test_proxies_of_the_environment_are_ignored(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    _service, vault = serve(GOOD)
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert read_secret(vault, "munge-key", TOKEN, 5) == KEY.encode()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"value": 4}', b"\xff\xfe", b"[" * 100000])
def test_an_answer_without_a_secret_is_an_error(serve: Serve, body: bytes) -> None:
    _service, vault = serve((200, {}, body))
    assert "is not a key vault" in str(failure(vault))


def test_a_server_with_another_name_gets_no_token(serve: Serve) -> None:
    service, vault = serve(GOOD, name="other.vault.azure.net")
    assert "certificate" in str(failure(vault, 0.3)).lower()
    assert service.requests == []


def test_a_server_of_an_unknown_authority_gets_no_token(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, vault = serve(GOOD)
    (tmp_path / "strangers.crt").write_bytes(Authority.fresh().certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "strangers.crt"))
    assert "certificate" in str(failure(vault, 0.3)).lower()
    assert service.requests == []


def test_a_silent_vault_takes_no_longer_than_the_limit(serve: Serve) -> None:
    _service, vault = serve(GOOD, before=lambda _request: time.sleep(1.5))
    begun = time.monotonic()
    assert "gave no answer in 0.3 s" in str(failure(vault, 0.3))
    assert time.monotonic() - begun < 1


def test_a_slow_answer_takes_no_longer_than_the_limit(serve: Serve) -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        for drop in b"HTTP/1.0 200 OK\r\nX-Slow: " + b"x" * 40:
            request.wfile.write(bytes((drop,)))
            request.wfile.flush()
            time.sleep(0.05)

    _service, vault = serve(GOOD, before=drip)
    begun = time.monotonic()
    assert "gave no answer in 0.4 s" in str(failure(vault, 0.4))
    assert time.monotonic() - begun < 1


def test_a_slow_name_lookup_takes_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(*_arguments: Any, **_named: Any) -> Any:
        time.sleep(1.5)
        raise OSError("nobody knows")

    monkeypatch.setattr(socket, "getaddrinfo", forever)
    begun = time.monotonic()
    assert "gave no answer in 0.3 s" in str(failure(vault_of(f"https://{HOST}"), 0.3))
    assert time.monotonic() - begun < 1
