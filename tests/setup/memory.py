# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A folder in memory for temporary files. The modules sync each file that they write to disk, and the tests spent a
third of their time waiting for the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEMORY = Path("/dev/shm")
PREFIX = "hpcai-checks-"
LEAST_FREE = 6 << 30
"""Bytes that must be free there: several times what all tests together write."""
LEAST_AVAILABLE = 12 << 30
"""Bytes of memory that must be available. Two emulated machines and a dozen nodes use the other half."""


@contextlib.contextmanager
def temporary_folder(memory: Path = MEMORY, meminfo: Path = Path("/proc/meminfo")) -> Iterator[Path]:
    """A folder that is removed at the end: in memory if enough is available, otherwise on disk.

    Folders that killed processes left behind are removed first.
    """
    parent = memory if is_usable(memory, meminfo) else Path(tempfile.gettempdir())
    with (parent / f".{PREFIX}gate").open("a", encoding="ascii") as gate:
        # Otherwise another process could remove the new folder before it has its lock.
        fcntl.flock(gate, fcntl.LOCK_EX)
        _remove_abandoned(parent)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # Tests that switch to other users must be able to enter the folders that pytest makes below it.
        folder.chmod(0o711)
        lock = (folder / "lock").open("a", encoding="ascii")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def is_usable(memory: Path, meminfo: Path) -> bool:
    """Whether the folder allows writing and running files, and there is enough memory."""
    try:
        found = os.statvfs(memory)
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    available = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    return (
        os.access(memory, os.W_OK)
        and not found.f_flag & os.ST_NOEXEC
        and found.f_bavail * found.f_frsize >= LEAST_FREE
        and available >= LEAST_AVAILABLE
    )


def _remove_abandoned(parent: Path) -> None:
    """Remove folders whose process has ended, which also released its lock."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            # The lock file may be missing if steps still wrote files while their folder was removed.
            with (folder / "lock").open("a", encoding="ascii") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
