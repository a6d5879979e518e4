# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating directories where users may have created entries."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import user_folders
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.user_folders import (
    Base,
    FolderProblem,
    opened,
    remove_empty,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.apply import make
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.options import Folder
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disks import Refused

from .machine import ME

OTHER_USER = 54321
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make what another user made")


@pytest.fixture
def base(tmp_path: pathlib.Path) -> Iterator[Base]:
    """A scratch in which every user can create entries, with a strict umask."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    scratch.chmod(0o1777)
    before = os.umask(0o077)
    with opened(str(scratch), str(scratch), "xfs of /dev/md127") as found:
        yield found
    os.umask(before)


def folder(path: str, mode: int = 0o755, **more: str) -> Folder:
    """A directory of the user who runs the test."""
    return Folder(path, more.get("owner", ME["owner"]), more.get("group", ME["group"]), mode, "site")


def mode(base: Base, path: str) -> int:
    """The permissions of a path."""
    return os.stat(f"{base.path}/{path}").st_mode & 0o7777


def test_a_directory_is_created_with_its_parents_and_only_once(base: Base) -> None:
    target = folder("a/b/c", 0o2770)
    words = f"make {base.path}/a/b/c {target}"
    assert make(base, target, frozenset(), check=True) == words
    assert os.listdir(base.path) == []
    assert make(base, target, frozenset()) == words
    assert [mode(base, path) for path in ("a", "a/b", "a/b/c")] == [0o755, 0o755, 0o2770]
    assert make(base, target, frozenset()) == ""
    assert make(base, target, frozenset(), check=True) == ""


def test_a_change_applies_to_the_directory_and_nothing_below_it(base: Base) -> None:
    make(base, folder("a", 0o755), frozenset())
    below = pathlib.Path(base.path, "a/file")
    below.write_text("theirs")
    below.chmod(0o600)
    assert make(base, folder("a", 0o700), frozenset(), check=True)
    assert mode(base, "a") == 0o755
    assert make(base, folder("a", 0o700), frozenset())
    assert mode(base, "a") == 0o700
    assert below.stat().st_mode & 0o7777 == 0o600


def test_symbolic_links_are_not_followed(base: Base, tmp_path: pathlib.Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    make(base, folder("a"), frozenset())
    os.symlink(precious, f"{base.path}/a/link")
    for check in (True, False):
        with pytest.raises(FolderProblem, match="a file or a symbolic link with this name"):
            make(base, folder("a/link/below", 0o1777), frozenset(), check)
    assert precious.stat().st_mode & 0o7777 == 0o700
    assert list(precious.iterdir()) == []


@pytest.mark.parametrize("path", ["link", "link/below"])
def test_a_link_that_users_can_make_is_removed_with_a_warning(base: Base, tmp_path: pathlib.Path, path: str) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    os.symlink(precious, f"{base.path}/link")
    warnings: list[str] = []
    assert make(base, folder(path, 0o1777), frozenset(), True, warnings.append)
    assert warnings == [f"{base.path}/link is a symbolic link of user {os.getuid()}: it would be moved aside"]
    assert make(base, folder(path, 0o1777), frozenset(), False, warnings.append)
    assert warnings[1:] == [f"{base.path}/link was a symbolic link of user {os.getuid()}: it was removed"]
    assert mode(base, path) == 0o1777
    assert precious.stat().st_mode & 0o7777 == 0o700
    assert list(precious.iterdir()) == []


def test_a_file_in_its_place_is_moved_aside_and_named(base: Base) -> None:
    pathlib.Path(base.path, "a").write_text("theirs")
    warnings: list[str] = []
    make(base, folder("a/b"), frozenset(), False, warnings.append)
    [words] = warnings
    assert words.startswith(f"{base.path}/a was a file of user {os.getuid()}: it was moved to {base.path}/a.aside-")
    assert pathlib.Path(words.rpartition(" ")[2]).read_text() == "theirs"


@needs_root
@pytest.mark.parametrize("path", ["planted", "planted/below"])
def test_a_directory_that_another_user_created_is_not_used(base: Base, path: str) -> None:
    planted = pathlib.Path(base.path, "planted")
    (planted / "theirs").mkdir(parents=True)
    os.chown(planted, OTHER_USER, OTHER_USER)
    # Unless directories are created for that user.
    assert make(base, folder("planted/other"), frozenset({OTHER_USER}))
    warnings: list[str] = []
    make(base, folder(path), frozenset(), False, warnings.append)
    assert warnings[0].startswith(f"{base.path}/planted was a folder of user {OTHER_USER}: it was moved to ")
    assert os.stat(planted).st_uid == 0
    assert pathlib.Path(warnings[0].rpartition(" ")[2], "theirs").is_dir()


@needs_root
def test_a_directory_gets_its_new_owner_where_only_root_can_write(base: Base) -> None:
    os.chmod(base.path, 0o755)
    make(base, folder("a", owner="54320"), frozenset())
    make(base, folder("a", owner=str(OTHER_USER)), frozenset())
    assert os.stat(f"{base.path}/a").st_uid == OTHER_USER


def test_an_entry_that_appears_during_creation_is_checked_too(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.mkdir

    def planted(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        with contextlib.suppress(FileExistsError):
            os.symlink("/etc", path, dir_fd=dir_fd)
        real(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(user_folders.os, "mkdir", planted)
    with pytest.raises(FolderProblem, match="users recreated this path 1000 times"):
        make(base, folder("a"), frozenset())


def test_the_error_of_a_full_disk_states_what_is_free(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any, **_named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(user_folders.os, "mkdir", full)
    with pytest.raises(
        FolderProblem, match=r"the file system \(xfs of /dev/md127\) is full, \d+ bytes and \d+ inodes are free"
    ):
        make(base, folder("a/b"), frozenset())


def test_an_unknown_user_or_group_is_refused_and_nothing_is_created(base: Base) -> None:
    with pytest.raises(Refused, match="there is no user 'nobody-here'"):
        make(base, folder("a", owner="nobody-here"), frozenset())
    with pytest.raises(Refused, match="there is no group 'nobody-here'"):
        make(base, folder("a", group="nobody-here"), frozenset())
    assert os.listdir(base.path) == []


def test_only_empty_directories_are_removed(base: Base, tmp_path: pathlib.Path) -> None:
    for path in ("a/b", "c/d", "e"):
        make(base, folder(path), frozenset())
    pathlib.Path(base.path, "c/file").write_text("theirs")
    (tmp_path / "precious/below").mkdir(parents=True)
    os.symlink(tmp_path / "precious", f"{base.path}/link")
    assert remove_empty(base, ["a/b", "c/d", "link/below", "missing"]) == ["a/b", "c/d", "a"]
    assert sorted(os.listdir(base.path)) == ["c", "e", "link"]
    assert (tmp_path / "precious/below").is_dir()


def test_all_handles_are_closed(base: Base) -> None:
    before = len(os.listdir("/proc/self/fd"))
    make(base, folder("a/b/c"), frozenset())
    make(base, folder("a/b/c"), frozenset())
    assert len(os.listdir("/proc/self/fd")) == before
