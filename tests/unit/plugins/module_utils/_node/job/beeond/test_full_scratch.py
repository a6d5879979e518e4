# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults that users can cause, such as a full scratch: the job is requeued with the reason, and no node is drained."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .conftest import JOB, SETTINGS, Node
from .test_beegfs import PORT_IN_USE_LOG

FULL = replace(SETTINGS, least_free_mib=10**12)


def test_a_full_scratch_requeues_the_job_with_the_reason(node: Node) -> None:
    done = node.start(settings=FULL)
    assert (done.good, done.started) == (True, False)
    assert "/scratch has" in done.words
    assert "job 17 was requeued" in done.words
    assert (node.state, node.restarts) == ("PENDING", 1)
    (command,) = node.calls("update", "JobId=17")
    assert command[-1].startswith("AdminComment=hpcai: gpu-0: /scratch has ")
    assert not node.calls("uhold")
    assert node.leftovers() == []


def test_a_job_requeued_repeatedly_for_a_full_scratch_is_held(node: Node) -> None:
    node.restarts = 3
    done = node.start(replace(JOB, restarts=3), FULL)
    assert done.good
    assert "and held: correct the cause, then run 'scontrol release 17'" in done.words
    assert len(node.calls("uhold", "17")) == 1


def test_an_interactive_job_on_a_full_scratch_is_cancelled_with_the_reason(node: Node) -> None:
    node.batch = 0
    done = node.start(settings=FULL)
    assert (done.good, node.state) == (True, "CANCELLED")
    assert len(node.calls("update", "JobId=17")) == 1


def test_a_full_scratch_and_a_silent_controller_fail_the_prolog(node: Node) -> None:
    node.controller_answers = False
    done = node.start(settings=FULL)
    assert not done.good
    assert "job 17 cannot be requeued: slurmctld did not answer" in done.words


def fake_statvfs(node: Node, monkeypatch: pytest.MonkeyPatch, inodes: Callable[[], int]) -> None:
    """Let the scratch have this number of free inodes."""
    asked = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        found = list(asked(path))
        found[5:8] = [10**6, inodes(), inodes()]
        return os.statvfs_result((*found, 0))

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_a_scratch_without_inodes_is_full(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_statvfs(node, monkeypatch, lambda: 999)
    done = node.start()
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert "/scratch has 999 inodes free, but a job needs 1000" in done.words


def test_a_daemon_that_fails_on_a_full_scratch_is_not_the_nodes_fault(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_statvfs(node, monkeypatch, lambda: 10 if node.calls("start") else 10**6)
    node.fails["start hpcai-beeond-storage@17.service"] = Result(("systemctl",), 1, "", "Job failed")
    done = node.start()
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert node.leftovers() == []


def test_no_space_for_a_folder_is_not_the_nodes_fault(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    made = os.mkdir

    def mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        where = path if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}") + f"/{path}"
        if "/scratch/" in where:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        made(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    done = node.start()
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert "No space left on device" in done.words


def test_a_port_that_a_user_took_is_not_the_nodes_fault(node: Node) -> None:
    node.fail_storage_daemon(PORT_IN_USE_LOG)
    done = node.start()
    assert (done.good, done.started, node.state) == (True, False, "PENDING")
    assert "Unable to bind to port: 9003" in done.words
    assert node.leftovers() == []
