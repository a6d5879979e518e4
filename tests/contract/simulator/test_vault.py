# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Key vaults, with requests like those of a node: over TLS, with a token of its managed identity."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import stat
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import vault_keys
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import vault_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.key_vault import VaultError
from simulator import TOKEN, authority, imds
from simulator.testing import Simulator, running

HOST = "hpcai-sim.vault.azure.net"
SECRET = "kept-by-the-vault-alone"
SCENARIO: dict[str, Any] = {
    "key_vaults": [
        {
            "name": "hpcai-sim",
            "secrets": {"munge-key": "generated", "fixed": SECRET},
            "keys": ["checkpoints"],
            "readers": ["uni", "ctl"],
            "writers": ["ctl"],
        },
    ],
    "virtual_machines": [{"name": "ctl"}, {"name": "stranger"}, {"name": "nobody", "identity": False}],
    "scale_sets": [
        {"name": "uni", "capacity": 1, "instance_ids": [0]},
        {"name": "two", "capacity": 1, "identity": False, "client_ids": ["11111111-0000-4000-8000-000000000001"]},
    ],
}
VAULT = "https://vault.azure.net"
MANAGEMENT = "https://management.azure.com/"


class Answer(NamedTuple):
    """The answer of a vault."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """Azure's error code."""
        return str(self.body["error"]["code"])


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator without machines."""
    with running(SCENARIO) as simulated:
        yield simulated


class Connection(HTTPSConnection):
    """A connection to the simulator's port for any host name."""

    def connect(self) -> None:
        """Connect to loopback; TLS uses the host name."""
        name, self.host = self.host, "127.0.0.1"
        try:
            super(HTTPSConnection, self).connect()
        finally:
            self.host = name
        self.sock = self._context.wrap_socket(self.sock, server_hostname=name)  # type: ignore[attr-defined]


def ask(
    simulator: Simulator,
    path: str,
    token: str | None = None,
    *,
    host: str = HOST,
    method: str = "GET",
    body: str | None = None,
    query: str = "?api-version=7.4",
    timeout: float = 10,
) -> Answer:
    """Send a request to the vault."""
    trust = ssl.create_default_context(cadata=simulator.authority.decode())
    connection = Connection(host, simulator.tls_port, context=trust, timeout=timeout)
    headers = {"Host": host} | ({"Authorization": f"Bearer {token}"} if token else {})
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, f"/secrets/{path}{query}", body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, json.loads(answer.read()), dict(answer.getheaders()))
    finally:
        connection.close()


def token_answer(simulator: Simulator, instance: str, **query: str) -> requests.Response:
    """The answer of the metadata service to a machine's request for a token."""
    return requests.get(
        f"{simulator.imds_endpoint}/metadata/identity/oauth2/token",
        params={"api-version": "2018-02-01", "resource": VAULT, **query},
        headers={"Metadata": "true", imds.INSTANCE_HEADER: instance},
        timeout=10,
    )


def token(simulator: Simulator, instance: str = "uni_0", **query: str) -> str:
    """A machine's token."""
    return str(token_answer(simulator, instance, **query).json()["access_token"])


def test_a_secret_can_be_read_with_a_token_of_the_machines_identity(simulator: Simulator) -> None:
    answer = ask(simulator, "fixed", token(simulator))
    assert (answer.status, answer.body["value"]) == (200, SECRET)
    name, version = answer.body["id"].removeprefix(f"https://{HOST}/secrets/").split("/")
    assert name == "fixed"
    assert ask(simulator, f"fixed/{version}", token(simulator)).body == answer.body
    assert ask(simulator, "fixed/", token(simulator)).body == answer.body
    assert ask(simulator, "fixed/" + "0" * 32, token(simulator)).code == "SecretNotFound"


def test_a_generated_secret_is_long_and_different_in_each_simulator(simulator: Simulator) -> None:
    first = ask(simulator, "munge-key", token(simulator)).body["value"]
    assert len(first) == 128
    assert first.isalnum()
    with running(SCENARIO) as other:
        assert ask(other, "munge-key", token(other)).body["value"] != first


def test_a_request_without_a_token_gets_a_challenge(simulator: Simulator) -> None:
    answer = ask(simulator, "fixed")
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith('Bearer authorization="https://login.microsoftonline.com/')
    assert 'resource="https://vault.azure.net"' in answer.headers["WWW-Authenticate"]


def test_a_token_is_valid_only_for_its_resource(simulator: Simulator) -> None:
    for resource, why in ((MANAGEMENT, "AKV10022"), (f"https://{HOST}", "AKV10022")):
        answer = ask(simulator, "fixed", token(simulator, resource=resource))
        assert answer.status == 401
        assert why in answer.body["error"]["message"]
    assert ask(simulator, "fixed", "made-up").status == 401
    url = f"{simulator.endpoint}/subscriptions/{simulator.subscription_id}/providers/Microsoft.Compute/virtualMachines"
    headers = {"Authorization": f"Bearer {token(simulator)}"}
    assert requests.get(url, params={"api-version": "2024-11-01"}, headers=headers, timeout=10).status_code == 401


def test_an_identity_without_permission_is_forbidden(simulator: Simulator) -> None:
    answer = ask(simulator, "fixed", token(simulator, "stranger"))
    assert (answer.status, answer.code) == (403, "Forbidden")
    assert answer.body["error"]["innererror"]["code"] == "ForbiddenByRbac"
    assert SECRET not in str(answer.body)


def test_a_machine_without_identity_gets_no_token(simulator: Simulator) -> None:
    answer = token_answer(simulator, "nobody")
    assert answer.status_code == 400
    assert answer.json() == {"error": "invalid_request", "error_description": "Identity not found"}
    assert token_answer(simulator, "ctl", client_id="11111111-0000-4000-8000-000000000009").status_code == 400
    assert token_answer(simulator, "ctl", resource="https://example.org").json()["error"] == "invalid_resource"


def test_a_user_assigned_identity_can_be_named_or_is_the_only_one(simulator: Simulator) -> None:
    two = next(iter(simulator.scale_set("two").members.values())).name
    given = "11111111-0000-4000-8000-000000000001"
    assert token_answer(simulator, two, client_id=given).json()["client_id"] == given
    assert token_answer(simulator, two).json()["client_id"] == given


def test_a_missing_secret_vault_or_version_is_an_error(simulator: Simulator) -> None:
    known = token(simulator)
    assert (ask(simulator, "moon", known).status, ask(simulator, "moon", known).code) == (404, "SecretNotFound")
    assert ask(simulator, "fixed", known, query="").code == "BadParameter"
    # A name that is not in the certificate is refused before the request is sent.
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(simulator, "fixed", known, host="other.vault.azure.net")


def test_a_client_that_does_not_trust_the_authority_cannot_connect(simulator: Simulator) -> None:
    connection = Connection(HOST, simulator.tls_port, context=ssl.create_default_context(), timeout=10)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("GET", "/secrets/fixed")


def test_a_writer_creates_a_new_version(simulator: Simulator) -> None:
    body = json.dumps({"value": "newer"})
    assert ask(simulator, "fixed", token(simulator), method="PUT", body=body).status == 403
    first = ask(simulator, "fixed", token(simulator)).body
    written = ask(simulator, "fixed", token(simulator, "ctl"), method="PUT", body=body)
    assert (written.status, written.body["value"]) == (200, "newer")
    assert ask(simulator, "fixed", token(simulator)).body == written.body
    version = first["id"].rpartition("/")[2]
    assert ask(simulator, f"fixed/{version}", token(simulator)).body["value"] == SECRET


def test_a_test_can_change_disable_and_delete_secrets(simulator: Simulator) -> None:
    url = f"{simulator.endpoint}/_simulator/secrets/hpcai-sim/fixed"
    assert requests.put(url, json={"value": "another"}, timeout=10).status_code == 200
    assert ask(simulator, "fixed", token(simulator)).body["value"] == "another"
    assert requests.put(url, json={"enabled": False}, timeout=10).status_code == 200
    disabled = ask(simulator, "fixed", token(simulator))
    assert disabled.body["error"]["innererror"]["code"] == "SecretDisabled"
    assert requests.put(url, json={}, timeout=10).status_code == 400
    assert requests.delete(url, timeout=10).status_code == 200
    assert requests.delete(url, timeout=10).status_code == 404
    assert ask(simulator, "fixed", token(simulator)).status == 404


def test_faults_have_the_format_of_key_vault(simulator: Simulator) -> None:
    known = token(simulator)
    simulator.add_fault("secrets/fixed", service="vault", status=429, headers={"Retry-After": "7"}, times=1)
    simulator.add_fault("secrets/fixed", service="vault", status=503, times=1)
    throttled = ask(simulator, "fixed", known)
    assert (throttled.status, throttled.code, throttled.headers["Retry-After"]) == (429, "Throttled", "7")
    assert ask(simulator, "fixed", known).code == "ServiceUnavailable"
    assert ask(simulator, "fixed", known).status == 200
    simulator.add_fault("secrets", "drop", service="vault", times=1)
    with pytest.raises(OSError):  # noqa: PT011 (which one depends on what the client was doing)
        ask(simulator, "fixed", known)
    simulator.add_fault("secrets", "hang", service="vault", times=1)
    with pytest.raises(TimeoutError):
        ask(simulator, "fixed", known, timeout=0.5)


def test_a_client_that_sends_nothing_does_not_block_others(simulator: Simulator) -> None:
    with socket.create_connection(("127.0.0.1", simulator.tls_port)):
        assert ask(simulator, "fixed", token(simulator)).status == 200


def test_neither_logs_nor_state_contain_a_secret_or_a_token(
    simulator: Simulator, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    known = token(simulator)
    assert ask(simulator, "fixed", known).status == 200
    ask(simulator, "fixed", token(simulator, "ctl"), method="PUT", body=json.dumps({"value": "written-secret"}))
    texts = [str(simulator.requests(service)) for service in ("arm", "imds", "vault")]
    texts += [
        requests.get(f"{simulator.endpoint}/_simulator/{what}", timeout=10).text for what in ("state", "requests")
    ]
    texts += [caplog.text, *capfd.readouterr(), repr(simulator.model.vaults["hpcai-sim"].get("fixed"))]
    assert [entry["path"] for entry in simulator.requests("vault")] == ["/secrets/fixed", "/secrets/fixed"]
    for secret in (SECRET, "written-secret", known):
        assert not [text for text in texts if secret in text]


def test_the_authority_is_created_once_and_its_key_is_private(tmp_path: Path) -> None:
    first = authority.Authority.kept(tmp_path)
    assert authority.Authority.kept(tmp_path).certificate == first.certificate
    assert stat.S_IMODE((tmp_path / authority.KEY).stat().st_mode) == 0o600
    narrow = authority.Authority.fresh(authority.MANAGEMENT_HOST)
    (tmp_path / authority.CERTIFICATE).write_bytes(narrow.certificate)
    assert authority.Authority.kept(tmp_path).certificate not in (first.certificate, narrow.certificate)
    (tmp_path / authority.KEY).write_text("broken")
    assert authority.Authority.kept(tmp_path).certificate != first.certificate


def test_the_authority_can_certify_only_vaults_and_resource_manager(tmp_path: Path) -> None:
    made = authority.Authority.fresh()
    server = made.server_context(["www.example.org"])
    trust = ssl.create_default_context(cadata=made.certificate.decode())
    near, far = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(near, far, server_hostname="www.example.org")
    peer = server.wrap_bio(far, near, server_side=True)
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree"):
        shake_hands(client, peer)


def shake_hands(*sides: ssl.SSLObject) -> None:
    """Perform the TLS handshake between two ends of a connection in memory."""
    for _round in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_the_same_port_serves_resource_manager_by_its_name(simulator: Simulator) -> None:
    trust = ssl.create_default_context(cadata=simulator.authority.decode())
    connection = Connection(authority.MANAGEMENT_HOST, simulator.tls_port, context=trust, timeout=10)
    path = f"/subscriptions/{simulator.subscription_id}/resourceGroups?api-version=2021-04-01"
    connection.request("GET", path, headers={"Authorization": "Bearer wrong"})
    refused = connection.getresponse()
    assert (refused.status, json.loads(refused.read())["error"]["code"]) == (401, "InvalidAuthenticationToken")
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    assert (answer.status, "value" in json.loads(answer.read())) == (200, True)


def test_a_key_signs_for_its_readers_and_its_public_part_verifies(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, resolve = tmp_path / "ca.crt", socket.getaddrinfo
    bundle.write_bytes(simulator.authority)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda _host, *more, **named: resolve("127.0.0.1", *more, **named))
    vault = vault_of(f"https://{HOST}:{simulator.tls_port}")
    reader = token(simulator)
    key = vault_keys.public_key(vault, "checkpoints", "", reader, 20)
    signature = vault_keys.sign(vault, "checkpoints", key.version, b"statement", reader, 20)
    assert key == vault_keys.public_key(vault, "checkpoints", key.version, reader, 20)
    assert key.verifies(b"statement", signature)
    assert not key.verifies(b"Statement", signature)
    assert not key.verifies(b"statement", signature[:-1] + bytes([signature[-1] ^ 1]))
    assert not key.verifies(b"statement", signature[1:])
    with pytest.raises(VaultError, match=r"cannot be used \(HTTP status 403"):
        vault_keys.sign(vault, "checkpoints", key.version, b"statement", token(simulator, "stranger"), 20)
    with pytest.raises(VaultError, match=r"cannot be used \(HTTP status 404"):
        vault_keys.public_key(vault, "other", "", reader, 20)
