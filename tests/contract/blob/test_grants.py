# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service hpcai-grants with a storage account that accepts user-delegation SAS, and with the real azcopy."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stand_ins.blob.azurite import Azurite, azcopy_in
from stand_ins.blob.bearer import bearer_token
from stand_ins.blob.certificate import Certificate, certificate_for

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.credential import Credential
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.location import BlobLocation
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.output import DENIED, BlobError
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.tool import Azcopy
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.transfer import (
    download,
    list_blobs,
    remove,
    upload,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.broker import Broker, Keys
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.client import Granted, GrantsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.server import Server
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

GRANTED = {"data": "read", "checkpoints": "write", "scratch": "delete"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certificate]:
    """The account's certificate, which this process and azcopy trust."""
    made = certificate_for("localhost", "127.0.0.1", tmp_path_factory.mktemp("certificate"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(made.public))
        yield made


@pytest.fixture(scope="module")
def tls_account(
    programs: Path, certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Azurite]:
    """The account, with a container for each right, and one container of another group."""
    made = Azurite(programs, tmp_path_factory.mktemp("secure"), certificate=certificate, oauth=True)
    for name in (*GRANTED, "secret"):
        made.container(name)
        made.put(name, "set/one", b"content")
    yield made
    made.end()


@pytest.fixture
def log() -> list[str]:
    """The log messages of the service."""
    return []


@pytest.fixture
def granted(tls_account: Azurite, tmp_path: Path, log: list[str]) -> Iterator[Granted]:
    """A client of a running service. This process's group is granted all containers except one."""
    group = grp.getgrgid(os.getgid()).gr_name
    grants = [
        {"groups": [group], "account_url": tls_account.url, "container": name, "rights": rights}
        for name, rights in GRANTED.items()
    ]
    grants.append(
        {"groups": ["no-such-group"], "account_url": tls_account.url, "container": "secret", "rights": "delete"}
    )
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/grants.json").write_text(json.dumps({"schema": 1, "grants": grants}), encoding="utf-8")
    keys = Keys(lambda resource, _client_id: bearer_token(resource))
    ended = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        server = Server(listener, Broker(Root(str(tmp_path)), keys, log=log.append).answer, lambda _uid: True)
        thread = threading.Thread(target=server.serve, args=(600.0, ended.is_set))
        thread.start()
        yield Granted(str(tmp_path / "sock"))
        ended.set()
        thread.join()


@pytest.fixture
def request_with(tls_account: Azurite, certificate: Certificate) -> Callable[..., int]:
    """Send a request to the account with a SAS, and return the HTTP status."""
    trusted = ssl.create_default_context(cafile=str(certificate.public))

    def send(sas: str, method: str, path: str, body: bytes | None = None) -> int:
        url = f"{tls_account.url}/{path}{'&' if '?' in path else '?'}{sas}"
        headers = {"x-ms-blob-type": "BlockBlob"} if body is not None else {}
        asked = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(asked, context=trusted, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    return send


LIST_QUERY = "?restype=container&comp=list"


def test_a_sas_is_valid_only_for_its_container_and_right(
    granted: Granted, tls_account: Azurite, request_with: Callable[..., int]
) -> None:
    read = granted.sas(f"{tls_account.url}/data")
    assert request_with(read, "GET", "data/set/one") == 200
    assert request_with(read, "GET", f"data{LIST_QUERY}") == 200
    assert request_with(read, "PUT", "data/set/new", b"x") == 403
    assert request_with(read, "DELETE", "data/set/one") == 403
    for path in ("secret/set/one", f"secret{LIST_QUERY}", "checkpoints/set/one", "?comp=list"):
        assert request_with(read, "GET", path) == 403, path

    write = granted.sas(f"{tls_account.url}/checkpoints", "write")
    assert request_with(write, "PUT", "checkpoints/set/new", b"x") == 201
    assert request_with(write, "GET", "checkpoints/set/new") == 200
    assert request_with(write, "DELETE", "checkpoints/set/new") == 403
    assert request_with(write, "PUT", "data/set/new", b"x") == 403

    assert request_with(granted.sas(f"{tls_account.url}/scratch", "delete"), "DELETE", "scratch/set/one") == 202
    tls_account.put("scratch", "set/one", b"content")


@pytest.mark.parametrize(("container", "need"), [("secret", "read"), ("data", "write"), ("checkpoints", "delete")])
def test_without_a_grant_there_is_no_sas(granted: Granted, tls_account: Azurite, container: str, need: str) -> None:
    with pytest.raises(GrantsError, match="none of your groups is granted"):
        granted.sas(f"{tls_account.url}/{container}", need)


def test_no_secret_is_logged(granted: Granted, tls_account: Azurite, log: list[str]) -> None:
    sas = granted.sas(f"{tls_account.url}/data")
    with contextlib.suppress(GrantsError):
        granted.sas(f"{tls_account.url}/secret")
    text = "\n".join(log)
    assert f"read of {tls_account.url}/data" in text
    assert "refused" in text
    assert "sig=" not in text
    assert sas.partition("sig=")[2] not in text
    assert bearer_token().split(".", maxsplit=1)[0] not in text


def test_azcopy_can_do_only_what_is_granted(
    granted: Granted, tls_account: Azurite, programs: Path, tmp_path: Path
) -> None:
    tool = Azcopy(str(tmp_path / "work"), Credential("identity", granted=granted), program=azcopy_in(programs))
    locations = {name: BlobLocation(f"{tls_account.url}/{name}") for name in (*GRANTED, "secret")}
    assert [blob.name for blob in list_blobs(tool, locations["data"])] == ["set/one"]
    assert not download(tool, locations["data"], ["set/one"], str(tmp_path / "to")).failures
    assert (tmp_path / "to/set/one").read_bytes() == b"content"
    for name, stored in (("scratch", True), ("data", False)):
        if stored:
            assert not upload(tool, str(tmp_path / "to"), ["set/one"], locations[name].below("up")).why
            assert not remove(tool, locations[name], ["up/set/one"]).why
            assert tls_account.names(name, "up") == []
        else:
            with pytest.raises(BlobError) as refused:
                upload(tool, str(tmp_path / "to"), ["set/one"], locations[name])
            assert refused.value.why == DENIED
    with pytest.raises(BlobError, match=r"no read access to .*secret"):
        list_blobs(tool, locations["secret"])
