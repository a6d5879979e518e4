# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packs the real azcopy into an archive with the layout and name of its release files."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from pathlib import Path

from .azurite import azcopy_in

VERSION = "10.32.2"
"""Version of azcopy in tests/setup/blob/package-lock.json."""
NAME = f"azcopy_linux_amd64_{VERSION}"
ARCHIVE = f"{NAME}.tar.gz"


def pack(programs: Path, folder: Path) -> Path:
    """Create a reproducible archive in ``folder`` and return its path.

    :param programs: where azcopy is installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made, part = folder / ARCHIVE, folder / "part"
    with (
        part.open("wb") as file,
        gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        archive.add(azcopy_in(programs), f"{NAME}/azcopy", filter=_plain)
    part.replace(made)
    return made


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755
    return entry


def remove(folder: Path) -> None:
    """Remove the archive's folder, if it exists."""
    shutil.rmtree(folder, ignore_errors=True)
