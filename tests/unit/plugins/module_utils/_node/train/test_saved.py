# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which checkpoint the trainers' ranks load: never one of another job, and never parts of two runs."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import types
from typing import Any

import pytest

FILE = pathlib.Path(__file__).resolve().parents[6] / "roles/training/files/trainers/saved.py"


@pytest.fixture(scope="module")
def saved() -> types.ModuleType:
    """The module of the trainers."""
    spec = importlib.util.spec_from_file_location("saved", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(saved: Any, run: pathlib.Path, step: int, writer: str) -> pathlib.Path:
    """Write a finished checkpoint."""
    folder = run / f"step{step}"
    folder.mkdir(parents=True)
    saved.mark(str(folder), 16, writer)
    return folder


def test_finished_checkpoints_have_their_writers(saved: Any, tmp_path: pathlib.Path) -> None:
    write(saved, tmp_path, 10, "42/a")
    old = write(saved, tmp_path, 20, "42/a")
    (old / "writer").unlink()
    (write(saved, tmp_path, 30, "42/a") / ".complete").unlink()
    write(saved, tmp_path, 40, "42/a").rename(tmp_path / "step-last")
    # What an earlier release wrote has no writer.
    assert saved.finished(str(tmp_path)) == {10: "42/a", 20: ""}
    assert (tmp_path / "step10/world").read_text() == "16"


def test_a_checkpoint_of_another_job_is_foreign_unless_it_was_restored(saved: Any, tmp_path: pathlib.Path) -> None:
    run = str(tmp_path)
    assert saved.foreign(run, {}, "42") == 0
    assert saved.foreign(run, {10: "41/a", 20: "42/b"}, "42") == 0
    assert saved.foreign(run, {10: "42/b", 20: "41/a"}, "42") == 20
    # Of an earlier release: nobody knows who wrote it.
    assert saved.foreign(run, {10: ""}, "42") == 0
    records = tmp_path / ".hpcai-checkpoint"
    records.mkdir()
    (records / "record-c-0.json").write_text("{")
    seen = [{"folder": "step20", "state": "restored"}, {"folder": "step30", "state": "published"}]
    (records / "record-c-1.json").write_text(json.dumps({"seen": seen}))
    assert saved.foreign(run, {10: "42/b", 20: "41/a"}, "42") == 0
    assert saved.foreign(run, {20: "41/a", 30: "41/a"}, "42") == 30


@pytest.mark.parametrize(
    ("of_ranks", "step"),
    [
        ([{}, {}], 0),
        ([{10: "42/a", 20: "42/a"}, {10: "42/a", 20: "42/a"}], 20),
        ([{10: "42/a", 20: "42/a"}, {10: "42/a"}], 10),
        # The job ran on other nodes in between, and wrote the same step there.
        ([{10: "42/a", 20: "42/b"}, {10: "42/a", 20: "42/a"}], 10),
        # Each node has pruned others.
        ([{30: "42/a"}, {10: "42/a", 20: "42/a"}], 0),
        ([{10: ""}, {10: ""}], 10),
    ],
)
def test_all_ranks_load_the_same_checkpoint_of_one_writer(
    saved: Any, of_ranks: list[dict[int, str]], step: int
) -> None:
    assert saved.newest_common(of_ranks) == step


def test_the_name_of_a_run_has_its_job_and_differs(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    one, other = saved.new_writer(), saved.new_writer()
    assert (saved.job_of(one), saved.job_of(other)) == ("42", "42")
    assert one != other


def test_all_files_are_on_the_disk_before_the_marker(
    saved: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "step10"
    (folder / "sub").mkdir(parents=True)
    for name in ("a", "sub/b"):
        (folder / name).touch()
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.readlink(f"/proc/self/fd/{number}")))
    saved.sync(str(folder))
    paths = (folder / "a", folder / "sub/b", folder / "sub", folder, tmp_path)
    assert sorted(synced) == sorted(map(str, paths))
    del synced[:]
    saved.mark(str(folder), 1, "42/a")
    assert synced[-2:] == [str(folder / ".complete"), str(folder)]
