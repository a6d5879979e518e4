# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a finished checkpoint is distinguished from one that is still being written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint import state
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.directory import (
    LATEST,
    MARKER,
    RENAME,
    Signal,
    find_finished,
    step_of,
)


@pytest.mark.parametrize(
    ("folder", "step"),
    [
        ("global_step1000", 1000),
        ("iter_0000100", 100),
        ("epoch=3-step=70", 70),
        ("final", None),
        ("x" + "9" * 13, None),
    ],
)
def test_the_step_is_the_last_number_of_the_name(folder: str, step: int | None) -> None:
    assert step_of(folder) == step


def test_a_folder_without_its_marker_is_not_finished(tmp_path: Path) -> None:
    (tmp_path / "step100").mkdir()
    (tmp_path / "step100" / "model.pt").write_text("x")
    assert find_finished(str(tmp_path), Signal()) == []
    (tmp_path / "step100" / ".complete").write_text("restart3\nmore\n")
    (found,) = find_finished(str(tmp_path), Signal(MARKER))
    assert (found.folder, found.step, found.save) == ("step100", 100, "restart3")


def test_a_marker_with_an_invalid_save_name_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "step100").mkdir()
    (tmp_path / "step100" / ".complete").write_text("a/b")
    assert find_finished(str(tmp_path), Signal()) == []


def test_saving_again_changes_the_stamp(tmp_path: Path) -> None:
    (tmp_path / "step100").mkdir()
    marker = tmp_path / "step100" / ".complete"
    marker.write_text("")
    before = find_finished(str(tmp_path), Signal())[0].stamp
    marker.unlink()
    marker.write_text("")
    os.utime(marker, ns=(1, 1))
    assert find_finished(str(tmp_path), Signal())[0].stamp != before


@pytest.mark.parametrize(("folder", "text"), [("global_step7", "global_step7"), ("iter_0000007", "7\n")])
def test_only_the_folder_that_latest_names_is_finished(tmp_path: Path, folder: str, text: str) -> None:
    for name in (folder, "global_step8"):
        (tmp_path / name).mkdir()
    assert find_finished(str(tmp_path), Signal(LATEST, "latest")) == []
    (tmp_path / "latest").write_text(text)
    (found,) = find_finished(str(tmp_path), Signal(LATEST, "latest"))
    assert (found.folder, found.step, found.latest) == (folder, 7, ("latest", text))


@pytest.mark.parametrize("text", ["", "global_step9", "../global_step7"])
def test_a_latest_without_a_valid_folder_finishes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "global_step7").mkdir()
    (tmp_path / "latest").write_text(text)
    assert find_finished(str(tmp_path), Signal(LATEST, "latest")) == []


def test_a_folder_is_finished_when_it_has_its_final_name(tmp_path: Path) -> None:
    (tmp_path / "_step100").mkdir()
    (tmp_path / "step100.tmp").mkdir()
    assert find_finished(str(tmp_path), Signal(RENAME)) == []
    (tmp_path / "step100.tmp").rename(tmp_path / "step100")
    assert [one.folder for one in find_finished(str(tmp_path), Signal(RENAME))] == ["step100"]


def test_links_and_a_missing_directory_contain_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "real1").mkdir()
    (tmp_path / "link2").symlink_to("real1")
    assert [one.folder for one in find_finished(str(tmp_path), Signal(RENAME))] == ["real1"]
    assert find_finished(str(tmp_path / "none"), Signal()) == []


def test_a_record_of_a_newer_hpcnode_counts_as_none(tmp_path: Path) -> None:
    """Its fields may mean something else; the checkpoints are then looked at again."""
    record = tmp_path / "record.json"
    for schema, attempt in ((state.RECORD_SCHEMA, "7.0"), (state.RECORD_SCHEMA + 1, "")):
        record.write_text(json.dumps({"schema": schema, "attempt": attempt or "8.0", "seen": []}), encoding="utf-8")
        assert state.read_record(str(record)).attempt == attempt
