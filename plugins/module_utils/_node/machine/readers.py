# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Folders of root's that operators may read, and job users may not."""

from __future__ import annotations

import contextlib
import grp
import os
import stat

from .config import ConfigError
from .root import Root

GROUP = "adm"
"""The group that reads system logs, on Debian and on EL."""
_MODE = 0o750
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folder(root: Root, path: str) -> None:
    """Make a folder in one that only root can write to, readable for root and the group alone.

    :raises OSError: it cannot be made.
    """
    os.makedirs(os.path.dirname(root.at(path)), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(root.at(path), 0o700)
    handle = os.open(root.at(path), _OPEN)
    try:
        found = os.fstat(handle)
        gid = _gid()
        if gid is not None and found.st_gid != gid and os.geteuid() == 0:
            os.fchown(handle, -1, gid)
        if stat.S_IMODE(found.st_mode) != _MODE:
            os.fchmod(handle, _MODE)
    finally:
        os.close(handle)


def demand(root: Root, path: str) -> None:
    """Refuse if whoever runs this may not read a folder: its files would look missing.

    :raises ConfigError: see there.
    """
    if root.exists(path) and not os.access(root.at(path), os.R_OK | os.X_OK):
        raise ConfigError(f"{path} can be read by root and the group {GROUP}: run this with sudo.")


def _gid() -> int | None:
    with contextlib.suppress(KeyError):
        return grp.getgrnam(GROUP).gr_gid
    return None
