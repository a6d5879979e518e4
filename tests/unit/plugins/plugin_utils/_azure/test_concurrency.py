# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The deadline and the queue of requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline, Job, WorkQueue
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import Asking, DeadlineExceeded


class Clock:
    """A clock that advances only in sleep()."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_remaining_time_decreases_and_is_never_negative() -> None:
    clock = Clock()
    deadline = Deadline(10, clock, clock.sleep)

    assert deadline.remaining() == 10
    deadline.wait(4)
    assert deadline.remaining() == 6
    clock.now += 100
    assert deadline.remaining() == 0


def test_a_wait_ends_at_the_deadline() -> None:
    clock = Clock()
    deadline = Deadline(10, clock, clock.sleep)

    deadline.wait(60)

    assert clock.now == 110


def test_a_wait_is_allowed_only_if_time_is_left_afterwards() -> None:
    clock = Clock()
    deadline = Deadline(10, clock, clock.sleep)

    assert deadline.allows(9.9)
    assert not deadline.allows(10)


ASKING = Asking("ask", "nothing")


def ignore(_answer: Any) -> None:
    """Ignore an answer or an error."""


def job(
    work: Callable[[], Any], done: Callable[[Any], None] = ignore, failed: Callable[[Exception], None] = ignore
) -> Job:
    return Job(ASKING, work, done, failed)


def test_runs_exactly_as_many_jobs_at_a_time_as_allowed() -> None:
    lock, running, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    queue = WorkQueue(3, Deadline(10))
    for _job in range(12):
        queue.add(job(work))
    queue.drain()
    queue.close()

    assert most == 3


def test_an_answer_can_add_jobs() -> None:
    queue, answers = WorkQueue(2, Deadline(10)), []

    def done(number: int) -> None:
        answers.append(number)
        if number < 5:
            queue.add(job(lambda: number + 1, done))

    queue.add(job(lambda: 1, done))
    queue.drain()
    queue.close()

    assert answers == [1, 2, 3, 4, 5]


def test_answers_are_handled_in_the_thread_that_drains() -> None:
    queue, threads = WorkQueue(4, Deadline(10)), []

    for _job in range(8):
        queue.add(job(lambda: None, lambda _answer: threads.append(threading.current_thread())))
    queue.drain()
    queue.close()

    assert threads == [threading.current_thread()] * 8


def test_an_error_is_passed_only_to_its_job() -> None:
    queue = WorkQueue(2, Deadline(10))
    answers: list[int] = []
    errors: list[Exception] = []

    def fail() -> None:
        raise ValueError("bad")

    queue.add(job(fail, failed=errors.append))
    queue.add(job(lambda: 1, answers.append))
    queue.drain()
    queue.close()

    assert [str(error) for error in errors] == ["bad"]
    assert answers == [1]


def test_a_hanging_job_and_those_behind_it_fail_at_the_deadline() -> None:
    release = threading.Event()
    errors: list[Exception] = []
    started: list[int] = []
    queue = WorkQueue(1, Deadline(0.1))
    queue.add(job(release.wait, failed=errors.append))
    queue.add(job(lambda: started.append(1), failed=errors.append))
    began = time.monotonic()

    queue.drain()
    queue.close()

    assert time.monotonic() - began < 2
    assert [type(error) for error in errors] == [DeadlineExceeded, DeadlineExceeded]
    release.set()
    time.sleep(0.05)
    assert not started


def test_all_hanging_jobs_end_at_the_deadline() -> None:
    release = threading.Event()
    queue = WorkQueue(8, Deadline(0.1))
    for _job in range(8):
        queue.add(job(release.wait))
    began = time.monotonic()

    queue.drain()
    queue.close()

    assert time.monotonic() - began < 2
    release.set()


def test_no_thread_remains_after_close() -> None:
    before = set(threading.enumerate())
    queue = WorkQueue(8, Deadline(10))
    for _job in range(8):
        queue.add(job(lambda: time.sleep(0.01)))

    queue.drain()
    queue.close()

    assert not set(threading.enumerate()) - before
