# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attacks on the service hpcai-grants: a user wants another group's data, the node's identity, or all connections.

The inventory grants the container alice to the group alice. Before the service existed, each user could use the node's
identity, which has the rights of all groups.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

from simulated.hosts import User

SOCKET = "/run/hpcai/grants.sock"
CONTAINER = "https://devstoreaccount1.blob.core.windows.net/alice"
READ = {"ask": "blob", "what": CONTAINER, "need": "read"}
# Sends the decoded base64 argument, and prints the answer.
_SEND = (
    "import base64, socket, sys\n"
    "s = socket.socket(socket.AF_UNIX)\n"
    "s.settimeout(120)\n"
    f"s.connect('{SOCKET}')\n"
    "try: s.sendall(base64.b64decode(sys.argv[1]))\n"
    "except OSError: pass\n"
    "print(s.makefile().readline())\n"
)
# Opens 300 connections, and prints how many of those beyond the first 64 get the answer busy.
_FLOOD = (
    "import socket, sys\n"
    "held = []\n"
    "for number in range(300):\n"
    "    s = socket.socket(socket.AF_UNIX)\n"
    "    s.settimeout(120)\n"
    f"    s.connect('{SOCKET}')\n"
    "    held.append(s)\n"
    "print(sum(b'busy' in s.recv(4096) for s in held[64:]))\n"
)


def _command(raw: bytes) -> str:
    return f"python3 -c {shlex.quote(_SEND)} {base64.b64encode(raw).decode()}"


def ask(user: User, what: Any, job: bool = False) -> dict[str, Any]:
    """The service's answer to a request of the user, on the login node or in a job."""
    raw = what if isinstance(what, bytes) else json.dumps(what).encode() + b"\n"
    command = _command(raw)
    return dict(json.loads(user.srun("-N1", command) if job else user.check_output(command, 150)))


def main_pid(host: Host) -> str:
    """The process id of the service."""
    return str(host.check_output("systemctl show --property=MainPID --value hpcai-grants.service"))


@pytest.mark.parametrize("job", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["login", "job"])
def test_another_groups_container_is_refused(alice: User, bob: User, job: bool) -> None:
    """bob read data that only alice's group is granted."""
    # The simulated Azure has no storage, so a granted request fails later, with this message.
    assert "Azure did not provide the access that you were granted" in ask(alice, READ, job)["error"]
    assert "none of your groups" in ask(bob, READ, job)["error"]


def test_a_group_gets_only_its_container_and_its_right(alice: User, bob: User) -> None:
    """alice deleted data in a container with the right to write, and read data of another group."""
    assert "none of your groups" in ask(alice, {**READ, "need": "delete"})["error"]
    assert "none of your groups" in ask(alice, {**READ, "what": CONTAINER.replace("/alice", "/bob")})["error"]
    assert ask(alice, {"ask": "list"})["grants"] == [{"container": CONTAINER, "rights": "write"}]
    assert ask(bob, {"ask": "list"})["grants"] == []


def test_a_user_cannot_choose_an_identity(bob: User) -> None:
    """bob sent a request as another user: with keys in the request, and from a user namespace."""
    for claim in ({"uid": "0"}, {"user": "alice"}, {"groups": "alice"}):
        assert "invalid key or value" in ask(bob, {**READ, **claim})["error"]
    command = _command(json.dumps(READ).encode() + b"\n")
    as_root = bob.run(f"unshare --user --map-root-user {command}", 150)
    # Where users may not create namespaces, unshare fails and there is no attack.
    assert as_root.rc or "none of your groups" in as_root.stdout


def test_the_socket_gives_no_token_of_the_node(alice: User, bob: User) -> None:
    """bob asked for the node's token, for a login to his own registry, and for a SAS for his own account."""
    asked: list[dict[str, str]] = [
        {"ask": "token"},
        {"ask": "registry", "what": "evil.example.com"},
        {"ask": "registry", "what": "evil.azurecr.io"},
        {"ask": "blob", "what": "https://evil.blob.core.windows.net/alice"},
        {"ask": "blob", "what": "http://169.254.169.254/metadata/identity/oauth2/token"},
        {"ask": "blob", "what": f"{CONTAINER}/../secret"},
        {"ask": "blob", "what": f"{CONTAINER}?x=1"},
    ]
    for user in (alice, bob):
        for one in asked:
            answer = ask(user, one)
            assert list(answer) == ["error"], one
            assert "token" not in answer["error"].replace("'token'", "") or "expected" in answer["error"]


@pytest.mark.parametrize(
    "raw",
    [
        b"\n",
        b"\x00\xff" * 100 + b"\n",
        b"[" * 4090 + b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"x" * 50_000,
        b"1" * 4000 + b"\n",
    ],
    ids=["empty", "binary", "nested", "http", "long", "number"],
)
def test_a_malformed_request_gets_one_line_and_the_service_keeps_running(
    controller: Host, alice: User, bob: User, raw: bytes
) -> None:
    """bob ended the service, or made it answer with more than one line."""
    assert ask(alice, {"ask": "list"})["user"] == "alice"
    before = main_pid(controller)
    answer = ask(bob, raw)
    assert list(answer) == ["error"]
    assert "expected one line of JSON" in answer["error"]
    assert main_pid(controller) == before
    assert ask(alice, {"ask": "list"})["user"] == "alice"


def test_a_flood_of_requests_does_not_block_another_user(
    controller: Host, alice: User, bob: User, eventually: Callable[..., float]
) -> None:
    """bob occupied all connections, and alice's job waited for its data."""
    refused = int(bob.check_output(f"python3 -c {shlex.quote(_FLOOD)}", 150))
    assert refused > 200
    flood = f"for n in 1 2 3 4 5; do python3 -c {shlex.quote(_FLOOD)} & done; wait"
    with controller.sudo("bob"):
        controller.check_output(f"cd /tmp; (timeout 60 sh -c {shlex.quote(flood)}) >/dev/null 2>&1 & echo started")
    assert ask(alice, {"ask": "list"})["user"] == "alice"
    eventually(lambda: not controller.run("pgrep -u bob python3").stdout.strip(), 120, lambda: "bob's flood still runs")


def test_users_can_neither_read_grants_nor_replace_the_socket(controller: Host, bob: User) -> None:
    """bob read the grants of other groups or the service's memory, or replaced the service's socket by his own."""
    pid = main_pid(controller)
    if pid == "0":
        ask(bob, {"ask": "list"})
        pid = main_pid(controller)
    for command in (
        "cat /etc/hpcai/grants.json",
        f"cat /proc/{pid}/environ",
        f"head -c 1 /proc/{pid}/mem",
        f"rm -f {SOCKET}",
        f"mv {SOCKET} /tmp/taken",
        f"ln -s /tmp/mine {SOCKET}.new && mv {SOCKET}.new {SOCKET}",
    ):
        assert bob.run(command).rc != 0, command
    journal = controller.check_output("journalctl --unit hpcai-grants --no-pager --quiet --output=cat --lines=500")
    assert "bob (uid" not in journal.replace("refused", "")
    assert "sig=" not in journal
    assert "simulated." not in journal


SIGN = {
    "ask": "sign",
    "what": f"{CONTAINER}/run",
    "checkpoint": "000000000100-7.0-w2",
    "manifest": "a" * 64,
    "lineage": "",
}


@pytest.mark.parametrize("job", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["login", "job"])
def test_only_who_may_write_a_checkpoint_gets_it_signed(alice: User, bob: User, job: bool) -> None:
    """bob published weights of his own as checkpoints of alice's group, with the cluster's signature."""
    answer = ask(alice, SIGN, job)
    stated = json.loads(answer["statement"])
    assert (stated["user"], stated["uid"]) == ("alice", int(alice.check_output("id -u")))
    assert (stated["store"], stated["checkpoint"]) == (f"{CONTAINER}/run/", SIGN["checkpoint"])
    for store in (f"{CONTAINER}/run", f"{CONTAINER}/../alice/run", f"{CONTAINER}/run?x=1", CONTAINER.upper()):
        refused = ask(bob, {**SIGN, "what": store}, job)
        assert list(refused) == ["error"], store
        assert "signature" not in refused


def test_a_user_chooses_nothing_of_a_statement_but_a_checkpoint_and_its_hashes(alice: User) -> None:
    """alice had a text of her own signed, or a checkpoint in another user's name or for another purpose."""
    forged: list[dict[str, Any]] = [
        {**SIGN, "user": "bob"},
        {**SIGN, "uid": "0"},
        {**SIGN, "purpose": "anything"},
        {**SIGN, "checkpoint": 'x", "user": "bob'},
        {**SIGN, "checkpoint": "x" * 161},
        {**SIGN, "manifest": "b" * 63},
        {**SIGN, "manifest": "B" * 64},
        {**SIGN, "lineage": "any text"},
        {**SIGN, "what": CONTAINER.replace("/alice", "/bob")},
        {"ask": "sign", "what": CONTAINER},
    ]
    for one in forged:
        answer = ask(alice, one)
        assert list(answer) == ["error"], one


def test_the_vault_gives_a_user_public_keys_only(alice: User, bob: User) -> None:
    """bob read a secret of the vault, or another key, through the path of the key's version."""
    version = ask(alice, SIGN)["key"]
    # A public key is no secret.
    assert sorted(ask(bob, {"ask": "key", "what": version})) == ["e", "key", "n"]
    for what in (
        "../secrets/munge-key",
        f"{version}/../../../secrets/munge-key",
        f"{version}/sign",
        f"{version}?api-version=7.4",
        version.upper() if version.upper() != version else "G" * 32,
        "0" * 32,
        "newest",
    ):
        answer = ask(bob, {"ask": "key", "what": what})
        assert list(answer) == ["error"], what


def test_a_flood_of_signatures_does_not_block_another_user(alice: User, bob: User) -> None:
    """bob had the service sign without end, and alice's checkpoint stayed unsigned."""
    flood = _command(json.dumps(SIGN).encode() + b"\n")
    answers = bob.check_output(f"for n in $(seq 40); do {flood}; done", 300)
    assert "statement" not in answers
    assert "statement" in ask(alice, SIGN)
