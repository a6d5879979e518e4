# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step key: fetches the munge key, keeps the old key after an error, and never leaks it."""

from __future__ import annotations

import json
import logging
import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import engine
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome, StepFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps import key
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import imds, key_vault
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import KeySource
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ImdsError, TokenRefused
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.key_vault import VaultError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

VAULT = "https://hpcai-sim.vault.azure.net"
KEY = b"s3cretKeyThatNobodyMaySee" + bytes((0, 255, 254, 10)) * 8
OTHER = b"x" * 128
TOKEN = "eyJ0.token-of-the-machine"


class Node:
    """A machine with a stand-in for the vault, which records its commands."""

    def __init__(self, path: Path) -> None:
        self.root = Root(str(path))
        self.commands: list[tuple[str, ...]] = []
        self.file = Path(self.root.at(key.KEY_FILE))
        self.write("/etc/passwd", f"root:x:0:0::/root:/bin/sh\nmunge:x:{os.getuid()}:{os.getgid()}::/:/sbin/nologin\n")
        self.file.parent.mkdir(parents=True)
        self.settings()

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        file = Path(self.root.at(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def settings(self, source: str = "key_vault") -> None:
        """Write the cluster's settings."""
        stated = {
            "schema": 1,
            "cluster": "training",
            "functions": ["compute"],
            "controllers": ["10.0.0.4"],
            "key": {"source": source, "vault": VAULT},
        }
        self.write("/etc/hpcai/cluster.json", json.dumps(stated))

    def run(self, command: Sequence[str]) -> Result:
        """Record a command."""
        self.commands.append(tuple(command))
        return Result(tuple(command), 0, "", "")

    def perform(self, answer: bytes | Exception = KEY, check: bool = False) -> Outcome:
        """Do the step with this answer of the vault."""

        def fetch(source: KeySource, limit_s: float) -> bytes:
            assert source == KeySource("key_vault", VAULT, "munge-key", None)
            assert limit_s == 55
            if isinstance(answer, Exception):
                raise answer
            return answer

        return key.perform(Context(self.root, self.run, check, 60), fetch)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A machine with munge and without a key."""
    return Node(tmp_path)


GONE = key._NoKey("key vault hpcai-sim gave no answer in 27 s: timed out", "look at the route")


def test_is_skipped_without_a_cluster(node: Node) -> None:
    Path(node.root.at("/etc/hpcai/cluster.json")).unlink()
    assert node.perform().verdict == SKIP


def test_the_key_comes_from_the_vault(node: Node) -> None:
    outcome = node.perform()
    assert (outcome.verdict, outcome.changes) == (PASS, (f"wrote {key.KEY_FILE} from secret munge-key of {VAULT}",))
    assert node.file.read_bytes() == KEY
    assert node.file.stat().st_mode & 0o7777 == 0o400
    assert node.commands == [("systemctl", "--no-block", "try-restart", "munge.service")]


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.perform()
    before, node.commands = node.file.stat().st_mtime_ns, []
    outcome = node.perform()
    assert (outcome.verdict, outcome.changes, node.commands) == (PASS, (), [])
    assert node.file.stat().st_mtime_ns == before


def test_a_changed_secret_replaces_the_key(node: Node) -> None:
    node.perform(OTHER)
    node.commands = []
    assert node.perform().changes
    assert (node.file.read_bytes(), len(node.commands)) == (KEY, 1)


@pytest.mark.parametrize("broken", [b"", b"short", b"x" * 1025])
def test_a_key_file_that_munge_would_reject_is_replaced(node: Node, broken: bytes) -> None:
    node.file.write_bytes(broken)
    assert node.perform().changes
    assert node.file.read_bytes() == KEY


def test_the_mode_of_a_readable_key_file_is_corrected(node: Node) -> None:
    node.perform()
    node.file.chmod(0o644)
    assert node.perform().changes == (f"set owner munge and mode 0400 on {key.KEY_FILE}",)
    assert node.file.stat().st_mode & 0o7777 == 0o400


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_the_key_belongs_to_munge(node: Node) -> None:
    node.write("/etc/passwd", "munge:x:4711:4712::/:/sbin/nologin\n")
    node.perform()
    assert (node.file.stat().st_uid, node.file.stat().st_gid) == (4711, 4712)


def test_check_mode_asks_the_vault_but_writes_nothing(node: Node) -> None:
    outcome = node.perform(check=True)
    assert (outcome.verdict, len(outcome.changes)) == (PASS, 1)
    assert (node.file.exists(), node.commands) == (False, [])


def test_without_the_vault_a_node_without_a_key_fails(node: Node) -> None:
    outcome = node.perform(GONE)
    assert outcome.verdict == FAIL
    assert outcome.summary == "no munge key: key vault hpcai-sim gave no answer in 27 s: timed out"
    assert outcome.action == "look at the route"


def test_without_the_vault_the_previous_key_is_kept(node: Node) -> None:
    node.perform()
    outcome = node.perform(GONE)
    assert (outcome.verdict, outcome.action) == (WARN, "look at the route")
    assert outcome.summary.startswith("the previous munge key is kept: key vault hpcai-sim gave no answer")
    assert node.file.read_bytes() == KEY


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 1025])
def test_a_secret_of_invalid_length_is_not_written(node: Node, secret: bytes) -> None:
    assert (node.perform(secret).verdict, node.file.exists()) == (FAIL, False)
    node.perform()
    outcome = node.perform(secret)
    assert (outcome.verdict, node.file.read_bytes()) == (WARN, KEY)
    assert f"has {len(secret)} bytes, but a munge key has 32 to 1024" in outcome.summary


@pytest.mark.parametrize("length", [32, 1024])
def test_the_shortest_and_longest_valid_keys_are_accepted(node: Node, length: int) -> None:
    assert node.perform(b"x" * length).verdict == PASS


def test_with_source_push_the_step_fails_until_a_key_exists(node: Node) -> None:
    node.settings("push")
    outcome = node.perform()
    assert (outcome.verdict, "waits for site.yml" in outcome.summary) == (FAIL, True)
    assert not node.file.exists()
    node.file.write_bytes(b"short")
    assert node.perform().verdict == FAIL
    node.file.write_bytes(OTHER)
    assert node.perform().verdict == PASS
    assert (node.file.read_bytes(), node.commands) == (OTHER, [])


def test_a_machine_without_the_user_munge_is_an_error(node: Node) -> None:
    node.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\nmunger:x:7:7::/:\nmunge:x:x:y\n")
    with pytest.raises(StepFailed, match="there is no user munge on this machine: install munge"):
        node.perform()


def test_the_user_munge_may_come_from_a_directory_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = pwd.struct_passwd(("munge", "x", 4711, 4712, "", "/", "/sbin/nologin"))
    monkeypatch.setattr(pwd, "getpwnam", {"munge": known}.__getitem__)
    assert key._owner(Root("/")) == (4711, 4712)


def test_a_broken_settings_file_is_named(node: Node) -> None:
    node.write("/etc/hpcai/cluster.json", "{")
    with pytest.raises(ConfigError, match=r"cluster\.json is not valid JSON"):
        node.perform()


def test_a_full_disk_leaves_the_old_key(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.perform(OTHER)

    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        node.perform()
    assert node.file.read_bytes() == OTHER
    assert [entry.name for entry in node.file.parent.iterdir()] == ["munge.key"]


def test_a_temporary_file_of_an_interrupted_run_is_removed(node: Node) -> None:
    (node.file.parent / ".munge.key.ab12").write_bytes(KEY)
    node.perform()
    assert [entry.name for entry in node.file.parent.iterdir()] == ["munge.key"]


def test_the_token_is_for_the_vaults_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def token(*arguments: Any) -> str:
        asked.append(arguments)
        return TOKEN

    def secret(*arguments: Any) -> bytes:
        asked.append(arguments)
        return KEY

    monkeypatch.setattr(imds, "read_token", token)
    monkeypatch.setattr(key_vault, "read_secret", secret)
    source = KeySource("key_vault", "https://abc.vault.azure.cn", "other-key", "client")
    assert key.fetch_from_vault(source, 50) == KEY
    assert asked[0] == ("https://vault.azure.cn", "client", 25)
    assert [asked[1][0].url, *asked[1][1:3]] == ["https://abc.vault.azure.cn", "other-key", TOKEN]
    assert 49 < asked[1][3] <= 50


@pytest.mark.parametrize(
    ("error", "summary", "action"),
    [
        (TokenRefused("no identity token: HTTP status 400."), "no identity token", "az vmss identity assign"),
        (ImdsError("the metadata service gave no answer."), "gave no answer", "systemctl start slurmd"),
        (VaultError("has no secret munge-key", "az keyvault secret set"), "has no secret", "az keyvault secret set"),
    ],
)
def test_errors_of_token_and_vault_are_in_the_verdict(
    node: Node, monkeypatch: pytest.MonkeyPatch, error: Exception, summary: str, action: str
) -> None:
    def fails(*_arguments: Any) -> None:
        raise error

    monkeypatch.setattr(imds, "read_token", fails)
    outcome = key.perform(Context(node.root, node.run, False, 60))
    assert outcome.verdict == FAIL
    assert summary in outcome.summary
    assert action in outcome.action


ENDINGS: list[bytes | Exception] = [KEY, KEY[:20], KEY * 40, GONE, OSError(28, "No space left"), ValueError("defect")]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
def test_neither_key_nor_token_is_leaked(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    ending: bytes | Exception,
) -> None:
    def secret(*_arguments: Any) -> bytes:
        if isinstance(ending, Exception):
            raise ending
        return ending

    monkeypatch.setattr(imds, "read_token", lambda *_arguments: TOKEN)
    monkeypatch.setattr(key_vault, "read_secret", secret)
    caplog.set_level(logging.DEBUG)
    ran = engine.perform(key.STEP, node.root, node.run)
    shown = repr(ran) + json.dumps(ran.as_dict()) + repr(node.commands) + caplog.text + "".join(capfd.readouterr())
    for path in Path(node.root.path).rglob("*"):
        if path.is_file() and path != node.file:
            shown += path.read_text(encoding="utf-8", errors="replace")
    assert "hpcai-sim" in shown
    assert "s3cret" not in shown
    assert TOKEN not in shown
