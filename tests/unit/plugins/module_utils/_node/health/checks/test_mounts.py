# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared file systems: mounted, not mounted, from elsewhere, broken, with a server that does not answer."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.mounts import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.history import History
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

from ..playing import context

PATIENCE = 1.0
"""Seconds. A machine with much to do may stand still for a part of one."""


class Node:
    """A node with file systems of others, and servers that may be away."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.history = folder, History()
        self.lines = {"/home": "nfs4 server:/home", "/data": "lustre 10.0.0.9@tcp:/data"}
        self.away: dict[str, threading.Event] = {}
        self.broken: dict[str, int] = {}
        mounts = [{"path": path, "source": line.split()[1], "type": "nfs4"} for path, line in self.lines.items()]
        self.put("etc/hpcai/shared_fs.json", json.dumps({"schema": 1, "mounts": mounts}))
        self._statvfs = os.statvfs
        monkeypatch.setattr(os, "statvfs", self.statvfs)

    def put(self, path: str, text: str) -> None:
        """Write a file."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="ascii")

    def statvfs(self, path: str) -> os.statvfs_result:
        """Answer as the file system does, or wait for its server."""
        name = "/" + str(Path(path).relative_to(self.folder))
        if name in self.away:
            self.away[name].wait(60)
        if name in self.broken:
            raise OSError(self.broken[name], os.strerror(self.broken[name]))
        return self._statvfs(self.folder)

    def measure(self, **options: object) -> Answer:
        """Look at the mounts; what is kept is there next time."""
        lines = [f"{n} 1 0:{n} / {path} rw - {line} rw" for n, (path, line) in enumerate(self.lines.items(), 30)]
        self.put("proc/self/mountinfo", "\n".join(lines) + "\n")
        given = {"seconds": PATIENCE, **options}
        return CHECK.measure(context(root=self.folder, history=self.history, seconds=5, options={"mounts": given}))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A node with two file systems; at the end whoever waits is let go."""
    made = Node(tmp_path, monkeypatch)
    yield made
    for event in made.away.values():
        event.set()


def test_passes_where_all_are_mounted_and_answer(node: Node) -> None:
    answer = node.measure()
    assert (answer.findings, answer.good) == ((), "2 shared file systems are mounted and answer")
    assert [one.device for one in answer.readings] == ["/home", "/data"]


@pytest.mark.parametrize("line", ["", "autofs systemd-1"])
def test_fails_where_one_is_not_mounted(node: Node, line: str) -> None:
    del node.lines["/home"]
    if line:
        node.lines["/home"] = line
    (found,) = node.measure().findings
    assert (found.verdict, found.summary) == ("fail", "/home is not mounted from server:/home")


def test_fails_where_one_is_broken(node: Node) -> None:
    node.broken["/home"] = errno.ESTALE
    (found,) = node.measure().findings
    assert (found.verdict, found.device) == ("fail", "/home")
    assert found.summary.startswith("/home does not work: Stale file handle")


def test_fails_where_a_server_does_not_answer_twice_running(node: Node) -> None:
    node.away["/home"] = threading.Event()
    begun = time.monotonic()
    first = node.measure()
    assert time.monotonic() - begun < 10 * PATIENCE
    assert [(found.verdict, found.summary) for found in first.findings] == [
        ("unknown", "/home (server:/home) does not answer within 1 s")
    ]
    assert [one.device for one in first.readings] == ["/data"], "the other one is asked all the same"
    (found,) = node.measure().findings
    assert (found.verdict, found.summary) == (
        "fail",
        "/home (server:/home) does not answer within 1 s, twice running",
    )


def test_passes_where_a_server_takes_its_time(node: Node) -> None:
    node.away["/home"] = threading.Event()
    threading.Timer(0.05, node.away["/home"].set).start()
    assert node.measure(seconds=20).findings == ()


def test_a_server_that_came_back_in_between_begins_anew(node: Node) -> None:
    node.away["/home"] = threading.Event()
    node.measure()
    node.away["/home"].set()
    assert node.measure().findings == ()
    node.away["/home"] = threading.Event()
    assert [found.verdict for found in node.measure().findings] == ["unknown"]


def test_another_source_is_worth_a_warning(node: Node) -> None:
    node.lines["/home"] = "nfs4 other:/home"
    (found,) = node.measure().findings
    assert (found.verdict, found.summary) == ("warn", "/home is mounted from other:/home instead of server:/home")


def test_paths_of_the_site_are_looked_at_too(node: Node) -> None:
    (found,) = node.measure(paths=["/projects/"]).findings
    assert (found.verdict, found.summary) == ("fail", "/projects is not mounted")
    node.lines["/projects"] = "nfs server:/p"
    assert node.measure(paths=["/projects/"]).findings == ()


def test_is_skipped_where_none_are_named(tmp_path: Path) -> None:
    assert CHECK.measure(context(root=tmp_path)).skipped.startswith("no shared file systems are named")


def test_cannot_measure_with_an_option_that_is_none(node: Node) -> None:
    with pytest.raises(ConfigError, match=r"options\.mounts\.paths"):
        node.measure(paths="/home")
