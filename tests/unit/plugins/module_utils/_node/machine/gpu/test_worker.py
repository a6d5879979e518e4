# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The child process that makes the calls to the driver, which may never return."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import child
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.driver import Serve, Worker


def serve(request: str, arguments: Sequence[Any]) -> Any:
    """Serve the requests of these tests, in the child."""
    if request == "sleep":
        time.sleep(arguments[0])
    if request == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if request == "exit":
        os._exit(3)
    if request == "refuse":
        raise GpuError("gpu_is_lost", "GPU is lost")
    if request == "bug":
        raise RuntimeError("not meant")
    if request == "files":
        return [os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)]
    if request == "large":
        return "x" * 1_000_000
    return [os.getpid(), request, *arguments]


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker whose timeout is long enough for a busy machine."""
    made = Worker(lambda: serve, 3)
    yield made
    made.close()


def test_all_answers_come_from_one_child_process(worker: Worker) -> None:
    first, second = worker.ask("a", 1), worker.ask("b", "two")
    assert first[0] == second[0] != os.getpid()
    assert (first[1:], second[1:]) == (["a", 1], ["b", "two"])


def test_a_timeout_is_an_error_and_the_next_request_gets_a_new_child(worker: Worker) -> None:
    before = worker.ask("a")[0]
    began = time.monotonic()
    with pytest.raises(GpuError, match=r"did not answer within 3 s") as error:
        worker.ask("sleep", 60)
    assert time.monotonic() - began < 20
    assert error.value.kind == "no_answer"
    assert worker.ask("a")[0] != before
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


@pytest.mark.parametrize(("request_", "how"), [("die", "signal 11"), ("exit", "status 3")])
def test_a_child_that_ends_is_an_error(worker: Worker, request_: str, how: str) -> None:
    with pytest.raises(GpuError, match=how) as error:
        worker.ask(request_)
    assert error.value.kind == "died"
    assert worker.ask("a")[1] == "a"


def test_a_child_that_was_killed_says_nothing_about_the_driver(worker: Worker) -> None:
    with pytest.raises(GpuError, match="was killed") as error:
        worker.ask("killed")
    assert error.value.kind == "not_asked"
    assert worker.ask("a")[1] == "a"


def test_refusals_and_bugs_are_raised_as_errors(worker: Worker) -> None:
    with pytest.raises(GpuError, match=r"^GPU is lost$") as error:
        worker.ask("refuse")
    assert error.value.kind == "gpu_is_lost"
    with pytest.raises(GpuError, match=r"^RuntimeError: not meant: this is a defect of hpcnode$") as error:
        worker.ask("bug")
    assert error.value.kind == "not_asked"


def test_the_child_keeps_none_of_our_standard_files_open(worker: Worker) -> None:
    # Ansible and ssh wait until all processes have closed them, and a child that hangs in the kernel never does.
    assert worker.ask("files") == ["/dev/null"] * 3


def test_a_worker_works_without_standard_files() -> None:
    pid = os.fork()
    if pid == 0:
        os.closerange(0, 3)
        worker = Worker(lambda: serve, 5)
        os._exit(0 if worker.ask("a")[1] == "a" else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_long_answers_arrive_completely(worker: Worker) -> None:
    assert len(worker.ask("large")) == 1_000_000


def test_a_child_that_cannot_start_is_started_again_by_the_next_request() -> None:
    def make() -> Serve:
        raise GpuError("driver_not_loaded", "Driver Not Loaded")

    worker = Worker(make, 5)
    for _attempt in range(2):
        with pytest.raises(GpuError, match="Driver Not Loaded"):
            worker.ask("a")
    worker.close()


def test_closing_leaves_no_process_behind(worker: Worker) -> None:
    pid = worker.ask("a")[0]
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(lambda: serve, 3)
    pid = worker.ask("a")[0]
    with monkeypatch.context() as patched:
        # A process that hangs in the kernel does not end on SIGKILL.
        patched.setattr(os, "killpg", lambda *_: None)
        patched.setattr(child, "_TERM_S", 0.1)
        patched.setattr(child, "_BURIAL_S", 0.2)
        began = time.monotonic()
        with pytest.raises(GpuError, match="did not answer"):
            worker.ask("sleep", 60)
        assert time.monotonic() - began < 20
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
