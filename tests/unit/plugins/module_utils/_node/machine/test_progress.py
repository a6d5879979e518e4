# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a module is, for the action that waits for it."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.progress import (
    ABANDONED_S,
    PROGRESS,
    WATCHED,
    Abandoned,
    ProgressFolder,
)


def test_the_last_line_is_there_while_it_runs_and_then_nothing(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "progress"
    with ProgressFolder(str(folder)) as progress:
        assert folder.stat().st_mode & 0o777 == 0o700
        for words in ("pair 0 of 2", "pair 1 of 2"):
            progress.report(words)
            assert (folder / PROGRESS).read_text(encoding="utf-8") == f"{words}\n"
    assert not folder.exists()


def test_a_folder_of_somebody_else_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "progress").mkdir()
    with pytest.raises(FileExistsError), ProgressFolder(str(tmp_path / "progress")):
        pass
    assert (tmp_path / "progress").is_dir()


def test_when_nobody_looks_any_more_it_ends(tmp_path: pathlib.Path) -> None:
    now = time.time()
    with ProgressFolder(str(tmp_path / "progress"), lambda: now) as progress:
        now += ABANDONED_S
        progress.report("pair 1 of 2")
        now += 1
        with pytest.raises(Abandoned, match="does not wait for the result any more"):
            progress.report("pair 2 of 2")
        watched = tmp_path / "progress" / WATCHED
        watched.touch()
        os.utime(watched, (now, now))
        progress.report("pair 2 of 2")
        now += ABANDONED_S + 1
        with pytest.raises(Abandoned):
            progress.report("pair 2 of 2")
