# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node exporter's port is never free while it restarts. The real node exporter, with a stand-in for systemd."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import resource
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator

import psutil
import pytest
from stand_ins.monitor import REPOSITORY, ROLE, free_port, program, wait

START = """
from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import exporter
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.settings import Exporter, Settings

try:
    started = Exporter({program!r}, {port}, old_options={old})
    exporter.start(Settings(folder={folder!r}, exporter=started), "127.0.0.1")
except ConfigError as error:
    raise SystemExit(str(error))
"""
UNIT = (ROLE / "templates/hpcai-node-exporter.service.j2").read_text(encoding="utf-8")
MOST_FILES = int(UNIT.partition("LimitNOFILE=")[2].split()[0])
MOST_MEMORY = int(UNIT.partition("MemoryMax=")[2].partition("M")[0]) << 20


class Systemd:
    """Starts the service, keeps its socket and passes it to the next start, as systemd does (sd_listen_fds(3))."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(folder / "notify"))
        self.kept: list[int] = []

    def start(self, port: int, old: bool = False) -> subprocess.Popen[bytes]:
        """Start the exporter, with the options of an old one or of a new one."""
        (self.folder / "text").mkdir(exist_ok=True)
        code = START.format(folder=str(self.folder / "text"), program=program("node-exporter"), port=port, old=old)
        words = f"LISTEN_PID=$$ LISTEN_FDS={len(self.kept)} exec {sys.executable} -c {shlex.quote(code)}"
        if self.kept:
            words = f"exec 3<&{self.kept[0]} {self.kept[0]}<&-; {words}"
        variables = {"NOTIFY_SOCKET": str(self.folder / "notify"), "PYTHONPATH": str(REPOSITORY / ".collections")}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["bash", "-c", words],
                env={**os.environ, **variables},
                pass_fds=self.kept,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES)),
            )

    def receive(self) -> list[str]:
        """Take a message of the service."""
        assert select.select([self.notify], [], [], 10)[0], f"the service sends nothing: {self.log.read_text()}"
        message, handles, _flags, _address = socket.recv_fds(self.notify, 4096, 4)
        lines = message.decode().splitlines()
        if "FDSTOREREMOVE=1" in lines:
            self.close()
        assert len(handles) == ("FDSTORE=1" in lines or lines == ["BARRIER=1"])
        if "FDSTORE=1" in lines:
            self.kept += handles
        else:
            for handle in handles:
                os.close(handle)
        return lines

    def close(self) -> None:
        """Close what is kept."""
        while self.kept:
            os.close(self.kept.pop())


@pytest.fixture
def systemd(tmp_path: pathlib.Path) -> Iterator[Systemd]:
    """The stand-in."""
    made = Systemd(tmp_path)
    yield made
    made.close()


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed afterwards."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def scrape(port: int) -> str:
    """What Prometheus gets."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def take(port: int) -> int:
    """What a user gets who wants to listen there: an error, or 0."""
    with socket.socket() as user:
        user.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        user.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            user.bind(("127.0.0.1", port))
            user.listen()
        except OSError as error:
            return error.errno or -1
    return 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_user_cannot_take_the_port_while_the_exporter_restarts(systemd: Systemd, end: signal.Signals) -> None:
    port = free_port()
    with ended(systemd.start(port)) as first:
        assert systemd.receive() == ["FDSTORE=1", "FDNAME=exporter"]
        assert "node_load1" in wait(lambda: scrape(port), systemd.log.read_text)
        first.send_signal(end)
        first.wait()
    assert take(port) == errno.EADDRINUSE
    answers: list[str] = []
    # Prometheus connects meanwhile.
    waiting = threading.Thread(target=lambda: answers.append(scrape(port)))
    waiting.start()
    with ended(systemd.start(port)):
        waiting.join()
        assert "node_load1" in answers[0]
        assert take(port) == errno.EADDRINUSE


def test_another_port_of_the_settings_replaces_the_kept_one(systemd: Systemd) -> None:
    old, new = free_port(), free_port()
    with ended(systemd.start(old)):
        systemd.receive()
    with ended(systemd.start(new)):
        assert systemd.receive() == ["FDSTOREREMOVE=1", "FDNAME=exporter"]
        assert systemd.receive() == ["BARRIER=1"]
        assert systemd.receive() == ["FDSTORE=1", "FDNAME=exporter"]
        assert "node_load1" in wait(lambda: scrape(new), systemd.log.read_text)
        assert take(old) == 0


def test_an_exporter_that_becomes_older_than_systemd_sockets_can_listen(systemd: Systemd) -> None:
    """systemd kept the socket at each restart, so the exporter could not listen until somebody stopped the service."""
    port = free_port()
    with ended(systemd.start(port)):
        systemd.receive()
    with ended(systemd.start(port, old=True)) as process:
        assert select.select([systemd.notify], [], [], 30)[0]
        # systemd is busy.
        time.sleep(1)
        assert systemd.receive() == ["FDSTOREREMOVE=1", "FDNAME=exporter"]
        assert systemd.receive() == ["BARRIER=1"]
        assert "node_load1" in wait(lambda: scrape(port), systemd.log.read_text)
        assert process.poll() is None


def test_a_port_that_a_user_has_taken_is_an_error(systemd: Systemd) -> None:
    with socket.socket() as user:
        user.bind(("127.0.0.1", 0))
        user.listen()
        port = user.getsockname()[1]
        with ended(systemd.start(port)) as process:
            assert process.wait() == 1
    assert f"another program listens at 127.0.0.1, port {port}" in systemd.log.read_text(encoding="utf-8")


def test_many_connections_neither_exceed_the_memory_nor_free_the_port(systemd: Systemd) -> None:
    port = free_port()
    with ended(systemd.start(port)) as process, contextlib.ExitStack() as opened:
        systemd.receive()
        assert "node_load1" in wait(lambda: scrape(port), systemd.log.read_text)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _number in range(2 * MOST_FILES):
            one = opened.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            with contextlib.suppress(OSError):
                # The start of a request: the exporter waits for the rest.
                one.send(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 2000)
        time.sleep(2)
        assert process.poll() is None
        used = psutil.Process(process.pid)
        assert used.num_fds() <= MOST_FILES
        assert used.memory_info().rss < MOST_MEMORY / 2
        assert take(port) == errno.EADDRINUSE
        opened.close()
        assert "node_load1" in wait(lambda: scrape(port), systemd.log.read_text)
