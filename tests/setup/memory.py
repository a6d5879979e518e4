# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A folder in memory for temporary files. What the modules write survives a power cut, and so it waits for the disk
each time: a third of the tests' time went there.
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
"""Bytes that must be free there: several times what the tests together leave."""
LEAST_AVAILABLE = 12 << 30
"""Bytes of memory that must be available: two emulated machines and a dozen nodes take the other half."""


@contextlib.contextmanager
def temporary_folder(memory: Path = MEMORY, meminfo: Path = Path("/proc/meminfo")) -> Iterator[Path]:
    """A folder that goes in the end: in memory where there is enough of it, on disk elsewhere.

    What killed processes have left in memory is removed first.
    """
    parent = memory if is_usable(memory, meminfo) else Path(tempfile.gettempdir())
    with (parent / f".{PREFIX}gate").open("a", encoding="ascii") as gate:
        # Nobody takes a folder for left that is just being made.
        fcntl.flock(gate, fcntl.LOCK_EX)
        _remove_left(parent)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # Tests that become other users reach what pytest gives them below it.
        folder.chmod(0o711)
        lock = (folder / "lock").open("a", encoding="ascii")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def is_usable(memory: Path, meminfo: Path) -> bool:
    """Whether files may be written there and run, and there is enough memory."""
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


def _remove_left(parent: Path) -> None:
    """Remove folders whose process is gone, and its lock with it."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            # It may be gone already where steps went on writing while the rest was removed.
            with (folder / "lock").open("a", encoding="ascii") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
