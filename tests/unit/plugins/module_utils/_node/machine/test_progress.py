# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a module is, for the action that waits for it."""

from __future__ import annotations

import builtins
import errno
import os
import pathlib
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.progress import (
    ABANDONED_S,
    PROGRESS,
    WATCHED,
    Abandoned,
    ProgressFolder,
    reporting,
)


def test_the_last_line_is_there_while_it_runs_and_then_nothing(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "progress"
    with ProgressFolder(str(folder)) as shown:
        assert folder.stat().st_mode & 0o777 == 0o700
        for words in ("pair 0 of 2", "pair 1 of 2"):
            shown.report(words)
            assert (folder / PROGRESS).read_text(encoding="utf-8") == f"{words}\n"
    assert not folder.exists()


def test_a_folder_of_somebody_else_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "progress").mkdir()
    with pytest.raises(FileExistsError), ProgressFolder(str(tmp_path / "progress")):
        pass
    assert (tmp_path / "progress").is_dir()


def test_when_nobody_looks_any_more_it_ends(tmp_path: pathlib.Path) -> None:
    now = time.time()
    with ProgressFolder(str(tmp_path / "progress"), lambda: now) as shown:
        now += ABANDONED_S
        shown.report("pair 1 of 2")
        now += 1
        with pytest.raises(Abandoned, match="does not wait for the result any more"):
            shown.report("pair 2 of 2")
        watched = tmp_path / "progress" / WATCHED
        watched.touch()
        os.utime(watched, (now, now))
        shown.report("pair 2 of 2")
        now += ABANDONED_S + 1
        with pytest.raises(Abandoned):
            shown.report("pair 2 of 2")


def test_a_full_file_system_keeps_nothing_from_its_work(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = tmp_path / "progress"
    with reporting(str(folder)) as report:
        assert (folder / WATCHED).exists()
        monkeypatch.setattr(progress, "write_file", full)
        report("pair 1 of 2")
    assert not folder.exists()
    for module, function in ((builtins, "open"), (os, "mkdir")):
        with monkeypatch.context() as patched:
            patched.setattr(module, function, full)
            with reporting(str(folder)) as report:
                report("pair 1 of 2")
        assert not folder.exists()


def test_what_fails_while_it_reports_is_not_hidden(tmp_path: pathlib.Path) -> None:
    with pytest.raises(OSError, match="of the work"), reporting(str(tmp_path / "progress")):
        raise OSError("of the work")
    assert not (tmp_path / "progress").exists()


def test_without_a_folder_nothing_is_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with reporting(None) as report:
        report("pair 1 of 2")
        assert not list(tmp_path.iterdir())
