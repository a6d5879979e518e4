# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lock that one process at a time can hold."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import Locked, only_one


def test_the_error_of_a_second_holder_names_the_first(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "lock/ours")
    with (
        only_one(path, 0),
        pytest.raises(Locked, match=f"process {os.getpid()} holds the lock {path}"),
        only_one(path, 0.2),
    ):
        pass


def test_users_may_enter_the_folder_of_a_lock_whatever_the_umask_is(tmp_path: pathlib.Path) -> None:
    """Services put their sockets beside it."""
    before = os.umask(0o077)
    try:
        with only_one(str(tmp_path / "hpcai/ours"), 0):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "hpcai").stat().st_mode & 0o777 == 0o755
    (tmp_path / "hpcai").chmod(0o750)
    with only_one(str(tmp_path / "hpcai/ours"), 0):
        pass
    assert (tmp_path / "hpcai").stat().st_mode & 0o777 == 0o750


def test_the_second_holder_waits_for_the_first(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "ours")
    order = []

    def second() -> None:
        with only_one(path, 30):
            order.append("second")

    with only_one(path, 0):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_an_error_releases_the_lock(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "ours")
    with pytest.raises(ZeroDivisionError), only_one(path, 0):
        raise ZeroDivisionError
    with only_one(path, 0):
        pass


def test_a_program_that_was_started_meanwhile_does_not_hold_the_lock(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "ours")
    with only_one(path, 0):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        # The kernel lets the parent continue shortly before the child has closed its files.
        with only_one(path, 10):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_link_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "ours").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"), only_one(str(tmp_path / "ours"), 0):
        pass
    assert not (tmp_path / "precious").exists()
