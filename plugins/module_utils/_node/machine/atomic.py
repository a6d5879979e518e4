# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Replace and remove files so that a reader sees the old or the new one, never half of one."""

from __future__ import annotations

import contextlib
import grp
import os
import stat
import tempfile

from .config import ConfigError
from .root import Root


def write_file(path: str, text: str, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Write ``text`` to ``path`` in one step and durably, with exactly ``mode`` and, where given, ``owner``.

    Missing folders are made with mode 0755. A symbolic link stays one: what it points to is replaced. Text that was
    read with the error handler ``surrogateescape`` is written as the bytes it came from.

    :param owner: numbers of user and group.
    :raises OSError: it cannot be written; then the old file is as it was.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    _make_folders(folder)
    # The dot keeps what includes a whole folder by a pattern (conf.d/*.conf) from reading half a file.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            if owner:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno and not error.filename:
            # The kernel says that there is no space, and not for what.
            error.filename = target
        raise
    _sync_folder(folder)


def remove_file(path: str) -> None:
    """Remove ``path``, the link itself where it is one. What is not there is no error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _make_folders(folder: str) -> None:
    if os.path.isdir(folder):
        return
    _make_folders(os.path.dirname(folder))
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
        # Not left to the umask: containers and jobs of all users read below it.
        os.chmod(folder, 0o755)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


OPERATORS = "adm"
"""The group that reads system logs, on Debian and on EL."""
_OPERATORS_MODE = 0o750
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_operators_folder(root: Root, path: str) -> None:
    """Make a folder in one that only root can write to, readable for root and the group alone.

    :raises OSError: it cannot be made.
    """
    os.makedirs(os.path.dirname(root.at(path)), mode=0o755, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(root.at(path), 0o700)
    handle = os.open(root.at(path), _OPEN_FOLDER)
    try:
        found = os.fstat(handle)
        gid = _operators_gid()
        if gid is not None and found.st_gid != gid and os.geteuid() == 0:
            os.fchown(handle, -1, gid)
        if stat.S_IMODE(found.st_mode) != _OPERATORS_MODE:
            os.fchmod(handle, _OPERATORS_MODE)
    finally:
        os.close(handle)


def require_readable(root: Root, path: str) -> None:
    """Refuse if whoever runs this may not read a folder: its files would look missing.

    :raises ConfigError: see there.
    """
    if root.exists(path) and not os.access(root.at(path), os.R_OK | os.X_OK):
        raise ConfigError(f"{path} can be read by root and the group {OPERATORS}: run this with sudo.")


def _operators_gid() -> int | None:
    with contextlib.suppress(KeyError):
        return grp.getgrnam(OPERATORS).gr_gid
    return None
