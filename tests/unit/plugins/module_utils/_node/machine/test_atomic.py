# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replacing files atomically, and folders that only operators can read."""

from __future__ import annotations

import grp
import os
import pathlib
import stat
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import atomic
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.atomic import remove_file, write_file
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


@pytest.fixture
def tight_umask() -> object:
    """Root's umask on hardened machines."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("tight_umask")
def test_file_and_folders_are_readable_whatever_the_umask(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_file(str(path), "text\n")
    assert path.read_text() == "text\n"
    assert path.stat().st_mode & 0o7777 == 0o644
    assert [folder.stat().st_mode & 0o7777 for folder in (path.parent, path.parent.parent)] == [0o755, 0o755]


def test_an_open_reader_keeps_the_old_file_and_the_next_reads_the_new(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with path.open() as reader:
        write_file(str(path), "new", 0o600)
        assert reader.read() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o7777 == 0o600


def test_a_failure_leaves_the_old_file_and_no_temporary_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_arguments: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_file(str(path), "new")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("file", "old")]


def test_temporary_files_match_no_pattern_of_a_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary_names: list[str] = []
    monkeypatch.setattr(atomic.os, "replace", lambda source, _target: temporary_names.append(os.path.basename(source)))
    write_file(str(tmp_path / "60-x.env"), "new")
    assert temporary_names[0].startswith(".60-x.env.")
    assert not temporary_names[0].endswith(".env")


def test_writing_follows_a_link_and_removing_removes_only_the_link(tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_file(str(link), "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    remove_file(str(link))
    assert target.exists()
    assert not link.is_symlink()


def test_removing_a_missing_file_is_no_error(tmp_path: pathlib.Path) -> None:
    remove_file(str(tmp_path / "nothing"))


def test_the_error_of_a_full_disk_names_the_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's error of a write contains no file name."""

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*/instance.json'"):
        write_file(str(tmp_path / "instance.json"), "new")


FOLDER = "/run/hpcai/health"


@pytest.mark.parametrize("before", [None, 0o755, 0o777])
def test_only_root_and_the_group_can_read_the_operators_folder(tmp_path: Path, before: int | None) -> None:
    folder = tmp_path / FOLDER[1:]
    if before is not None:
        folder.mkdir(parents=True)
        folder.chmod(before)
    atomic.make_operators_folder(Root(str(tmp_path)), FOLDER)
    found = folder.stat()
    assert (stat.S_IMODE(found.st_mode), stat.S_IMODE(folder.parent.stat().st_mode)) == (0o750, 0o755)
    if os.geteuid() == 0:
        assert found.st_gid == grp.getgrnam(atomic.OPERATORS).gr_gid


def test_without_the_group_only_root_can_read_the_operators_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "OPERATORS", "no-such-group")
    atomic.make_operators_folder(Root(str(tmp_path)), FOLDER)
    assert (tmp_path / FOLDER[1:]).stat().st_gid == os.getegid()


def test_the_error_without_read_access_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root(str(tmp_path))
    atomic.require_readable(root, FOLDER)
    atomic.make_operators_folder(root, FOLDER)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match=r"only root and the group adm can read .*: run this with sudo"):
        atomic.require_readable(root, FOLDER)
