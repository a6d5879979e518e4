# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Root creates users' folders for enroot in places where users cannot write."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import user_folders
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.options import (
    EnrootOptions,
    options_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.user_folders import SPARES, make_all

from .conftest import Node

USER = os.getuid() + 4001 if os.getuid() == 0 else os.getuid()
GROUP = os.getgid()
PARENTS = ("/run/enroot", "/scratch/enroot/cache", "/scratch/enroot/data", "/scratch/enroot/images")
SETTINGS = {
    "ENROOT_RUNTIME_PATH": "/run/enroot/user-$(id -u)",
    "ENROOT_CACHE_PATH": "/scratch/enroot/cache/user-$(id -u)",
    "ENROOT_DATA_PATH": "/scratch/enroot/data/user-$(id -u)",
    "ENROOT_TEMP_PATH": "/scratch/enroot/tmp",
}


def options(**more: object) -> EnrootOptions:
    """The role's options on a compute node."""
    return options_of(
        {"settings": SETTINGS, "cache_path": "/scratch/enroot/images", "root_makes_folders": True, **more}
    )


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A node with parent folders where users cannot write."""
    for parent in PARENTS:
        (tmp_path / "node" / parent[1:]).mkdir(parents=True, mode=0o755)
    return tmp_path / "node"


def test_each_folder_belongs_to_the_user_and_is_private(closed: Path) -> None:
    made, problems = make_all(options(), USER, GROUP, Root(str(closed)))
    assert (len(made), problems) == (len(PARENTS), [])
    for parent in PARENTS:
        found = (closed / parent[1:] / f"user-{USER}").stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (USER, 0o700), parent
    assert make_all(options(), USER, GROUP, Root(str(closed))) == ([], [])


def test_a_folder_that_its_user_opened_is_closed_again(closed: Path) -> None:
    make_all(options(), USER, GROUP, Root(str(closed)))
    folder = closed / "scratch/enroot/data" / f"user-{USER}"
    folder.chmod(0o777)
    made, _problems = make_all(options(), USER, GROUP, Root(str(closed)))
    assert (len(made), stat.S_IMODE(folder.stat().st_mode)) == (1, 0o700)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_that_another_user_created_is_moved_aside(closed: Path) -> None:
    foreign = closed / "scratch/enroot/data" / f"user-{USER}"
    (foreign / "pyxis_1_mine").mkdir(parents=True)
    os.chown(foreign, USER + 1, GROUP)
    made, problems = make_all(options(), USER, GROUP, Root(str(closed)))
    assert problems == []
    assert f"belonged to user {USER + 1}" in " ".join(made)
    assert list(foreign.iterdir()) == []
    assert (foreign.with_name(f"{foreign.name}.aside-1") / "pyxis_1_mine").is_dir()


def test_a_link_is_not_followed(closed: Path, tmp_path: Path) -> None:
    target = tmp_path / "root-secrets"
    target.mkdir(mode=0o755)
    link = closed / "run/enroot" / f"user-{USER}"
    link.symlink_to(target)
    _made, problems = make_all(options(), USER, GROUP, Root(str(closed)))
    assert problems == []
    assert not link.is_symlink()
    assert (target.stat().st_uid, stat.S_IMODE(target.stat().st_mode)) == (os.getuid(), 0o755)


def test_no_folder_is_created_where_users_can_write(closed: Path) -> None:
    (closed / "run/enroot").chmod(0o1777)
    made, problems = make_all(options(), USER, GROUP, Root(str(closed)))
    assert (len(made), len(problems)) == (len(PARENTS) - 1, 1)
    assert problems[0].startswith("users other than root can write to /run/enroot. Run ")


def test_no_folder_is_created_if_users_create_them(closed: Path) -> None:
    assert make_all(options(root_makes_folders=False), USER, GROUP, Root(str(closed))) == ([], [])
    assert all(not list((closed / parent[1:]).iterdir()) for parent in PARENTS)


def test_paths_with_another_layout_are_left_to_the_site(closed: Path) -> None:
    given = options(settings={"ENROOT_DATA_PATH": "/fast/$(id -u)/data"}, cache_path="")
    assert given.user_folder_parents == ()


RUNTIME = "/scratch/enroot/runtime"


def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new folders find no space; existing ones can be renamed (tried on a full XFS of Linux 6.18)."""

    def mkdir(path: str, *_mode: int, dir_fd: int | None = None) -> None:
        if dir_fd is None or not os.path.lexists(f"/proc/self/fd/{dir_fd}/{path}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    monkeypatch.setattr(os, "mkdir", mkdir)


def test_a_new_user_gets_a_spare_folder_on_a_full_scratch(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this folder pyxis would fail, and the node would be drained."""
    runtime = closed / RUNTIME[1:]
    runtime.mkdir(mode=0o755)
    containers = options(pyxis_runtime_path=RUNTIME)
    make_all(containers, USER, GROUP, Root(str(closed)))
    assert len(list(runtime.iterdir())) == SPARES + 1
    full(monkeypatch)
    other = USER + 1 if os.getuid() == 0 else USER
    _made, problems = make_all(containers, other, GROUP, Root(str(closed)))
    assert not [words for words in problems if RUNTIME in words]
    found = (runtime / str(other)).stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (other, 0o700)
    monkeypatch.undo()
    make_all(containers, USER, GROUP, Root(str(closed)))
    assert len(list(runtime.glob(".spare-*"))) == SPARES


def test_without_spare_folders_a_full_scratch_is_reported(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (closed / RUNTIME[1:]).mkdir(mode=0o755)
    full(monkeypatch)
    _made, problems = make_all(options(pyxis_runtime_path=RUNTIME), USER, GROUP, Root(str(closed)))
    assert f"{RUNTIME}/{USER}: No space left on device" in problems


ME = os.getuid()


@pytest.fixture
def scratch(node: Node) -> Path:
    """A scratch with containers and images of this user: of jobs 7 and 8, and one that the user named."""
    top = node.folder / "scratch"
    for name in ("pyxis_7_7.0", "pyxis_7_torch", "pyxis_8.0", "pyxis_mine", "pyxis_9x", "mine", "pyxis_7"):
        (top / f"data/user-{ME}" / name / "usr").mkdir(parents=True)
    (top / f"pyxis/{ME}").mkdir(parents=True)
    for name in ("7.0.squashfs", "8.1.squashfs", "notes.txt"):
        (top / f"pyxis/{ME}" / name).touch()
    return top


def found(node: Node) -> list[str]:
    """The names of what would be removed."""
    leftovers = user_folders.leftovers("/scratch/data", "/scratch/pyxis", node.root)
    return [Path(one.path).name for one in leftovers]


def test_only_entries_named_after_a_job_are_found(node: Node, scratch: Path) -> None:
    assert found(node) == ["pyxis_7_7.0", "pyxis_7_torch", "pyxis_8.0", "7.0.squashfs", "8.1.squashfs"]


def test_entries_of_a_running_job_are_kept(node: Node, scratch: Path) -> None:
    for pid, uid in ((100, 0), (102, 1001)):
        node.write(f"/proc/{pid}/stat", f"{pid} (slurmstepd) S 1 " + " ".join(["0"] * 48))
        node.write(f"/proc/{pid}/status", f"Uid:\t{uid}\t{uid}\n")
    node.write("/proc/100/cmdline", "slurmstepd: [7.0]\0")
    # Any user's process can have such a title.
    node.write("/proc/102/cmdline", "slurmstepd: [8.0]\0")
    node.write("/proc/101/cmdline", "/usr/sbin/slurmd\0")
    assert found(node) == ["pyxis_8.0", "8.1.squashfs"]


def test_foreign_folders_and_links_are_ignored(node: Node, scratch: Path) -> None:
    (scratch / f"data/user-{ME + 1}/pyxis_3_3.0").mkdir(parents=True)
    (scratch / f"data/user-{ME + 2}").symlink_to(scratch / f"data/user-{ME}")
    (scratch / "data/other-5/pyxis_3_3.0").mkdir(parents=True)
    assert found(node) == ["pyxis_7_7.0", "pyxis_7_torch", "pyxis_8.0", "7.0.squashfs", "8.1.squashfs"]


FUSE = "50 40 0:77 / {path} rw,nosuid,nodev - fuse.sshfs x rw,user_id=4001\n"


def refuse_to_look_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test fail if something accesses a user's FUSE file system, because its server may never answer."""
    for name in ("lstat", "stat", "open"):
        asked = getattr(os, name)

        def look(where: str, *given: object, asked: Any = asked, **how: Any) -> Any:
            assert not str(where).endswith(path.name), f"{where} is accessed"
            return asked(where, *given, **how)

        monkeypatch.setattr(os, name, look)


def test_a_folder_on_which_its_user_mounted_a_fuse_file_system_is_ignored(
    node: Node, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write("/proc/self/mountinfo", FUSE.format(path=f"/scratch/data/user-{ME}"))
    refuse_to_look_at(scratch / f"data/user-{ME}", monkeypatch)
    assert found(node) == ["7.0.squashfs", "8.1.squashfs"]


def test_no_folder_is_changed_on_which_its_user_mounted_a_fuse_file_system(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_all(options(), USER, GROUP, Root(str(closed)))
    mounts = closed / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text("".join(FUSE.format(path=f"{parent}/user-{USER}") for parent in PARENTS), encoding="ascii")
    refuse_to_look_at(closed / f"user-{USER}", monkeypatch)
    made, problems = make_all(options(), USER, GROUP, Root(str(closed)))
    assert made == []
    assert problems == [f"a user mounted a FUSE file system on {parent}/user-{USER}: unmount it" for parent in PARENTS]


def test_leftovers_are_removed_as_their_owner(node: Node, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leftovers = user_folders.leftovers("/scratch/data", "/scratch/pyxis", node.root)
    assert user_folders.remove_leftovers(leftovers, node.run) == []
    assert found(node) == []
    assert (scratch / f"data/user-{ME}/pyxis_mine").is_dir()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    node.asked.clear()
    user_folders.remove_leftovers([user_folders.Leftover(1001, str(scratch / "nothing.squashfs"))], node.run)
    assert all("--reuid=1001" in command and "--regid=65534" in command for command in node.asked)
    assert len(node.asked) == 2
