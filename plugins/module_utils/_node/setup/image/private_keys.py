# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Looking for private keys that nobody thought of."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection

from ...machine.root import Root

_FOLDERS = ("/etc", "/root", "/home", "/opt", "/srv", "/var/lib")
_NOT_BELOW = ("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/docker", "/var/lib/containers", "/opt/nvidia")
_MARK = b"PRIVATE KEY-----"
_LARGEST = 64 * 1024
_MOST_FILES = 50_000
"""Where there are more, somebody has data in there; the search ends, rather than the patience."""


def find(root: Root, except_below: Collection[str] = ()) -> tuple[str, ...]:
    """Return the files that hold a private key in the form of PEM or OpenSSH, by path on the machine.

    :param except_below: paths that are going to be removed.
    """
    skipped = {*_NOT_BELOW, *except_below}
    found: list[str] = []
    seen = 0
    for top in _FOLDERS:
        for here, folders, files in os.walk(root.at(top)):
            shown = top + here[len(root.at(top)) :]
            folders[:] = sorted(name for name in folders if f"{shown}/{name}" not in skipped)
            seen += len(files)
            if seen > _MOST_FILES:
                return tuple(found)
            found += [
                f"{shown}/{name}" for name in sorted(files) if f"{shown}/{name}" not in skipped and _holds(here, name)
            ]
    return tuple(found)


def _holds(folder: str, name: str) -> bool:
    place = os.path.join(folder, name)
    try:
        about = os.lstat(place)
        if not stat.S_ISREG(about.st_mode) or not 0 < about.st_size <= _LARGEST:
            return False
        with open(place, "rb") as file:
            return _MARK in file.read()
    except OSError:
        return False
