# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lineage and signatures of checkpoints: the service signs with a vault's key, and each forgery is named."""

from __future__ import annotations

import grp
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stand_ins.folder_store import Faults

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.attest import (
    BadSignature,
    Bounded,
    Verifier,
    archive,
    attest,
    check_files,
    lineage_of,
    read_lineage,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.manifest import JobManifest, completed
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.prune import Retention, prune
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.restore import Damaged
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.broker import Broker, Keys
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.client import GrantsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.signing import Signer
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import vault_keys
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import vault_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.key_vault import VaultError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed
from simulator.keyvault.store import Key

from .conftest import Job

STORE = "https://training.blob.core.windows.net/checkpoints/run/"
LINEAGE = '{"recipe": "fsdp tiny", "parent": 50}'
TOKEN = "token-of-the-machine"


@pytest.fixture(scope="module")
def key() -> Key:
    """The cluster's key."""
    return Key("hpcai-checkpoints")


@pytest.fixture
def rights() -> str:
    """What this process's user may do in the container."""
    return "write"


@pytest.fixture
def log() -> list[str]:
    """The service's journal."""
    return []


@pytest.fixture
def request_(
    key: Key, rights: str, log: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    """Sends a request of this process's user to the service, which has a vault with the key."""
    kid = f"https://hpcai-sim.vault.azure.net/keys/{key.name}/{key.version}"

    def vault(url: str, headers: Mapping[str, str], *_more: object, body: bytes | None = None) -> bytes:
        assert headers["Authorization"] == f"Bearer {TOKEN}"
        if body:
            digest = vault_keys.decoded(json.loads(body)["value"])
            return json.dumps({"kid": kid, "value": vault_keys.encoded(key.sign(digest))}).encode()
        parts = {name: vault_keys.encoded(one.to_bytes(256, "big")) for name, one in zip("ne", key.public, strict=True)}
        return json.dumps({"key": {"kid": kid, "kty": "RSA", **parts}}).encode()

    monkeypatch.setattr(vault_keys, "get", vault)
    settings = {
        "schema": 1,
        "signing_vault": "https://hpcai-sim.vault.azure.net",
        "grants": [
            {
                "groups": [grp.getgrgid(os.getgid()).gr_name],
                "account_url": "https://training.blob.core.windows.net",
                "container": "checkpoints",
                "rights": rights,
            }
        ],
    }
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/grants.json").write_text(json.dumps(settings))
    broker = Broker(
        Root(str(tmp_path)), Keys(lambda *_given: TOKEN), log=log.append, signer=Signer(lambda *_given: TOKEN)
    )

    def send(question: Mapping[str, str]) -> dict[str, Any]:
        answer = broker.answer(os.getuid(), json.dumps(question).encode())
        if "error" in answer:
            raise GrantsError(answer["error"])
        return answer

    return send


Request = Callable[[Mapping[str, str]], dict[str, Any]]


@pytest.fixture
def signed(job: Job, request_: Request) -> JobManifest:
    """A complete checkpoint with lineage and signature."""
    for rank in (0, 1):
        job.publish(job.save(100, rank, "weights"))
    manifest = next(iter(completed(job.store()).values()))
    attest(job.store(), manifest, STORE, LINEAGE, True, request_)
    return manifest


def change(job: Job, name: str, words: Mapping[str, str]) -> None:
    """Change a blob."""
    path = job.blobs / name
    text = path.read_text()
    for old, new in words.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def test_a_signed_checkpoint_names_its_publisher_and_its_lineage(
    job: Job, signed: JobManifest, request_: Request, log: list[str]
) -> None:
    store = job.store()
    assert Verifier(store, STORE, request_).signer(signed, required=True)
    assert lineage_of(store, signed.id) == json.loads(LINEAGE)
    check_files(store, signed, full=True)
    assert "signature of 000000000100-7.0-w2" in "".join(log)
    assert TOKEN not in "".join(log)


def test_what_is_signed_is_not_signed_again(job: Job, signed: JobManifest, request_: Request, log: list[str]) -> None:
    attest(job.store(), signed, STORE, '{"recipe": "other"}', True, request_)
    assert len(log) == 1
    assert lineage_of(job.store(), signed.id) == json.loads(LINEAGE)


def test_a_lineage_that_somebody_else_has_put_there_is_not_signed(job: Job, request_: Request, log: list[str]) -> None:
    for rank in (0, 1):
        job.publish(job.save(100, rank, "weights"))
    manifest = next(iter(completed(job.store()).values()))
    (job.blobs / manifest.id.about).mkdir(parents=True)
    (job.blobs / manifest.id.lineage).write_text('{"recipe": "other"}')
    with pytest.raises(CommandFailed, match="has another lineage of it, which stays"):
        attest(job.store(), manifest, STORE, LINEAGE, True, request_)
    assert not log
    assert not (job.blobs / manifest.id.signature).exists()


def test_a_lineage_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lineage.json").write_bytes(b'\xff{"recipe": 1}')
    with pytest.raises(CommandFailed, match="is no lineage"):
        read_lineage(str(tmp_path / "lineage.json"))


def test_a_public_key_and_the_token_are_asked_for_once(
    signed: JobManifest, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    tokens: list[str] = []
    now = [0.0]
    vault = vault_keys.get

    def get(url: str, *more: Any, **named: Any) -> bytes:
        asked.append(url)
        return vault(url, *more, **named)

    def token(resource: str, _client_id: str) -> str:
        tokens.append(resource)
        return TOKEN

    monkeypatch.setattr(vault_keys, "get", get)
    signer = Signer(token, lambda: now[0])
    place = vault_of("https://hpcai-sim.vault.azure.net")
    answers = [signer.public(place, key.name, key.version, "") for _number in range(3)]
    assert answers[0] == answers[2]
    assert (len(asked), len(tokens)) == (1, 1)
    with pytest.raises(VaultError):
        signer.public(place, key.name, "0" * 32, "")
    with pytest.raises(VaultError):
        signer.public(place, key.name, "0" * 32, "")
    # What the vault does not have is not kept, and after a refusal there is a new token.
    assert (len(asked), len(tokens)) == (3, 2)
    signer.sign(place, key.name, "words", "")
    now[0] = 3600.0
    signer.sign(place, key.name, "words", "")
    assert len(tokens) == 4


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({'\\"uid\\": ': '\\"uid\\": 1'}, "is not one of the cluster's key"),
        ({'"signature": "': '"signature": "A'}, "is not one of the cluster's key"),
        ({'"statement"': '"stated"'}, "is no signature"),
    ],
)
def test_a_changed_signature_is_refused(
    job: Job, signed: JobManifest, request_: Request, words: dict[str, str], problem: str
) -> None:
    change(job, signed.id.signature, words)
    with pytest.raises(BadSignature, match=problem):
        Verifier(job.store(), STORE, request_).signer(signed, required=False)


def test_the_signature_of_another_checkpoint_is_refused(job: Job, signed: JobManifest, request_: Request) -> None:
    for rank in (0, 1):
        job.publish(job.save(200, rank, "other"))
    newest = list(completed(job.store()).values())[-1]
    (job.blobs / newest.id.about).mkdir(parents=True)
    (job.blobs / newest.id.signature).write_bytes((job.blobs / signed.id.signature).read_bytes())
    with pytest.raises(BadSignature, match="for another checkpoint"):
        Verifier(job.store(), STORE, request_).signer(newest, required=False)


def test_a_changed_lineage_or_another_store_is_refused(job: Job, signed: JobManifest, request_: Request) -> None:
    with pytest.raises(BadSignature, match="for another store"):
        Verifier(job.store(), f"{STORE}2", request_).signer(signed, required=False)
    change(job, signed.id.lineage, {"50": "60"})
    with pytest.raises(BadSignature, match="for another lineage"):
        Verifier(job.store(), STORE, request_).signer(signed, required=False)


def test_an_unsigned_checkpoint_is_refused_only_where_a_signature_is_required(
    job: Job, signed: JobManifest, request_: Request
) -> None:
    (job.blobs / signed.id.signature).unlink()
    verifier = Verifier(job.store(), STORE, request_)
    assert not verifier.signer(signed, required=False)
    with pytest.raises(BadSignature, match="is not signed"):
        verifier.signer(signed, required=True)


@pytest.mark.parametrize("rights", ["read"])
def test_only_who_may_write_there_gets_a_signature(job: Job, request_: Request) -> None:
    for rank in (0, 1):
        job.publish(job.save(100, rank, "weights"))
    manifest = next(iter(completed(job.store()).values()))
    with pytest.raises(CommandFailed, match="is not signed: none of your groups is granted 'write'"):
        attest(job.store(), manifest, STORE, "", True, request_)


@pytest.mark.parametrize(
    "changed",
    [
        {"manifest": "x"},
        {"manifest": ""},
        {"lineage": "0"},
        {"checkpoint": 'a", "uid": "0'},
        {"checkpoint": "a b"},
        {"statement": "anything"},
        {"uid": "0"},
    ],
)
def test_a_user_cannot_have_anything_else_signed(request_: Request, log: list[str], changed: dict[str, str]) -> None:
    good = {"ask": "sign", "what": STORE, "checkpoint": "000000000100-7.0-w2", "manifest": "0" * 64, "lineage": ""}
    assert json.loads(request_(good)["statement"])["uid"] == os.getuid()
    with pytest.raises(GrantsError):
        request_({**good, **changed})


@pytest.mark.parametrize(
    "version", ["../secrets/munge-key", f"{'a' * 32}/sign", f"{'a' * 32}?x=1", "A" * 32, f"{'a' * 32}/../../secrets/x"]
)
def test_a_user_reads_nothing_of_the_vault_but_a_public_key(request_: Request, version: str) -> None:
    with pytest.raises(GrantsError, match="this is no version of a key"):
        request_({"ask": "key", "what": version})


def test_a_file_that_is_lost_or_replaced_is_found(job: Job, signed: JobManifest) -> None:
    path = next((job.blobs / "data").rglob("rank1.pt"))
    content = path.read_text()
    path.write_text(content.replace("weights", "WEIGHTS"))
    check_files(job.store(), signed, full=False)
    with pytest.raises(Damaged, match=r"rank1\.pt has another content"):
        check_files(job.store(), signed, full=True)
    path.unlink()
    with pytest.raises(Damaged, match=r"rank1\.pt is missing or has the wrong size"):
        check_files(job.store(), signed, full=False)


def test_a_checkpoint_is_downloaded_in_parts_that_leave_half_of_the_disk_free(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files of 30 kB and 10 kB on each node.
    for rank in (0, 1):
        job.publish(job.save(100, rank, "w" * 10_000))
    store = job.store()
    manifest = next(iter(completed(store).values()))

    def downloads(free: int) -> int:
        """How many downloads of node 0's data there are with so much free space."""
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free))
        store.log.clear()
        check_files(Bounded(store), manifest, full=True)
        # Before each download, and once before all of them, the sizes are listed.
        return sum("list data/" in line and "/0-" in line for line in store.log) - 1

    assert downloads(1_000_000) == 1
    # A quarter of the space for each part.
    assert downloads(100_000) == 2
    with pytest.raises(CommandFailed, match="bytes to download, but only half of the 40000 free bytes"):
        downloads(40_000)


def test_a_manifest_that_somebody_has_made_huge_is_not_read(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (0, 1):
        job.publish(job.save(100, rank, "weights"))
    with open(next((job.blobs / "complete").iterdir()), "r+b") as file:
        file.truncate((1 << 26) + 1)
    with pytest.raises(CommandFailed, match="is no text of hpcnode"):
        completed(job.store())
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 26))
    with pytest.raises(CommandFailed, match="bytes to download"):
        completed(Bounded(job.store()))


def test_many_manifests_that_are_too_large_together_are_not_read(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (100, 200, 300):
        for rank in (0, 1):
            job.publish(job.save(step, rank, "weights"))
    one = next((job.blobs / "complete").iterdir()).stat().st_size
    monkeypatch.setattr(Bounded, "most_text", 3 * one)
    assert len(completed(Bounded(job.store()))) == 3
    monkeypatch.setattr(Bounded, "most_text", 2 * one)
    with pytest.raises(CommandFailed, match=r"the 3 texts in complete/ have"):
        completed(Bounded(job.store()))


def test_too_many_blobs_are_not_listed(job: Job) -> None:
    for rank in (0, 1):
        job.publish(job.save(100, rank, "weights"))
    assert len(Bounded(job.store()).list("shards/")) == 2
    with pytest.raises(CommandFailed, match="more than 1 blobs"):
        Bounded(job.store()).list("shards/", 1)


def test_a_file_that_grows_between_listing_and_download_does_not_fill_the_disk(job: Job, signed: JobManifest) -> None:
    path = next((job.blobs / "data").rglob("rank1.pt"))

    def grow(_number: int, words: str) -> None:
        if words.startswith("get data/") and words.endswith("rank1.pt"):
            with path.open("r+b") as file:
                file.truncate(1 << 28)

    with pytest.raises(CommandFailed, match="has more than"):
        check_files(Bounded(job.store(Faults(before=grow))), signed, full=True)


def test_a_lineage_that_somebody_has_made_huge_is_not_read(job: Job, signed: JobManifest) -> None:
    (job.blobs / signed.id.lineage).write_text("[" * (4 << 20) + "]")
    with pytest.raises(CommandFailed, match="is no text of hpcnode"):
        lineage_of(job.store(), signed.id)


def test_a_pruned_checkpoint_leaves_no_signature(job: Job, signed: JobManifest) -> None:
    for rank in (0, 1):
        job.publish(job.save(200, rank, "more"))
    prune(job.store(), Retention(1, attempt="7.0"))
    assert not list((job.blobs / "about").rglob("*.json"))


def test_the_files_of_a_job_folder_are_archived_and_never_pruned(job: Job, signed: JobManifest, tmp_path: Path) -> None:
    folder = tmp_path / "fsdp-tiny-7"
    (folder / "deeper").mkdir(parents=True)
    (folder / "runs.json").write_text("{}")
    (folder / "link").symlink_to("/etc/shadow")
    (tmp_path / "job.log").write_text("log")
    names = archive(job.store(), str(folder), [str(tmp_path / "job.log")])
    assert names == ["outputs/fsdp-tiny-7/runs.json", "outputs/fsdp-tiny-7/job.log"]
    prune(job.store(), Retention(1), now=4e9)
    assert (job.blobs / names[0]).read_text() == "{}"
