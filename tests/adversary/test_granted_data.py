# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A storage account contains data of one group: a job of this group can stage it, a job of another group cannot.

The account is Azurite on this machine, under the host name of Azure's storage, with TLS and bearer tokens; azcopy is
real. Azurite does not accept the simulator's tokens, so during this test a metadata service on the node provides one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from stand_ins.blob.azurite import Azurite, NotHere, installed
from stand_ins.blob.bearer import bearer_token
from stand_ins.blob.certificate import certificate_for
from stand_ins.blob.sas import ACCOUNT

from simulated.hosts import User
from simulated.node import Node

HOST = f"{ACCOUNT}.blob.core.windows.net"
TRUSTED = "/usr/local/share/ca-certificates/hpcai-test-account.crt"
PROGRAM = "/opt/hpcai-test-metadata.py"
GRANTS = "/etc/hpcai/grants.json"
TARGET = "/scratch/test-grants"
_METADATA = """\
import http.server, json

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path.startswith("/metadata/identity/oauth2/token") and "storage.azure.com" in self.path
        body = json.dumps({"access_token": "TOKEN"} if known else {"error_description": "only a stand-in"}).encode()
        self.send_response(200 if known else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("", 8999), Handler).serve_forever()
"""


@dataclass(frozen=True)
class Account:
    """The storage account.

    :ivar node: the node whose jobs can reach the account.
    :ivar url: the account's address on this node.
    """

    node: Node
    url: str

    def stage(self, user: User, container: str) -> tuple[int, str]:
        """Stage a container in a job of the user; returns the exit status and the output."""
        words = f"hpcnode stage run --credential identity --all --source {self.url}/{container}"
        words += f" --target {TARGET}-{user.name}"
        done = user.run(f"srun --mpi=none --time=3 --nodelist={self.node.name} {words}", 240)
        return done.rc, done.stdout + done.stderr


@pytest.fixture
def account(node: Callable[[str], Node], tmp_path: Path) -> Iterator[Account]:
    """An account with one container per user. Only alice's group has a grant, for her container."""
    try:
        programs = installed()
    except NotHere as error:
        # The error names the program that npm could not install. Without Azurite there is no account to attack.
        pytest.skip(str(error))
    one = node("0")
    gateway = one.sh("ip route show default").split()[2]
    certificate = certificate_for(HOST, gateway, tmp_path)
    blobs = Azurite(programs, tmp_path / "azurite", gateway, certificate, oauth=True)
    before = one.sh(f"cat {GRANTS}")
    url = f"https://{HOST}:{blobs.port}"
    grant = {"groups": ["alice"], "account_url": url, "container": "alice", "rights": "read"}
    try:
        for container in ("alice", "bobs"):
            blobs.container(container)
            blobs.put(container, "one", container.encode())
        one.write(TRUSTED, certificate.public.read_bytes(), "0644")
        one.write(PROGRAM, _METADATA.replace("TOKEN", bearer_token()).encode(), "0600")
        one.write(GRANTS, json.dumps({"schema": 1, "grants": [grant]}).encode(), "0600")
        one.sh(
            f"update-ca-certificates >/dev/null; echo {gateway} {HOST} >>/etc/hosts; "
            "systemctl stop hpcai-grants.service; "
            "nft add table ip hpcai_test; "
            "nft add chain ip hpcai_test output '{ type nat hook output priority -101; }'; "
            f"nft add rule ip hpcai_test output ip daddr 169.254.169.254 tcp dport 80 dnat to {one.address}:8999; "
            f"systemd-run --quiet --collect --unit=hpcai-test-metadata python3 {PROGRAM}"
        )
        yield Account(one, url)
    finally:
        blobs.end()
        one.write(GRANTS, before.encode(), "0600")
        one.sh(
            "systemctl stop hpcai-test-metadata.service hpcai-grants.service; "
            "nft delete table ip hpcai_test; "
            f"rm -rf {TRUSTED} {PROGRAM} {TARGET}-*; sed -i /{HOST}/d /etc/hosts; update-ca-certificates >/dev/null",
            check=False,
        )


def test_a_job_stages_only_data_that_its_group_is_granted(
    account: Account, alice: User, bob: User, eventually: Callable[..., float]
) -> None:
    """bob's job staged alice's container with the node's identity."""
    status, output = account.stage(alice, "alice")
    assert status == 0, output
    assert account.node.sh(f"cat {TARGET}-alice/one") == "alice"
    for user, container in ((bob, "alice"), (bob, "bobs"), (alice, "bobs")):
        status, output = account.stage(user, container)
        assert status != 0, output
        assert "none of your groups is granted 'read' for this container" in output
        assert "sig=" not in output
    journal = account.node.sh("journalctl --boot --unit hpcai-grants --no-pager --quiet --output=cat --lines=50")
    assert f"alice (uid 4001): read of {account.url}/alice" in journal
    assert "sig=" not in journal
    eventually(lambda: account.node.state() == "idle", 120, account.node.state)
