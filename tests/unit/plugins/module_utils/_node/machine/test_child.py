# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A child process answers, or is killed. boot/test_engine.py tests children that hang, die or leave processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import child


def answers(*given: dict[str, Any], then: float = 0.0) -> Any:
    """Yield answers, and sleep before the end."""

    def produce() -> Iterator[dict[str, Any]]:
        yield from given
        time.sleep(then)

    return produce


def is_gone(pid: int) -> bool:
    """Whether the process no longer exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_function_runs_in_a_child_with_its_own_session() -> None:
    answer = child.within(10, lambda: {"pid": os.getpid(), "session": os.getsid(0)})
    assert answer["pid"] != os.getpid()
    assert answer["session"] == answer["pid"]


def test_several_answers_arrive_in_order() -> None:
    with child.Child(answers({"n": 1}, {"n": 2}, {"text": "x\n" * 100_000})) as working:
        assert [working.answer(10), working.answer(10)] == [{"n": 1}, {"n": 2}]
        assert working.answer(10) == {"text": "x\n" * 100_000}
    assert is_gone(working.pid), "the child was not reaped"


def test_an_answer_arrives_although_the_next_one_times_out() -> None:
    with child.Child(answers({"n": 1}, then=60)) as working:
        assert working.answer(10) == {"n": 1}
        with pytest.raises(child.Overdue) as caught:
            working.answer(0.1)
    assert not caught.value.stuck
    assert is_gone(working.pid)


def test_a_child_is_killed_when_no_more_answers_are_needed() -> None:
    start = time.monotonic()
    with child.Child(answers({"n": 1}, then=60)) as working:
        working.answer(10)
    assert time.monotonic() - start < 10
    assert is_gone(working.pid)


def test_an_error_of_the_caller_kills_the_child() -> None:
    with pytest.raises(KeyError), child.Child(answers(then=60)) as working:
        raise KeyError("x")
    assert is_gone(working.pid)


def test_an_answer_that_never_comes_fails_when_the_child_ends() -> None:
    with child.Child(answers({"n": 1})) as working:
        working.answer(10)
        start = time.monotonic()
        with pytest.raises(child.Died, match="status 0"):
            working.answer(10)
    assert time.monotonic() - start < 5


def test_a_child_that_cannot_be_killed_is_reported_as_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(child, "_BURIAL_S", 0.2)
        patched.setattr(os, "killpg", lambda pid, number: killed.append(number))
        with pytest.raises(child.Overdue, match="cannot be killed") as caught, child.Child(answers(then=60)) as working:
            working.answer(0.1)
    os.kill(working.pid, signal.SIGKILL)
    os.waitpid(working.pid, 0)
    assert caught.value.stuck
    assert killed[:2] == [signal.SIGTERM, signal.SIGKILL]


def test_a_grandchild_that_runs_no_command_is_not_named() -> None:
    """Its name is our own, and does not show what it waits for."""

    def produce() -> Iterator[dict[str, Any]]:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        time.sleep(60)
        yield {}

    with pytest.raises(child.Overdue) as caught, child.Child(produce) as working:
        working.answer(0.5)
    assert str(caught.value) == ""


def test_what_it_waits_for_is_found_without_the_command_lines_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of jobs choose the length, so this process would exceed its own limit while it reads them."""
    read: set[int] = set()
    opened = os.open

    def note(path: Any, *arguments: Any, **options: Any) -> int:
        found = re.fullmatch("/proc/([0-9]+)/cmdline", str(path))
        read.update({int(found[1])} if found else ())
        return opened(path, *arguments, **options)

    def produce() -> Iterator[dict[str, Any]]:
        subprocess.run(["sleep", "60"], check=False)
        yield {}

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", note)
        with pytest.raises(child.Overdue, match="waiting for 'sleep 60'"), child.Child(produce) as working:
            working.answer(1)
    assert working.pid in read
    # The child and its command: neither this process nor its parents.
    assert len(read) == 2
