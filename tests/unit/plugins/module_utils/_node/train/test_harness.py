# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the trainers' loop decides without a framework; PyTorch itself is replaced."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import pytest

TRAINERS = pathlib.Path(__file__).resolve().parents[6] / "roles/training/files/trainers"

SEQPACKET = socket.SOCK_SEQPACKET
Report = tuple[socket.socket, Callable[[int], float]]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module harness of the trainers."""
    for name in ("torch", "torch.distributed", "torch.autograd", "torch.profiler"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.syspath_prepend(str(TRAINERS))
    for name in ("harness", "measure"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module("harness")
    for name in ("harness", "measure"):
        # Not for other tests: it has no PyTorch.
        monkeypatch.delitem(sys.modules, name)
    return found


def test_only_the_notice_of_this_node_ends_a_training(harness: ModuleType, tmp_path: pathlib.Path) -> None:
    """In a folder that all nodes see, an evicted node leaves its notice, and nothing removes it."""
    training = SimpleNamespace(
        args=SimpleNamespace(run=str(tmp_path), job=str(tmp_path)), rank=SimpleNamespace(local=0, node="c-0")
    )
    folder = tmp_path / ".hpcai-checkpoint"
    folder.mkdir()
    (folder / "notice-gone").touch()
    assert not harness.Training._notice(training)
    assert not (tmp_path / "notice-c-0").exists()
    (folder / f"notice-{socket.gethostname().partition('.')[0]}").touch()
    assert harness.Training._notice(training)
    assert (tmp_path / "notice-c-0").exists()
    training.rank.local = 1
    assert not harness.Training._notice(training)


def test_only_a_rank_of_mpirun_binds_itself_to_the_cpus_of_its_mask(
    harness: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """srun has bound its ranks, possibly to fewer CPUs."""
    before = os.sched_getaffinity(0)
    second = SimpleNamespace(rank=SimpleNamespace(local=1))
    monkeypatch.setenv("HPCAI_CPU_MASKS", f"{1 << min(before):x},{1 << max(before):x}")
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    try:
        harness.Training._bind(second)
        assert os.sched_getaffinity(0) == before
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
        harness.Training._bind(second)
        assert os.sched_getaffinity(0) == {max(before)}
        monkeypatch.setenv("HPCAI_CPU_MASKS", "")
        harness.Training._bind(second)
        assert os.sched_getaffinity(0) == {max(before)}
    finally:
        os.sched_setaffinity(0, before)


@pytest.fixture
def report(harness: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[Report]:
    """Reports steps of the first rank to a socket whose service accepts nothing yet; returns the seconds of each."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX, SEQPACKET) as service:
        service.bind(f"{folder}/sock")
        service.listen(0)
        service.settimeout(60)
        globals_of_measure = harness.Times.write.__globals__
        monkeypatch.setitem(globals_of_measure, "PROGRESS_SOCKET", f"{folder}/sock")
        times = harness.Times(str(tmp_path), SimpleNamespace(rank=0, local=0, node="c-0"), 2, 50)

        def write(step: int) -> float:
            times.add(1.0, 0.0, 0.5)
            began = time.monotonic()
            times.write(step, None)
            return time.monotonic() - began

        yield service, write


@pytest.mark.parametrize("full", [False, True])
def test_a_busy_service_takes_a_training_little_time_and_only_once_a_minute(report: Report, full: bool) -> None:
    """A user who flooded the socket let each report of all others wait for a second, or get lost."""
    service, write = report
    sent = b'{"kind": "train", "step": 1, "steps": 50, "step_seconds": 1.0}'
    with contextlib.ExitStack() as opened:
        for _number in range(full):
            # The kernel's queue has one place: the report waits in connect, and not for the answer.
            opened.enter_context(socket.socket(socket.AF_UNIX, SEQPACKET)).connect(service.getsockname())
        assert 0.04 < write(1) < 0.5
    assert write(2) < 0.02
    with service.accept()[0] as connection:
        assert connection.recv(1024) == (b"" if full else sent)
    service.setblocking(False)
    with pytest.raises(BlockingIOError):
        service.accept()


def test_reports_that_are_answered_follow_each_other(report: Report) -> None:
    service, write = report
    received = []

    def answer() -> None:
        for _turn in range(3):
            with service.accept()[0] as connection:
                received.append(json.loads(connection.recv(1024))["step"])
                connection.send(b"ok")

    thread = threading.Thread(target=answer)
    thread.start()
    for step in (1, 2, 3):
        write(step)
    thread.join()
    assert received == [1, 2, 3]
