# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Root's service for scheduled events: what it writes, and whose requests to start an event it accepts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_ins import http_service
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events import service as events_service
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events.exchange import (
    READY,
    EventsUnknown,
    read_events_file,
    send_ready,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.events.service import Service
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

NOT_BEFORE = "Mon, 19 Sep 2016 18:29:47 GMT"
EVENTS = [
    {
        "EventId": "A",
        "EventType": "Preempt",
        "Resources": ["set_4"],
        "EventStatus": "Scheduled",
        "NotBefore": NOT_BEFORE,
    },
    {"EventId": "B", "EventType": "Reboot", "Resources": ["set_4", "set_5"], "NotBefore": NOT_BEFORE},
    {"EventId": "C", "EventType": "Terminate", "Resources": ["set_5"], "NotBefore": NOT_BEFORE},
    {"EventId": "D", "EventType": "Reboot", "Resources": ["set_4"], "EventStatus": "Started", "NotBefore": ""},
]
COMPUTE: http_service.Answer = (200, {}, json.dumps({"name": "set_4", "vmSize": "x"}).encode())
DOCUMENT: http_service.Answer = (200, {}, json.dumps({"Events": EVENTS}).encode())


@pytest.fixture
def azure() -> Iterator[http_service.Service]:
    """A metadata service that first answers with this machine's name, and from then on with its events."""
    made = http_service.Service(COMPUTE, DOCUMENT)
    yield made
    made.stop()


@pytest.fixture
def root() -> Iterator[Root]:
    """A machine below a short path, because the path of a socket must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Root(folder)


def test_this_machines_events_are_written(azure: http_service.Service, root: Root) -> None:
    service = Service(root, azure.endpoint)
    service.look()
    service.look()
    assert [event.id for event in read_events_file(root)] == ["D", "A", "B"]
    assert len([path for path, _headers in azure.requests if "instance" in path]) == 1


def test_a_failing_metadata_service_is_written_too(azure: http_service.Service, root: Root) -> None:
    service = Service(root, azure.endpoint)
    service.look()
    azure.answers = [(400, {}, b"")]
    service.look()
    with pytest.raises(EventsUnknown, match="HTTP status 400"):
        read_events_file(root)
    azure.answers = [DOCUMENT]
    service.look()
    assert read_events_file(root)


OTHERS = "other users have jobs on this node"


@pytest.mark.parametrize(
    ("event", "uid", "jobs", "why"),
    [
        ("A", 4001, {17: {4001}}, ""),
        ("A", 4001, {17: {4001}, 18: {4001}}, ""),
        ("A", 0, {17: {4001}, 18: {4002}}, ""),
        ("A", 4001, {17: {4001}, 18: {4002}}, OTHERS),
        ("A", 4003, {17: {4001}}, OTHERS),
        # Only the extern step of job 18 is on this node, whose sleep is root's.
        ("A", 4001, {17: {4001}, 18: set()}, OTHERS),
        ("A", 4001, {18: set()}, OTHERS),
        ("A", 4003, {}, "this user has no job on this node"),
        ("B", 4001, {17: {4001}}, "it affects other machines too"),
        ("C", 4001, {17: {4001}}, "it is not waiting to start"),
        ("D", 4001, {17: {4001}}, "it is not waiting to start"),
        ("../x", 4001, {17: {4001}}, "it is not waiting to start"),
    ],
)
def test_only_root_and_the_only_user_of_a_machine_can_start_its_event(
    azure: http_service.Service, root: Root, event: str, uid: int, jobs: dict[int, set[int]], why: str
) -> None:
    service = Service(root, azure.endpoint, jobs=lambda: jobs)
    service.look()
    assert service.accept_ready(event, uid) == why
    assert len(azure.posted) == (0 if why else 1)
    assert service.accept_ready(event, uid) == (why or "it is not waiting to start")


@pytest.mark.parametrize("users", [{4001}, set()], ids=["processes", "extern step only"])
def test_an_event_of_this_machine_alone_is_started_once_when_no_job_is_left(
    azure: http_service.Service, root: Root, users: set[int]
) -> None:
    jobs = {17: users}
    service = Service(root, azure.endpoint, jobs=lambda: dict(jobs))
    service.look()
    assert service.start_unused({"A", "B"}) == ""
    jobs.clear()
    service.look()
    # B affects other machines, and A is none of those that the caller names.
    assert service.start_unused({"B", "D"}) == ""
    assert not azure.posted
    assert service.start_unused({"A", "B"}) == "event A started: no job is left on this node"
    assert service.start_unused({"A", "B"}) == ""
    assert len(azure.posted) == 1


def test_the_jobs_are_read_from_the_machine(azure: http_service.Service, root: Root) -> None:
    """Between two steps, the only process of a job on a node is its extern step's sleep, which runs as root."""
    tree = MachineTree(Path(root.path))
    tree.process(1, "0", "systemd", parent=0)
    tree.process(10, "0", "slurmstepd", command="slurmstepd: [17.0]")
    tree.process(11, "0", "python", parent=10, uid=4001)
    service = Service(root, azure.endpoint)
    service.look()
    assert service.start_unused({"A"}) == ""
    tree.process(20, "0", "slurmstepd", command="slurmstepd: [18.extern]")
    tree.process(21, "0", "sleep", parent=20)
    service.look()
    assert service.accept_ready("A", 4001) == OTHERS
    for pid in (20, 21):
        shutil.rmtree(root.at(f"/proc/{pid}"))
    # Each look reads the jobs once, because a scan of many processes takes long.
    assert service.accept_ready("A", 4001) == OTHERS
    service.look()
    assert service.accept_ready("A", 4001) == ""


def test_a_flood_of_messages_does_not_delay_the_queries(
    azure: http_service.Service, root: Root, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message was a scan of all processes: with many processes, the events were unknown to all users."""

    class Sender(struct.Struct):
        """The kernel's credentials, with the uid of an ordinary user: the tests may run as root."""

        def unpack(self, data: bytes) -> tuple[int, ...]:  # type: ignore[override]
            pid, _uid, gid = super().unpack(data)
            return pid, 4001, gid

    monkeypatch.setattr(events_service, "_CREDENTIALS", Sender("3i"))
    read: list[float] = []
    looks: list[float] = []

    def read_slowly() -> dict[int, set[int]]:
        time.sleep(0.1)
        read.append(time.monotonic())
        return {17: {4001}, 18: {4002}}

    flooding = threading.Event()

    def flood() -> None:
        while not flooding.is_set():
            with contextlib.suppress(EventsUnknown):
                send_ready(root, "A")
                send_ready(root, "B")

    def notice(_events: object) -> str:
        looks.append(time.monotonic())
        return ""

    service = Service(root, azure.endpoint, jobs=read_slowly, notice=notice)
    thread = threading.Thread(target=service.serve, args=(0.3, lambda: len(looks) > 6))
    thread.start()
    flooder = threading.Thread(target=flood)
    flooder.start()
    thread.join(30)
    flooding.set()
    flooder.join(10)
    assert not thread.is_alive()
    # At most one scan between two queries, and one line for each event.
    assert 1 < len(read) <= len(looks)
    assert sorted(capfd.readouterr().err.splitlines()) == [
        f"hpcnode events: event A not started for user 4001: {OTHERS}",
        "hpcnode events: event B not started for user 4001: it affects other machines too",
    ]


def test_the_kernel_identifies_the_sender(
    azure: http_service.Service, root: Root, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kernel adds the sender's uid to a datagram. The text of a datagram is not written to the journal."""
    ended = threading.Event()
    service = Service(root, azure.endpoint, jobs=lambda: {17: {os.getuid()}})
    thread = threading.Thread(target=service.serve, args=(0.05, ended.is_set))
    thread.start()
    try:
        while not Path(root.at(READY)).exists() or not azure.requests[1:]:
            time.sleep(0.01)
        assert Path(root.at(READY)).stat().st_mode & 0o777 == 0o666
        send_ready(root, "A")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.sendto(b"evil\nline", root.at(READY))
            other.sendto(b"\xff" * 1000, root.at(READY))
        while not azure.posted:
            time.sleep(0.01)
        assert json.loads(azure.posted[0]) == {"StartRequests": [{"EventId": "A"}]}
    finally:
        ended.set()
        thread.join(10)
    assert not thread.is_alive()
    assert capfd.readouterr().err.splitlines() == [f"hpcnode events: event A started for user {os.getuid()}"]
