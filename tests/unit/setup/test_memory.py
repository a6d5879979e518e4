# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the checks' temporary files lie, and that none are left."""

from __future__ import annotations

import tempfile
from pathlib import Path

import memory
import pytest


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    """What the kernel tells of a machine with enough memory."""
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 24000000 kB\nMemAvailable: 20000000 kB\n", encoding="ascii")
    return file


@pytest.fixture
def shm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in memory, whatever this machine's free space."""
    monkeypatch.setattr(memory, "LEAST_FREE", 0)
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


def test_it_is_in_memory_and_goes(shm: Path, meminfo: Path) -> None:
    with memory.temporary_folder(shm, meminfo) as folder:
        assert folder.parent == shm
        (folder / "file").touch()
    assert not folder.exists()


@pytest.mark.parametrize("told", ["MemAvailable: 4000000 kB\n", ""])
def test_with_little_memory_it_is_on_disk(
    shm: Path, meminfo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    meminfo.write_text(told, encoding="ascii")
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with memory.temporary_folder(shm, meminfo) as folder:
        assert folder.parent == disk


def test_without_room_or_without_the_folder_it_is_on_disk(
    shm: Path, meminfo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory.is_usable(shm, meminfo)
    assert not memory.is_usable(shm / "none", meminfo)
    monkeypatch.setattr(memory, "LEAST_FREE", 1 << 60)
    assert not memory.is_usable(shm, meminfo)


@pytest.mark.parametrize("names", [("lock", "file"), ("file",)])
def test_what_a_killed_process_left_goes_and_what_is_in_use_stays(
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
