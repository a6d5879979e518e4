# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In a folder that others can write to, a job follows, reads and writes nothing of another user."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import tempfile

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.own_files import (
    ForeignFile,
    open_own,
    write_own,
)

MALLORY, BOB, NOBODY = 64321, 64322, 65534
NAME = "hpcai-progress-4711"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can create files of another user")


def plant(path: pathlib.Path, kind: str, target: pathlib.Path) -> None:
    """Create something of another user at a path."""
    if kind == "link":
        path.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(path, 0o666)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("hpcai step 9\n")
        path.chmod(0o600 if kind == "closed file" else 0o644)
    os.chown(path, MALLORY, MALLORY, follow_symlinks=False)


@as_root
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "file", "closed file"])
def test_nothing_of_another_user_is_opened(tmp_path: pathlib.Path, kind: str) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    plant(tmp_path / NAME, kind, mine)
    with pytest.raises(ForeignFile, match=f"{NAME} belongs to user {MALLORY}, not to you: have it removed, or submit"):
        open_own(str(tmp_path / NAME))


@as_root
@pytest.mark.parametrize("owner", [0, NOBODY])
def test_files_of_root_and_of_servers_that_map_users_are_own_ones(tmp_path: pathlib.Path, owner: int) -> None:
    file = tmp_path / NAME
    file.write_text("x")
    os.chown(file, owner, owner)
    os.close(open_own(str(file)))
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, owner, owner)
    write_own(str(folder / NAME), "y", in_own_folder=True)
    assert (folder / NAME).read_text() == "y"


@as_root
def test_an_own_link_is_followed_but_not_to_a_file_of_another_user(tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "log", tmp_path / "newest"
    target.write_text("x")
    link.symlink_to(target)
    handle = open_own(str(link))
    assert os.read(handle, 10) == b"x"
    os.close(handle)
    os.chown(target, MALLORY, MALLORY)
    with pytest.raises(ForeignFile):
        open_own(str(link))


def test_an_own_pipe_does_not_block(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / NAME)
    handle = open_own(str(tmp_path / NAME))
    assert stat.S_ISFIFO(os.fstat(handle).st_mode)
    os.close(handle)


@pytest.mark.parametrize("own", [True, False])
def test_a_link_is_replaced_and_its_target_stays(tmp_path: pathlib.Path, own: bool) -> None:
    """A file that only the user may write to was overwritten through another user's link in the job's folder."""
    keys = tmp_path / "authorized_keys"
    keys.write_text("mine")
    keys.chmod(0o600)
    (tmp_path / NAME).symlink_to(keys)
    write_own(str(tmp_path / NAME), "new", in_own_folder=own)
    assert (keys.read_text(), stat.S_IMODE(keys.stat().st_mode)) == ("mine", 0o600)
    assert not (tmp_path / NAME).is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["authorized_keys", NAME]


@as_root
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_folder_of_another_user_gets_no_record(tmp_path: pathlib.Path, kind: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    plant(tmp_path / "job", kind, mine)
    with pytest.raises(ForeignFile, match=f"job belongs to user {MALLORY}"):
        write_own(str(tmp_path / "job/runs.json"), "x", in_own_folder=True)
    assert not list(mine.iterdir())
    assert not list((tmp_path / "job").iterdir())


@as_root
def test_a_file_that_cannot_be_replaced_is_named_with_its_owner(tmp_path: pathlib.Path) -> None:
    plant(tmp_path / NAME, "folder", tmp_path)
    with pytest.raises(ForeignFile, match=f"{NAME} belongs to user {MALLORY}"):
        write_own(str(tmp_path / NAME), "x")
    assert [one.name for one in tmp_path.iterdir()] == [NAME]


@as_root
def test_in_a_folder_like_tmp_the_own_file_is_written_and_that_of_another_user_refused() -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hpcai-test-"))
    folder.chmod(0o1777)
    plant(folder / NAME, "file", folder)
    os.setegid(BOB)
    os.seteuid(BOB)
    try:
        for number in range(2):
            write_own(str(folder / "mine"), f"{number}")
        with pytest.raises(ForeignFile, match=f"{NAME} belongs to user {MALLORY}"):
            write_own(str(folder / NAME), "x")
    finally:
        os.seteuid(0)
        os.setegid(0)
    try:
        assert ((folder / "mine").read_text(), (folder / NAME).read_text()) == ("1", "hpcai step 9\n")
        assert sorted(one.name for one in folder.iterdir()) == [NAME, "mine"]
    finally:
        shutil.rmtree(folder)


def test_a_missing_folder_is_created(tmp_path: pathlib.Path) -> None:
    write_own(str(tmp_path / "a/b/progress"), "x", in_own_folder=True)
    assert (tmp_path / "a/b/progress").read_text() == "x"
