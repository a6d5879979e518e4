# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What root does below a folder that users can write to, while a user replaces entries in it."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.user_folders import (
    Base,
    FolderProblem,
    adapt,
    opened,
    owners_of_root,
    read_root_file,
    remove,
    remove_as_owner,
    take,
    walk,
    write_new,
)

USER = 54321
TRIES, LIMIT_S = 1000, 60
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can play a user and root")


@pytest.fixture
def scratch(tmp_path: pathlib.Path) -> pathlib.Path:
    """A scratch in which every user can create entries."""
    tmp_path.chmod(0o755)
    made = tmp_path / "scratch"
    made.mkdir()
    made.chmod(0o1777)
    return made


@pytest.fixture
def root(scratch: pathlib.Path) -> Root:
    """The machine with that scratch."""
    return Root(str(scratch.parent))


@contextlib.contextmanager
def meanwhile(swap: Callable[[str], None], folder: pathlib.Path) -> Iterator[None]:
    """Let a user call a function in a loop."""

    def be_the_user() -> None:
        os.chdir(folder)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
        while True:
            swap("beeond")

    child = get_context("fork").Process(target=be_the_user)
    child.start()
    try:
        yield
    finally:
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()


def swap(name: str) -> None:
    """Create a folder, then a link, then a file in the place; entries of root cannot be replaced."""
    for kind in ("folder", "link", "file"):
        for remove_it in (os.unlink, os.rmdir):
            with contextlib.suppress(OSError):
                remove_it(name)
        with contextlib.suppress(OSError):
            if kind == "folder":
                os.mkdir(name)
            elif kind == "link":
                os.symlink("../precious", name)
            else:
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


@needs_root
def test_a_user_who_swaps_folder_and_link_gains_nothing_in_1000_tries(scratch: pathlib.Path, root: Root) -> None:
    """With paths (makedirs with exist_ok, mkdir, chown), 3 of 3 tries gave the user a directory of their choice."""
    precious = scratch.parent / "precious"
    precious.mkdir(mode=0o700)
    warnings: list[str] = []
    with meanwhile(swap, scratch), walk(root, "/scratch") as base:
        end = time.monotonic() + LIMIT_S
        for number in itertools.count():
            # On a busy machine the user's process may not run meanwhile.
            if number >= TRIES and (warnings or time.monotonic() > end):
                break
            handle, _made = take(base, "beeond", owners_of_root(), warnings.append)
            adapt(handle, 0, 0, 0o700)
            os.close(handle)
            with walk(root, "/scratch/beeond") as folder:
                os.mkdir("files", 0o700, dir_fd=folder.handle)
                with folder.enter("files") as files:
                    adapt(files.handle, USER, USER, 0o700)
                found = os.fstat(folder.handle)
                assert (found.st_uid, found.st_mode & 0o7777) == (0, 0o700)
                os.rmdir("files", dir_fd=folder.handle)
            # In the next try, the user may create it first.
            os.rmdir(scratch / "beeond")
            assert list(precious.iterdir()) == [], number
    assert (precious.stat().st_uid, precious.stat().st_mode & 0o7777) == (0, 0o700)
    assert warnings, "the user never created the entry first, so nothing was tested"


@needs_root
@pytest.mark.parametrize("kind", ["file", "full file", "link", "pipe", "folder", "full folder"])
def test_an_entry_in_the_place_is_named_and_kept_if_it_has_content(
    scratch: pathlib.Path, root: Root, kind: str
) -> None:
    target = scratch / "beeond"
    if "folder" in kind:
        target.mkdir()
        if "full" in kind:
            (target / "theirs").write_text("x")
    elif "file" in kind:
        target.write_text("x" if "full" in kind else "")
    elif kind == "link":
        target.symlink_to("/etc")
    else:
        os.mkfifo(target)
    os.chown(target, USER, USER, follow_symlinks=False)
    warnings: list[str] = []
    with walk(root, "/scratch") as base:
        handle, made = take(base, "beeond", owners_of_root(), warnings.append)
        assert (made, os.fstat(handle).st_uid) == (True, 0)
        os.close(handle)
    [words] = warnings
    what = {"link": "symbolic link", "pipe": "special file"}.get(kind, kind.split()[-1])
    assert f"/scratch/beeond was a {what} " in words
    assert f"of user {USER}: " in words
    assert len(os.listdir(scratch)) == (2 if "full" in kind else 1)


@needs_root
def test_entries_that_a_user_could_have_created_are_not_entered(scratch: pathlib.Path, root: Root) -> None:
    (scratch / "theirs/below").mkdir(parents=True)
    os.chown(scratch / "theirs", USER, USER)
    (scratch / "link").symlink_to("theirs")
    for path, words in (
        ("theirs", f"belongs to user {USER}"),
        ("theirs/below", "belongs to"),
        ("link", "not a folder"),
    ):
        with pytest.raises(FolderProblem, match=words), walk(root, f"/scratch/{path}"):
            pass
    with pytest.raises(FileNotFoundError), walk(root, "/scratch/missing"):
        pass
    (scratch / "own").mkdir()
    with walk(root, "/scratch/own") as found:
        assert (found.path, os.readlink(found.for_commands)) == ("/scratch/own", str(scratch / "own"))
    scratch.chmod(0o777)
    with pytest.raises(FolderProblem, match="users can replace /scratch/own"), walk(root, "/scratch/own"):
        pass


def test_an_operators_link_is_followed_and_missing_folders_are_created(scratch: pathlib.Path, root: Root) -> None:
    (scratch.parent / "fast").symlink_to("scratch")
    with walk(root, "/fast/a/b", make_mode=0o755):
        pass
    assert (scratch / "a/b").is_dir()


@needs_root
def test_only_files_of_root_are_read_and_pipes_do_not_block(scratch: pathlib.Path) -> None:
    for name, uid in (("own", 0), ("theirs", USER)):
        (scratch / name).write_text("text\n")
        os.chown(scratch / name, uid, uid)
    (scratch / "link").symlink_to("own")
    os.mkfifo(scratch / "pipe")
    with opened(str(scratch), "/scratch") as base:
        texts = [read_root_file(base, name) for name in ("own", "theirs", "link", "pipe", "missing")]
        assert texts == ["text", None, None, None, None]
        with pytest.raises(FileExistsError):
            write_new(base, "link", "x", 0o600)
        write_new(base, "new", "x\n", 0o640)
    assert ((scratch / "new").stat().st_mode & 0o7777, (scratch / "own").read_text()) == (0o640, "text\n")


@needs_root
def test_root_removes_only_where_users_cannot_write(scratch: pathlib.Path, root: Root) -> None:
    (scratch / "own/a/b").mkdir(parents=True)
    (scratch / "own").chmod(0o700)
    (scratch / "precious").mkdir()
    (scratch / "own/a/link").symlink_to(scratch / "precious")
    with walk(root, "/scratch") as base, pytest.raises(FolderProblem, match="root removes nothing in it"):
        remove(base, ["own"], run)
    with walk(root, "/scratch/own") as base:
        assert remove(base, [], run) is None
        answer = remove(base, ["a"], run)
        assert answer is not None
        assert (answer.rc, os.listdir(scratch / "own")) == (0, [])
    assert (scratch / "precious").is_dir()


@pytest.fixture
def users_folder() -> Iterator[pathlib.Path]:
    """A folder that users can enter, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory() as made:
        pathlib.Path(made).chmod(0o1777)
        yield pathlib.Path(made)


@needs_root
def test_files_of_users_are_removed_as_their_owner(users_folder: pathlib.Path) -> None:
    theirs = users_folder / "theirs"
    # A user cannot remove another user's files in it.
    for name in ("shut/file", "of-another/file"):
        (theirs / name).parent.mkdir(parents=True)
        (theirs / name).write_text("x")
    for path in (theirs, theirs / "shut", theirs / "shut/file"):
        os.chown(path, USER, USER)
    (theirs / "shut").chmod(0o500)
    for path in (theirs / "of-another", theirs / "of-another/file"):
        os.chown(path, USER + 1, USER + 1)
    assert "theirs" in remove_as_owner(str(theirs), USER, run)
    assert [str(path.relative_to(theirs)) for path in sorted(theirs.rglob("*"))] == ["of-another", "of-another/file"]
    os.chown(theirs / "of-another", USER, USER)
    assert remove_as_owner(str(theirs), USER, run) == ""
    assert not theirs.exists()


def test_a_removal_stays_on_the_file_system() -> None:
    """A user can mount a FUSE file system in the folder, such as one with endless folders."""
    asked: list[str] = []

    def record(command: Sequence[str]) -> Result:
        asked.append(" ".join(command))
        return Result(tuple(command), 0, "", "")

    assert remove_as_owner("/scratch/x", USER, record) == ""
    [search, removal] = asked
    assert "find /scratch/x -xdev " in search
    assert "rm -rf --one-file-system -- /scratch/x" in removal


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o1755, 0o1777])
def test_a_folder_in_a_users_folder_is_refused_because_its_owner_can_replace_it(
    scratch: pathlib.Path, root: Root, mode: int
) -> None:
    """The sticky bit does not bind the owner of the folder."""
    (scratch / "home").mkdir()
    (scratch / "home/data").mkdir()
    scratch.chmod(0o755)
    os.chown(scratch / "home", USER, USER)
    (scratch / "home").chmod(mode)
    expected = "users can replace /scratch/home/data: run 'chown root'"
    with pytest.raises(FolderProblem, match=expected), walk(root, "/scratch/home/data"):
        pass


def test_all_handles_are_closed(scratch: pathlib.Path, root: Root) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with walk(root, "/scratch/a/b", make_mode=0o700) as base, base.enter(".") as again:
        assert isinstance(again, Base)
        with pytest.raises(FileNotFoundError), base.enter("missing"):
            pass
    with contextlib.suppress(FileNotFoundError), walk(root, "/scratch/missing"):
        pass
    assert len(os.listdir("/proc/self/fd")) == before
