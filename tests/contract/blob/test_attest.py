# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data sets with sums, signed checkpoints and archived outputs, with the real azcopy, a storage account, the service
hpcai-grants and the simulated key vault. Somebody with access to the account changes what is stored.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from stand_ins.blob.azurite import Azurite, azcopy_in
from stand_ins.blob.certificate import certificate_for
from stand_ins.blob.sas import account_sas

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.broker import Broker, Keys
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.server import Server
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.signing import Signer
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from simulator import imds
from simulator.testing import Simulator, running

from .conftest import SRC, Node

VAULT, KEY = "hpcai-sim", "checkpoints"
SCENARIO: dict[str, Any] = {
    "key_vaults": [{"name": VAULT, "keys": [KEY], "readers": ["uni"]}],
    "scale_sets": [{"name": "uni", "capacity": 1, "instance_ids": [0]}],
}
# The service's socket is in another folder than on a node.
HPCNODE = """\
import sys
from _node.job.grants import client
client.ask.__defaults__ = (sys.argv.pop(1), *client.ask.__defaults__[1:])
from _node.cli.main import main
raise SystemExit(main())
"""
LINEAGE = {"recipe": "fsdp tiny", "parent": 50}


def test_a_data_set_that_was_replaced_is_not_staged(node: Node, account: Azurite, tmp_path: Path) -> None:
    account.container("summed")
    for name in ("a", "part/b"):
        account.put("summed", f"set/{name}", name.encode() * 1000)
    words = ["run", "--source", f"{account.url}/summed/set", "--target"]
    assert node(*words, str(tmp_path / "first"))["status"] == 0
    found = node("sums", "--target", str(tmp_path / "first"))["sums"]
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items()))
    assert f"{hashlib.sha256(b'a' * 1000).hexdigest()}  a\n" in text
    sums = tmp_path / "sums"
    sums.write_text(text)
    good = node(*words, str(tmp_path / "second"), "--sums", str(sums))
    assert (good["status"], good["copied"]) == (0, 2)
    assert node("verify", "--target", str(tmp_path / "second"), "--sums", str(sums))["status"] == 0

    # Of the same size, so that only the hash differs.
    account.put("summed", "set/part/b", b"x" * 6000)
    changed = node(*words, str(tmp_path / "third"), "--sums", str(sums))
    assert changed["status"] == 1
    assert "part/b" in changed["problem"]
    assert "but the sums have" in changed["problem"]
    assert not (tmp_path / "third/part/b").exists()
    account.put("summed", "set/c", b"more")
    # Nothing was done.
    assert node(*words, str(tmp_path / "fourth"), "--sums", str(sums))["status"] == 3
    assert not (tmp_path / "fourth/a").exists()


class Signing:
    """hpcnode checkpoint on a node whose user may write to a container of the account."""

    def __init__(self, folder: Path, account: Azurite, azcopy: str, path: str) -> None:
        self.folder, self.account, self._socket = folder, account, path
        self.container = account.container("signed").rpartition("/")[2]
        sas = folder / "sas"
        sas.write_text(account_sas() + "\n", encoding="ascii")
        sas.chmod(0o600)
        (folder / "work").mkdir()
        self.store = f"{account.url}/{self.container}/run"
        self._words = ["--store", self.store, "--sas-file", str(sas)]
        self._words += ["--azcopy", azcopy, "--work", str(folder / "work")]

    def __call__(self, action: str, *words: str) -> dict[str, Any]:
        """Run hpcnode checkpoint, and return its JSON output with ``rc`` and ``stderr`` added."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        slurm = {"SLURM_JOB_ID": "7", "SLURM_NODEID": "0", "SLURM_JOB_NUM_NODES": "1", "SLURM_STEP_ID": action}
        done = subprocess.run(
            [sys.executable, "-c", HPCNODE, self._socket, "checkpoint", "--json", action, *words, *self._words],
            env={**plain, **slurm, "PYTHONPATH": str(SRC)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        answer = json.loads(done.stdout) if done.stdout else {}
        return {**answer, "rc": done.returncode, "stderr": done.stderr}

    def save(self, step: int, *words: str) -> dict[str, Any]:
        """Publish a checkpoint."""
        made = self.folder / f"step{step}"
        made.mkdir()
        (made / "model.pt").write_bytes(bytes([step % 251]) * 5000)
        return self("save", str(made), "--step", str(step), *words)

    def verdicts(self, *words: str) -> dict[str, str]:
        """The verdict of each checkpoint, by its step."""
        return {str(int(one["id"][:12])): one["verdict"] for one in self("verify", "--all", *words)["checkpoints"]}


@pytest.fixture
def vault() -> Iterator[Simulator]:
    """A key vault with a key that the node's identity may use."""
    with running(SCENARIO) as simulated:
        yield simulated


@pytest.fixture
def signing_node(
    vault: Simulator, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Signing]:
    """A node with the service hpcai-grants. This process's group may write to the container."""
    certificate = certificate_for("localhost", "127.0.0.1", tmp_path)
    bundle, resolve = tmp_path / "ca.crt", socket.getaddrinfo
    bundle.write_bytes(certificate.public.read_bytes() + b"\n" + vault.authority)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setattr(socket, "getaddrinfo", lambda _host, *more, **named: resolve("127.0.0.1", *more, **named))
    account = Azurite(programs, tmp_path / "azurite", certificate=certificate)
    group = grp.getgrgid(os.getgid()).gr_name
    settings = {
        "schema": 1,
        "signing_vault": f"https://{VAULT}.vault.azure.net:{vault.tls_port}",
        "signing_key": KEY,
        "grants": [{"groups": [group], "account_url": account.url, "container": "signed", "rights": "write"}],
    }
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/grants.json").write_text(json.dumps(settings), encoding="utf-8")

    def token(resource: str, _client_id: str) -> str:
        answer = requests.get(
            f"{vault.imds_endpoint}/metadata/identity/oauth2/token",
            params={"api-version": "2018-02-01", "resource": resource},
            headers={"Metadata": "true", imds.INSTANCE_HEADER: "uni_0"},
            timeout=10,
        )
        return str(answer.json()["access_token"])

    broker = Broker(Root(str(tmp_path)), Keys(token), log=lambda _line: None, signer=Signer(token))
    ended = threading.Event()
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        server = Server(listener, broker.answer, lambda _uid: True)
        thread = threading.Thread(target=server.serve, args=(600.0, ended.is_set))
        thread.start()
        yield Signing(tmp_path, account, azcopy_in(programs), path)
        ended.set()
        thread.join()
    account.end()


@pytest.mark.thorough
def test_signed_checkpoints_are_verified_and_each_change_is_found(signing_node: Signing, tmp_path: Path) -> None:
    node, blobs = signing_node, signing_node.account
    lineage = tmp_path / "lineage.json"
    lineage.write_text(json.dumps(LINEAGE))
    about = ["--lineage", str(lineage), "--sign"]
    for step in (100, 200):
        saved = node.save(step, *about)
        assert (saved["rc"], saved["whole"]) == (0, True), saved["stderr"]
    assert node.verdicts("--full", "--signed") == {"200": "pass", "100": "pass"}
    shown = node("verify", "--step", "100", "--signed")["checkpoints"][0]
    assert shown["lineage"] == LINEAGE
    assert shown["signer"]
    restored = node("restore", "--to", str(tmp_path / "to"), "--signed")
    assert (restored["rc"], restored["step"]) == (0, 200), restored["stderr"]

    # Somebody changes a file of 100, of the same size, and the lineage of 200.
    names = blobs.names(node.container, "run/")
    data = next(name for name in names if name.startswith("run/data/000000000100") and name.endswith("model.pt"))
    blobs.put(node.container, data, b"x" * 5000)
    assert node.verdicts() == {"200": "pass", "100": "pass"}
    assert node.verdicts("--full") == {"200": "pass", "100": "fail"}
    changed = next(name for name in names if "000000000200" in name and name.endswith("lineage.json"))
    blobs.put(node.container, changed, json.dumps({**LINEAGE, "recipe": "another"}).encode())
    assert node.verdicts() == {"200": "fail", "100": "pass"}
    refused = node("restore", "--to", str(tmp_path / "again"), "--signed")
    assert refused["rc"] == 1
    assert "its signature is valid, but for another lineage" in refused["problems"][0]

    # An unsigned one is newer.
    assert node.save(300)["rc"] == 0
    assert node.verdicts("--signed")["300"] == "fail"
    refused = node("restore", "--to", str(tmp_path / "again"), "--signed")
    assert (refused["rc"], refused["restored"]) == (1, None)
    assert "is not signed" in refused["problems"][0]
    assert not (tmp_path / "again/step300").exists()


@pytest.mark.thorough
def test_logs_and_reports_are_archived_beside_the_checkpoints(signing_node: Signing, tmp_path: Path) -> None:
    job = tmp_path / "fsdp-tiny-7"
    (job / "sub").mkdir(parents=True)
    (job / "runs.json").write_text("{}")
    (tmp_path / "job.log").write_text("step 1")
    done = signing_node("archive", str(job), str(tmp_path / "job.log"))
    assert done["rc"] == 0, done["stderr"]
    assert sorted(done["archived"]) == ["outputs/fsdp-tiny-7/job.log", "outputs/fsdp-tiny-7/runs.json"]
    assert signing_node.account.names("signed", "run/outputs/") == [f"run/{name}" for name in sorted(done["archived"])]
    # Pruning leaves them.
    assert signing_node.save(100)["rc"] == 0
    assert signing_node("prune", "--keep-last", "1")["rc"] == 0
    assert len(signing_node.account.names("signed", "run/outputs/")) == 2
