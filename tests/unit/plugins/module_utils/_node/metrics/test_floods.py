# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A user who keeps the socket for progress busy delays no report of another user."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import job_progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.job_progress import ACCEPTED, LATER, MOST_PER_S
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.progress import Progress

ALICE = 64321
LATEST_S = 0.2
ATTACKS = {
    "silent": "held = []\nwhile True:\n    held = [*held[-400:], connect()]\n    time.sleep(0.001)\n",
    # With more ids (subuid(5)), which newuidmap gives her: their shares are more than all silent connections.
    "silent with many ids": (
        "held = []\nwhile True:\n    for number in range(60):\n        become({uid} + number)\n"
        "        held = [*held[-800:], connect()]\n        time.sleep(0.001)\n"
    ),
    "connecting": "while True:\n    connect().close()\n",
    "sending": "while True:\n    one = connect()\n    send(one, b'x' * 900)\n    one.close()\n",
}
# Becomes alice, and attacks until it is killed.
ATTACK = """\
import contextlib, os, socket, sys, time
os.setgid({uid})
def become(uid):
    os.seteuid(0)
    os.seteuid(uid)
become({uid})
def connect():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.suppress(OSError):
        one.connect(sys.argv[1])
    return one
def send(one, message):
    with contextlib.suppress(OSError):
        one.send(message)
print("attacks", flush=True)
ATTACK
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def kept() -> Progress:
    """The progress that the service has."""
    return Progress()


@pytest.fixture
def root(kept: Progress) -> Iterator[Root]:
    """A machine with a service. The user who runs the tests is in a job; nobody else is."""
    own, end = os.geteuid(), threading.Event()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        machine = Root(folder)
        with progress.listening(machine) as listener:
            given = (listener, kept, lambda _pid, uid: 42 if uid == own else None, time.monotonic() + 60, end.is_set)
            thread = threading.Thread(target=progress.receive, args=given)
            thread.start()
            yield machine
            end.set()
            thread.join()


@contextlib.contextmanager
def attacked(root: Root, attack: str, processes: int) -> Iterator[None]:
    """Attack the socket as alice."""
    text = ATTACK.replace("ATTACK", attack).format(uid=ALICE)
    words = [sys.executable, "-c", text, root.at(job_progress.SOCKET)]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _number in range(processes)]
    try:
        for one in running:
            assert one.stdout
            assert one.stdout.readline() == b"attacks\n"
        time.sleep(0.3)
        yield
    finally:
        for one in running:
            one.kill()
            one.communicate()


@as_root
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_users_flood_delays_no_report_of_another_user(root: Root, kept: Progress, attack: str) -> None:
    """Each silent connection took 0.1 s, and after a flood the service slept for a second.

    With the ids of several users, or of one with further ids, the table of silent connections was full all the time.
    """
    waited = []
    with attacked(root, ATTACKS[attack], 2):
        for step in range(5):
            began = time.monotonic()
            assert job_progress.send(root, "train", {"step": step}) == ACCEPTED
            waited.append(time.monotonic() - began)
            time.sleep(0.1)
    # The test machine may be busy for a moment.
    assert sorted(waited)[3] < LATEST_S
    assert kept.figures[42, "train"][1] == {"step": 4.0}


@as_root
def test_a_flood_costs_the_node_little_cpu_time() -> None:
    """CPUQuota would stop the service for most of each 0.1 s, and so delay the others."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        machine = Root(folder)
        with progress.listening(machine) as listener, attacked(machine, ATTACKS["connecting"], 3):
            began, used = time.monotonic(), time.thread_time()
            progress.receive(listener, Progress(), lambda _pid, _uid: None, began + 2)
            share = (time.thread_time() - used) / (time.monotonic() - began)
    assert share < 0.1


def test_a_user_has_a_number_of_messages_per_second(root: Root) -> None:
    began = time.monotonic()
    answers = [job_progress.send(root, "train", {"step": 1}) for _turn in range(4 * MOST_PER_S)]
    seconds = time.monotonic() - began
    # Also those of a second that had begun before, and of one that has just begun.
    assert MOST_PER_S <= answers.count(ACCEPTED) <= MOST_PER_S * (seconds + 2)
    assert {*answers} == {ACCEPTED, LATER}
    time.sleep(1.1)
    assert job_progress.send(root, "train", {"step": 2}) == ACCEPTED


class Slow(socket.socket):
    """A sender that does not run until the service has closed its connection."""

    def connect(self, where: Any) -> None:
        """Connect."""
        super().connect(where)
        end = select.poll()
        end.register(self, 0)
        assert end.poll(30000)


@pytest.mark.parametrize("sender", [socket.socket, Slow])
def test_a_message_too_many_is_answered_before_and_after_it_has_come(
    root: Root, monkeypatch: pytest.MonkeyPatch, sender: type[socket.socket]
) -> None:
    """Otherwise the sender cannot distinguish it from a missing service."""
    monkeypatch.setattr(progress, "MOST_PER_S", 0)
    monkeypatch.setattr(socket, "socket", sender)
    assert job_progress.send(root, "train", {"step": 1}) == LATER


def test_hpcnode_names_the_reason_why_a_report_is_not_accepted(
    root: Root, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--root", root.at("/"), "metrics", "progress", "--step", "1"]
    assert frame.main(words) == 0
    monkeypatch.setattr(progress, "MOST_PER_S", 0)
    assert frame.main(words) == 1
    assert frame.main(["--root", str(tmp_path), *words[2:]]) == 1
    accepted, too_many, missing = capsys.readouterr().out.splitlines()
    assert accepted == "accepted"
    assert too_many == "not accepted: too many messages: a user may send 20 per second on a node. Report less often"
    assert missing.startswith("not accepted: this node has no metrics service, or the service had no time to answer")


def test_an_unread_message_does_not_replace_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MOST_PER_S", 0)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        machine = Root(folder)
        with progress.listening(machine) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
            one.connect(machine.at(job_progress.SOCKET))
            one.send(b"x" * 900)
            progress.receive(listener, Progress(), lambda _pid, _uid: None, time.monotonic() + 0.2)
            assert one.recv(8) == LATER.encode()


def answer_to(connection: socket.socket) -> bytes | None:
    """The answer to a connection; None without one."""
    connection.setblocking(False)
    try:
        return connection.recv(8)
    except BlockingIOError:
        return None


def test_silent_connections_are_closed_after_a_second(root: Root) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(root.at(job_progress.SOCKET))
        silent.settimeout(10)
        began = time.monotonic()
        assert silent.recv(8) == b""
        assert time.monotonic() - began > 0.9


def test_if_there_are_too_many_silent_connections_the_oldest_is_closed(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that reports sends at once, so it is never the oldest."""
    monkeypatch.setattr(progress, "_MOST_SILENT", 3)
    monkeypatch.setattr(progress, "_SILENT_S", 60.0)
    with contextlib.ExitStack() as opened:
        silent = [opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _turn in range(3)]
        for one in silent:
            one.connect(root.at(job_progress.SOCKET))
        assert job_progress.send(root, "train", {"step": 1}) == ACCEPTED
        assert [answer_to(one) for one in silent] == [LATER.encode(), None, None]
