# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode scratch: the boot's way to the same scratch."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import scratch
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN, USAGE
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import as_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.options import DEFAULTS, as_settings

from ..setup.scratch.node import Disk, Node, filesystem


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with eight blank disks, with settings for them, whose waiting takes no time."""
    played = Node(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_arguments: None)
    monkeypatch.setattr(scratch, "Root", lambda _path: played.root)
    monkeypatch.setattr(scratch, "run", played.run)
    settings(played, expected_count=8)
    return played


def settings(node: Node, **options: Any) -> None:
    """Write the settings as the module does."""
    me = {"owner": str(os.getuid()), "group": str(os.getgid())}
    file = node.folder / "etc/hpcai/scratch.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(as_config(as_settings({**DEFAULTS, **me, **options})), encoding="utf-8")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The answer for a program."""
    main(["scratch", *words, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_up_builds_once_and_says_what_it_did(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scratch", "up"]) == GOOD
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "create a RAID 0 of " + " ".join(f"nvme{n}n1" for n in range(8))
    assert lines[-1].startswith("/scratch is up: 7.7 TB xfs on /dev/md125 of nvme0n1 ")
    node.commands.clear()
    assert main(["scratch", "up"]) == GOOD
    assert capsys.readouterr().out.splitlines() == lines[-1:]
    assert node.commands == []


def test_up_leaves_the_settings_as_they_are(node: Node) -> None:
    before = node.root.text("/etc/hpcai/scratch.json")
    assert main(["scratch", "up"]) == GOOD
    assert node.root.text("/etc/hpcai/scratch.json") == before


def test_without_settings_nothing_can_be_told(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    (node.folder / "etc/hpcai/scratch.json").unlink()
    for action in ("up", "down", "status"):
        assert main(["scratch", action]) == UNKNOWN
        assert "no /etc/hpcai/scratch.json" in capsys.readouterr().out
    assert node.commands == []


@pytest.mark.parametrize(
    "text", ['{"schema": 1, "chunk": "500K"}', '{"schema": 1, "stripes": 2}', '{"schema": 9}', "{"]
)
def test_settings_that_cannot_be_used_are_named(node: Node, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (node.folder / "etc/hpcai/scratch.json").write_text(text)
    assert main(["scratch", "up"]) == UNKNOWN
    assert "/etc/hpcai/scratch.json" in capsys.readouterr().err


def test_a_disk_that_stays_away_is_bad_after_the_wait(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = [0.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: clock[0])

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(run.time, "sleep", sleep)
    del node.disks["nvme7n1"]
    node.write()
    assert main(["scratch", "up", "--wait", "3"]) == BAD
    assert "there are 7 local NVMe disks where 8 are expected" in capsys.readouterr().err
    assert len(slept) == 3
    assert node.commands == []


def test_a_disk_that_comes_late_is_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.ours()
    node.mounts.pop()
    node.arrays.clear()
    node.stopped = [filesystem()]
    late = node.disks.pop("nvme7n1")
    node.write()

    def sleep(_seconds: float) -> None:
        node.disks["nvme7n1"] = late
        node.write()

    monkeypatch.setattr(run.time, "sleep", sleep)
    assert main(["scratch", "up"]) == GOOD
    # Not built again because it was incomplete at first.
    assert [words.split()[:2] for words in node.commands] == [["mdadm", "--assemble"], ["mount", "-t"]]


def test_refuses_as_the_module_does(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.disks["nvme2n1"].signatures = [{"type": "ext4", "label": "precious"}]
    node.write()
    assert main(["scratch", "up"]) == BAD
    assert "/dev/nvme2n1 contains a file system" in capsys.readouterr().err
    assert main(["scratch", "status"]) == BAD
    assert "refused: /dev/nvme2n1 contains a file system" in capsys.readouterr().out


def test_status_tells_what_there_is_and_what_up_would_do(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    before = answer(capsys, "status")
    assert (before["status"], before["state"]) == (BAD, "not up")
    assert before["actions"][0].startswith("create a RAID 0")
    assert node.commands == []
    main(["scratch", "up"])
    capsys.readouterr()
    node.commands.clear()
    after = answer(capsys, "status")
    assert (after["status"], after["state"], after["mountpoint"]) == (GOOD, "up", "/scratch")
    assert (after["array"], len(after["devices"]), after["filesystem"]) == ("/dev/md125", 8, "xfs")
    assert node.commands == []


def test_down_keeps_what_is_in_it(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.ours()
    document = answer(capsys, "down")
    assert (document["status"], document["state"]) == (GOOD, "down")
    assert node.commands == ["umount /scratch", "mdadm --stop /dev/md127"]
    assert answer(capsys, "down")["changed"] is False


def test_a_size_without_local_disks_is_good(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.disks = {"sda": Disk("Virtual Disk", "OS", [{"type": "gpt"}], ["sda1"])}
    node.write()
    settings(node, expected_count=0)
    assert main(["scratch", "up"]) == GOOD
    assert "no local NVMe disk is expected, and there is none" in capsys.readouterr().out


def test_wants_one_of_its_actions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scratch"]) == USAGE
    assert main(["scratch", "format"]) == USAGE
    assert main(["scratch", "--help"]) == GOOD
    assert "hpcai-scratch.service" in capsys.readouterr().out
