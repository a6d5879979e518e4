# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service on a real socket: answers, refusals, malformed requests, and a flood beside another user's request."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.credential import Credential, credential_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.output import DENIED, BlobError
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.broker import Broker, Keys, Unavailable
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.client import Granted, GrantsError, ask
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.server import (
    STRANGERS,
    Bounds,
    Server,
    _Share,
    peer_uid,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import azure
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.azure import Account, DelegationKey
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

ALICE, BOB = 1001, 1002
LIST = {"ask": "list"}


class RunningServer:
    """A server whose clients have the user ids that a test sets, in the order in which they connect."""

    def __init__(self, path: Path, **more: Any) -> None:
        self.path = str(path)
        self.uids: list[int] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(256)
        self._ended = threading.Event()
        server = Server(
            self._listener,
            more.pop("answer", lambda uid, line: {"uid": uid, "size": len(line)}),
            more.pop("known", lambda _uid: True),
            more.pop("bounds", Bounds()),
            lambda _connection: self.uids.pop(0),
            more.pop("read_s", 600.0),
        )
        self._thread = threading.Thread(target=server.serve, args=(600.0, self._ended.is_set))
        self._thread.start()

    def connect(self, uid: int) -> socket.socket:
        """Connect as this user."""
        self.uids.append(uid)
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(60)
        made.connect(self.path)
        return made

    def send(self, uid: int, line: bytes) -> dict[str, Any]:
        """Send a line and return the answer."""
        with self.connect(uid) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(line)
            return dict(json.loads(connection.makefile("rb").readline()))

    def end(self) -> None:
        """Stop it."""
        self._ended.set()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    """A function that starts a server."""
    started: list[RunningServer] = []

    def start(**more: Any) -> RunningServer:
        started.append(RunningServer(tmp_path / f"sock{len(started)}", **more))
        return started[-1]

    yield start
    for one in started:
        one.end()


def until(is_so: Callable[[], bool]) -> None:
    """Wait until the condition holds, for a long time on a loaded machine."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_kernel_identifies_the_client(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as connection:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        connection.connect(str(tmp_path / "sock"))
        accepted, _address = listener.accept()
        with accepted:
            assert peer_uid(accepted) == os.geteuid()


def test_a_flood_by_one_user_does_not_delay_another_user(start_server: Callable[..., RunningServer]) -> None:
    server = start_server()
    held = [server.connect(ALICE) for _time in range(4)]
    refused = [server.send(ALICE, b"{}\n") for _time in range(50)]
    assert all("4 open requests" in answer["busy"] for answer in refused)
    assert server.send(BOB, b"{}\n") == {"uid": BOB, "size": 2}
    for connection in held:
        connection.close()
    until(lambda: server.send(ALICE, b"{}\n").get("uid") == ALICE)


def test_only_the_user_who_asks_too_often_is_refused(start_server: Callable[..., RunningServer]) -> None:
    server = start_server(bounds=Bounds(a_minute=3, clock=lambda: 0.0))
    answers = [server.send(ALICE, b"{}\n") for _time in range(5)]
    assert ["uid" in answer for answer in answers] == [True, True, True, False, False]
    assert "more than 3 requests a minute" in answers[-1]["busy"]
    assert server.send(BOB, b"{}\n")["uid"] == BOB


def test_user_ids_without_an_account_do_not_delay_known_users(start_server: Callable[..., RunningServer]) -> None:
    """A user namespace gives one user 65,536 ids. The lookup of each may take long."""
    looked_up = threading.Event()

    def known(uid: int) -> bool:
        if uid > 100_000:
            looked_up.wait(60)
        return uid < 100_000

    server = start_server(known=known)
    assert server.send(ALICE, b"{}\n")["uid"] == ALICE
    held = [server.connect(100_001 + number) for number in range(STRANGERS)]
    assert "busy" in server.send(200_001, b"{}\n")
    assert server.send(ALICE, b"{}\n")["uid"] == ALICE
    looked_up.set()
    assert all("has no account" in connection.makefile("r").readline() for connection in held)
    for connection in held:
        connection.close()


def test_a_silent_new_user_does_not_block_other_new_users(start_server: Callable[..., RunningServer]) -> None:
    server = start_server()
    held = [server.connect(ALICE) for _time in range(STRANGERS)]
    until(lambda: server.send(BOB, b"{}\n").get("uid") == BOB)
    for connection in held:
        connection.close()


def test_a_slow_client_gets_an_error(start_server: Callable[..., RunningServer]) -> None:
    server = start_server(read_s=0.2)
    with server.connect(ALICE) as connection:
        connection.sendall(b"{")
        assert "no complete request arrived within 0.2 s" in connection.makefile("r").readline()


MALFORMED = [
    b"\n",
    b"GET / HTTP/1.1\r\n",
    b"\xff\xfe\n",
    b"[" * 4000 + b"\n",
    b"x" * 100_000,
    b"null\n",
    b"[]\n",
    b'{"ask": "token"}\n',
    b'{"ask": "blob"}\n',
    b'{"ask": "blob", "what": 1}\n',
    b'{"ask": "blob", "what": "x", "uid": "0"}\n',
    b'{"ask": "blob", "what": "x", "need": "rwdlacup"}\n',
    b'{"ask": "blob", "what": "a\\nb"}\n',
    b'{"ask": "blob", "what": "\\ud800"}\n',
    b'{"ask": "list", "what": "x"}\n',
]


@pytest.fixture
def log() -> list[str]:
    """What the service logs."""
    return []


@pytest.fixture
def broker(tmp_path: Path, log: list[str]) -> Broker:
    """A service that grants this process's user nothing but one registry, and cannot reach Azure."""
    folder = tmp_path / "etc/hpcai"
    folder.mkdir(parents=True)
    settings = {
        "schema": 1,
        "acr_registries": ["all.azurecr.io", "some.azurecr.io"],
        "acr_groups": {"some.azurecr.io": []},
    }
    (folder / "containers.json").write_text(json.dumps(settings), encoding="utf-8")

    def no_token(_resource: str, _client_id: str) -> str:
        raise Unavailable("no network")

    return Broker(Root(str(tmp_path)), Keys(no_token), lambda name, client_id: f"password-of-{name}", log.append)


@pytest.mark.parametrize("line", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_request_gets_one_clear_line_and_the_service_goes_on(
    start_server: Callable[..., RunningServer], broker: Broker, log: list[str], line: bytes
) -> None:
    server = start_server(answer=lambda _uid, asked: broker.answer(os.getuid(), asked))
    answer = server.send(ALICE, line)
    assert list(answer) == ["error"]
    assert "expected one line of JSON" in answer["error"]
    assert "\n" not in answer["error"]
    assert log == [f"uid {os.getuid()}: malformed request refused"]
    assert server.send(ALICE, json.dumps(LIST).encode() + b"\n")["grants"] == []


def test_passwords_are_given_for_granted_registries_only_and_never_logged(broker: Broker, log: list[str]) -> None:
    def answer_for(name: str) -> dict[str, Any]:
        return broker.answer(os.getuid(), json.dumps({"ask": "registry", "what": name}).encode())

    assert answer_for("all.azurecr.io") == {"password": "password-of-all.azurecr.io"}
    for name in ("some.azurecr.io", "other.azurecr.io", "https://evil.example"):
        assert "none of your groups" in answer_for(name)["error"]
    assert "password-of" not in "".join(log)


def test_invalid_settings_grant_nothing_and_are_not_displayed(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "etc/hpcai/grants.json").write_text('{"schema": 1, "grants": "secret"}', encoding="utf-8")
    answer = broker.answer(os.getuid(), json.dumps(LIST).encode())
    assert "cannot be read" in answer["error"]
    assert "secret" not in answer["error"]


def test_a_key_is_cached_and_a_failed_fetch_is_not_retried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, fetched = [1_000_000.0], []
    account = Account("training", "https://training.blob.core.windows.net")

    def fetch(_account: Account, _token: str, start: float, until: float) -> DelegationKey:
        fetched.append(until - start)
        if len(fetched) == 2:
            raise azure.StorageError("no answer")
        expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))
        return DelegationKey("o", "t", "s", expiry, "b", "v", "a2V5")

    monkeypatch.setattr(
        "ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.broker.delegation_key", fetch
    )
    keys = Keys(lambda _resource, _client_id: "token", lambda: now[0])
    first = keys.key(account, "", 3600)
    now[0] += 3600
    assert keys.key(account, "", 3600) is first
    now[0] += 1
    for _time in range(3):
        with pytest.raises(Unavailable, match="no answer"):
            keys.key(account, "", 3600)
    now[0] += 6
    assert keys.key(account, "", 3600).ends == now[0] + 7200
    assert fetched == [7200, 7200, 7200]


def test_a_sas_is_reused_for_minutes_and_each_right_has_its_own(start_server: Callable[..., RunningServer]) -> None:
    now, asked = [0.0], []

    def answer(_uid: int, line: bytes) -> dict[str, Any]:
        asked.append(json.loads(line))
        return {"sas": f"sig={len(asked)}", "seconds": 3600}

    server = start_server(answer=answer)
    server.uids += [ALICE] * 3
    granted = Granted(server.path, lambda: now[0])
    credential = Credential("identity", granted=granted)
    address = "https://a.blob.core.windows.net/data/set%20one/"
    assert [credential.sign(address), credential.sign(address)] == [f"{address}?sig=1"] * 2
    assert credential.sign(address, "write") == f"{address}?sig=2"
    now[0] = 301.0
    assert credential.sign(address) == f"{address}?sig=3"
    assert [one["what"] for one in asked] == ["https://a.blob.core.windows.net/data"] * 3
    assert "sig" not in repr(credential)
    assert "AZCOPY_AUTO_LOGIN_TYPE" not in credential.variables({})


def test_only_root_uses_the_machines_identity_directly() -> None:
    assert credential_of("identity", uid=0).granted is None
    assert credential_of("identity", uid=1001).granted == Granted()


def test_a_service_that_refuses_or_is_missing_gives_one_clear_error(
    start_server: Callable[..., RunningServer], tmp_path: Path
) -> None:
    server = start_server(answer=lambda _uid, _line: {"error": "nothing is granted."})
    server.uids.append(ALICE)
    with pytest.raises(BlobError, match=r"no read access to .*: nothing is granted") as refused:
        Credential("identity", granted=Granted(server.path)).sign("https://a.blob.core.windows.net/data")
    assert refused.value.why == DENIED
    with pytest.raises(GrantsError, match=r"systemctl status hpcai-grants\.socket"):
        ask(LIST, str(tmp_path / "none"))
    busy = start_server(answer=lambda _uid, _line: {"busy": "too many."})
    busy.uids += [ALICE] * 3
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        ask(LIST, busy.path, sleep=pause)
    with pytest.raises(GrantsError, match="busy: too many"):
        ask(LIST, busy.path, busy_s=0.0)


_ASK = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
    's.sendall(b\'{"ask": "list"}\\n\'); print(s.makefile().readline())'
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_two_users_get_the_grants_of_their_own_groups(broker: Broker, tmp_path: Path) -> None:
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    grant = {"groups": [group], "account_url": "https://training.blob.core.windows.net", "container": "data"}
    settings = {"schema": 1, "grants": [{**grant, "rights": "read"}]}
    (tmp_path / "etc/hpcai/grants.json").write_text(json.dumps(settings), encoding="utf-8")
    ended = threading.Event()
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/sock"
        listener.bind(path)
        listener.listen()
        for name in (folder, path):
            os.chmod(name, 0o777)
        server = Server(listener, broker.answer, lambda _uid: True)
        thread = threading.Thread(target=server.serve, args=(600.0, ended.is_set))
        thread.start()
        asked = ["/usr/bin/python3", "-c", _ASK, path]
        answers = {
            name: json.loads(subprocess.check_output(asked, user=name, cwd="/", text=True))
            for name in ("nobody", "daemon")
        }
        ended.set()
        thread.join()
    container = {"container": "https://training.blob.core.windows.net/data", "rights": "read"}
    assert answers == {
        "nobody": {"user": "nobody", "grants": [container]},
        "daemon": {"user": "daemon", "grants": []},
    }


def test_connections_are_counted_while_another_thread_adds_a_user() -> None:
    bounds = Bounds()
    for uid in range(3):
        bounds.enter(uid)

    class Adding:
        """A connection count whose reading lets another thread run."""

        def __radd__(self, total: int) -> int:
            bounds._shares[99] = _Share(1.0, 0.0)
            return total + 1

    bounds._shares[0].open = Adding()  # type: ignore[assignment]
    assert bounds.open == 3
