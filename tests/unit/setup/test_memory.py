# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the checks put their temporary files, and that they remove all of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import memory
import pytest


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    """/proc/meminfo of a machine with enough memory."""
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 24000000 kB\nMemAvailable: 20000000 kB\n", encoding="ascii")
    return file


@pytest.fixture
def shm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for memory, regardless of this machine's free space."""
    monkeypatch.setattr(memory, "LEAST_FREE", 0)
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


def test_the_folder_is_in_memory_and_is_removed(shm: Path, meminfo: Path) -> None:
    with memory.temporary_folder(shm, meminfo) as folder:
        assert folder.parent == shm
        (folder / "file").touch()
    assert not folder.exists()


@pytest.mark.parametrize("text", ["MemAvailable: 4000000 kB\n", ""])
def test_the_folder_is_on_disk_when_memory_is_short_or_unknown(
    shm: Path, meminfo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    meminfo.write_text(text, encoding="ascii")
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with memory.temporary_folder(shm, meminfo) as folder:
        assert folder.parent == disk


def test_memory_is_unusable_without_the_folder_or_free_space(
    shm: Path, meminfo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory.is_usable(shm, meminfo)
    assert not memory.is_usable(shm / "none", meminfo)
    monkeypatch.setattr(memory, "LEAST_FREE", 1 << 60)
    assert not memory.is_usable(shm, meminfo)


@pytest.mark.parametrize("names", [("lock", "file"), ("file",)])
def test_removes_folders_of_killed_processes_and_keeps_those_in_use(
    shm: Path, meminfo: Path, names: tuple[str, ...]
) -> None:
    left = shm / f"{memory.PREFIX}left"
    left.mkdir()
    for name in names:
        (left / name).touch()
    with memory.temporary_folder(shm, meminfo) as first, memory.temporary_folder(shm, meminfo) as second:
        assert not left.exists()
        assert first.exists()
        assert second.exists()
