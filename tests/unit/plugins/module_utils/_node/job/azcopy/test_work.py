# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folders for azcopy's logs and plans: where they are created, their names and markers, and what a sweep removes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.work import (
    MARKER,
    keep,
    new_folder,
    parent_of,
    prepare,
    sweep,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.user_folders import Base


def test_the_callers_folder_overrides_the_settings(tmp_path: Path) -> None:
    asked, preset = tmp_path / "asked", tmp_path / "preset"
    asked.mkdir()
    preset.mkdir()
    assert parent_of(str(asked), str(preset)) == str(asked)
    assert parent_of("", str(preset)) == str(preset)


def test_without_a_scratch_the_folder_for_temporary_files_is_used(tmp_path: Path) -> None:
    assert parent_of("", str(tmp_path / "scratch")) == tempfile.gettempdir()
    assert parent_of("", "") == tempfile.gettempdir()


def test_a_configured_folder_without_write_access_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root can write everywhere, so the test replaces the answer of the file system.
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))
    assert parent_of("", str(tmp_path)) == tempfile.gettempdir()


def test_a_requested_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="create it, or omit --work"):
        parent_of(str(tmp_path / "gone"), str(tmp_path))


@pytest.mark.parametrize(("job", "shard", "begins"), [("7", "3", "hpcai-stage-7-3-"), ("", "", "hpcai-stage-none-")])
def test_a_new_folder_is_named_after_the_job_and_is_private(
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
    # A missing folder is no error.
    keep(str(tmp_path / "gone"))


FOLDER = "/scratch/hpcai-azcopy"


USER = 54321


DAY = 86400.0


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can play a user and root")


@pytest.fixture
def root() -> Iterator[Root]:
    """A machine with a scratch that users can access, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        (Path(made) / "scratch").mkdir()
        (Path(made) / "scratch").chmod(0o1777)
        yield Root(made)


@pytest.fixture
def work(root: Root) -> Path:
    """The folder as the prolog creates it."""
    assert prepare(FOLDER, root) == []
    return Path(root.at(FOLDER))


def run_folder(parent: Path, name: str, uid: int = USER, failed_days_ago: float | None = None) -> None:
    """Create a folder that a run of azcopy left."""
    made = parent / name
    (made / "logs").mkdir(parents=True)
    if failed_days_ago is not None:
        (made / "failed").touch()
        then = time.time() - failed_days_ago * DAY
        os.utime(made / "failed", (then, then))
    for path in (made, *made.rglob("*")):
        os.chown(path, uid, uid)


def test_prepare_creates_a_marked_folder_that_users_can_write_to(root: Root, work: Path) -> None:
    assert (work.stat().st_uid, work.stat().st_mode & 0o7777) == (os.geteuid(), 0o1777)
    assert (work / MARKER).stat().st_mode & 0o7777 == 0o644
    assert prepare(FOLDER, root) == []
    assert prepare("/missing/hpcai-azcopy", root) == []
    assert prepare("", root) == []
    assert parent_of("", str(work)) == str(work)


@needs_root
def test_a_users_folder_in_its_place_is_moved_aside(root: Root) -> None:
    theirs = Path(root.at(FOLDER))
    (theirs / "hpcai-stage-7-0-abcdefgh").mkdir(parents=True)
    (theirs / MARKER).touch()
    os.chown(theirs, USER, USER)
    assert parent_of("", str(theirs)) == tempfile.gettempdir()
    assert sweep(FOLDER, "7", USER, root, run, time.time())[0] == []
    [warning] = prepare(FOLDER, root)
    assert f"{FOLDER} was a folder of user {USER}: it was moved to {FOLDER}.aside-" in warning
    assert os.listdir(theirs) == [MARKER]


def test_a_folder_with_other_files_is_never_marked(root: Root) -> None:
    Path(root.at("/scratch/data")).mkdir()
    Path(root.at("/scratch")).chmod(0o777)
    [warning] = prepare("/scratch", root)
    assert "/scratch contains other files, so nothing is removed there" in warning
    assert Path(root.at("/scratch")).stat().st_mode & 0o7777 == 0o777
    assert os.listdir(root.at("/scratch")) == ["data"]


@needs_root
def test_only_leftovers_of_killed_runs_of_this_job_are_removed(root: Root, work: Path) -> None:
    gone = ("hpcai-stage-7-0-abcdefgh", "hpcai-checkpoint-7-a_b0cdef")
    kept = (
        *("hpcai-stage-77-0-abcdefgh", "hpcai-stage-7-0-short", "hpcai-stage-7-results", "hpcai-7"),
        *("hpcai-stage-none-0-abcdefgh", "hpcai-stage-7-0-abcdefgh.old", "data"),
    )
    for name in (*gone, *kept):
        run_folder(work, name)
    run_folder(work, "hpcai-stage-7-1-abcdefgh", uid=USER + 1)
    (work / "hpcai-stage-7-2-abcdefgh").symlink_to(work / "data")
    removed, problems = sweep(FOLDER, "7", USER, root, run, time.time())
    assert (removed, problems) == ([f"{FOLDER}/{name}" for name in sorted(gone)], [])
    others = ["hpcai-stage-7-1-abcdefgh", "hpcai-stage-7-2-abcdefgh", MARKER]
    assert sorted(os.listdir(work)) == sorted([*kept, *others])


@needs_root
def test_folders_of_failed_runs_are_kept_for_a_week(root: Root, work: Path) -> None:
    for name, days in (("hpcai-stage-7-0-failed00", 6.0), ("hpcai-stage-5-0-failed00", 8.0)):
        run_folder(work, name, failed_days_ago=days)
    assert sweep(FOLDER, "7", USER, root, run, time.time())[0] == [f"{FOLDER}/hpcai-stage-5-0-failed00"]


@needs_root
def test_a_users_folder_on_the_scratch_is_never_removed(root: Root, work: Path) -> None:
    """Regression: the epilog removed, as root, any /scratch/hpcai-* that contained a week-old file 'failed'."""
    theirs = ("hpcai-results", "hpcai-stage-7-0-abcdefgh", "hpcai-checkpoint-7-abcdefgh")
    for name in theirs:
        run_folder(work.parent, name, failed_days_ago=30)
    assert sweep(FOLDER, "7", USER, root, run, time.time()) == ([], [])
    assert {*theirs} <= {*os.listdir(work.parent)}
    # The same if the settings name that folder as azcopy's: it has no marker.
    removed, [problem] = sweep("/scratch", "7", USER, root, run, time.time())
    assert removed == []
    assert "/scratch has no marker file of root" in problem


@needs_root
def test_leftovers_are_removed_as_their_owner_within_a_time_limit(root: Root, work: Path) -> None:
    asked: list[tuple[Sequence[str], float]] = []

    def record(command: Sequence[str], timeout_s: float) -> Result:
        asked.append((command, timeout_s))
        return Result(tuple(command), 124, "", "no answer within 1 s")

    run_folder(work, "hpcai-stage-7-0-abcdefgh")
    removed, problems = sweep(FOLDER, "7", USER, root, record, time.time())
    assert (removed, problems) == ([], [f"{work}/hpcai-stage-7-0-abcdefgh: no answer within 1 s"])
    assert all(f"--reuid={USER}" in command and seconds <= 15 for command, seconds in asked)


def test_a_sweep_looks_at_no_more_folders_after_its_time_limit(
    root: Root, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users could create so many folders that the epilog's script was killed, which drained the node."""
    run_folder(work, "hpcai-stage-7-0-abcdefgh", os.getuid())
    looked: list[str] = []
    monkeypatch.setattr(Base, "enter", lambda _base, name: looked.append(name))
    monkeypatch.setattr("time.monotonic", iter([0.0, *[60.0] * 9]).__next__)
    assert sweep(FOLDER, "7", os.getuid(), root, run, time.time()) == ([], [])
    assert looked == []


def test_a_folder_on_which_its_user_mounted_a_file_system_is_not_accessed(
    root: Root, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's server may never answer."""
    run_folder(work, "hpcai-stage-7-0-abcdefgh", os.getuid())
    mounts = Path(root.at("/proc/self/mountinfo"))
    mounts.parent.mkdir(parents=True)
    mounts.write_text(f"50 1 0:7 / {FOLDER}/hpcai-stage-7-0-abcdefgh rw - fuse x rw,user_id=4001\n", encoding="ascii")
    looked: list[str] = []
    monkeypatch.setattr(Base, "enter", lambda _base, name: looked.append(name))
    assert sweep(FOLDER, "7", os.getuid(), root, run, time.time()) == ([], [])
    assert looked == []


@pytest.mark.parametrize("shard", ["", "12"])
def test_the_sweep_recognises_the_names_of_new_folders(
    root: Root, work: Path, monkeypatch: pytest.MonkeyPatch, shard: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for what in ("stage", "checkpoint"):
        new_folder(what, str(work), shard)
    removed, problems = sweep(FOLDER, "7", os.getuid(), root, run, time.time())
    if os.getuid() == 0:
        assert problems == []
    assert len(removed) == 2
