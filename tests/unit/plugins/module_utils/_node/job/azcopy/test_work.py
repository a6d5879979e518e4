# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where folders of logs and plans are made, and how they are named and marked."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.work import keep, new_folder, parent_of


def test_the_callers_wish_comes_before_the_settings(tmp_path: Path) -> None:
    asked, preset = tmp_path / "asked", tmp_path / "preset"
    asked.mkdir()
    preset.mkdir()
    assert parent_of(str(asked), str(preset)) == str(asked)
    assert parent_of("", str(preset)) == str(preset)


def test_without_a_scratch_it_is_the_folder_for_temporary_files(tmp_path: Path) -> None:
    assert parent_of("", str(tmp_path / "scratch")) == tempfile.gettempdir()
    assert parent_of("", "") == tempfile.gettempdir()


def test_a_preset_that_the_user_cannot_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write anywhere, so that the file system's own answer cannot be had here.
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))
    assert parent_of("", str(tmp_path)) == tempfile.gettempdir()


def test_a_wish_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make it, or leave out --work"):
        parent_of(str(tmp_path / "gone"), str(tmp_path))


@pytest.mark.parametrize(("job", "shard", "begins"), [("7", "3", "hpcai-stage-7-3-"), ("", "", "hpcai-stage-none-")])
def test_a_folder_bears_the_jobs_number_and_is_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, shard: str, begins: str
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    made = Path(new_folder("stage", str(tmp_path), shard))
    assert made.name.startswith(begins)
    assert made.stat().st_mode & 0o777 == 0o700
    keep(str(made))
    assert [path.name for path in made.iterdir()] == ["failed"]
    # Nothing to mark is no error.
    keep(str(tmp_path / "gone"))
