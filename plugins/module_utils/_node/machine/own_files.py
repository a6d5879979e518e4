# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A user's own files in a folder that other users can write to, such as that of a project: for what runs in a job.

The names are known in advance, so another user can create a link, a pipe, a file or a folder with such a name first.
Here nothing of another user is followed, read or written. What root does in users' folders is in ``user_folders``.
"""

from __future__ import annotations

import os
import stat

from .atomic import replace_in
from .user_folders import Base, owners_of_root

_NOBODY = 65534
"""What a server of NFS or Lustre shows for users that it maps to one account (exports(5), all_squash)."""


class ForeignFile(OSError):
    """A file or folder belongs to another user; the message says which, and what to do."""


def require_own(path: str) -> os.stat_result:
    """Return the stat result of a path without following a link.

    :raises ForeignFile: it belongs to another user.
    :raises OSError: it is missing.
    """
    return _own(path, os.lstat(path))


def open_own(path: str, flags: int = 0) -> int:
    """Open an own file or folder for reading, and return its descriptor. A pipe does not block this.

    :param flags: further flags of open(2).
    :raises ForeignFile: it, or a link with this name, belongs to another user.
    :raises OSError: it is missing, or cannot be read.
    """
    # An own link is followed: to the newest log, for example.
    is_link = stat.S_ISLNK(require_own(path).st_mode)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags | (0 if is_link else os.O_NOFOLLOW))
    try:
        _own(path, os.fstat(handle))
    except ForeignFile:
        os.close(handle)
        raise
    return handle


def write_own(path: str, text: str, in_own_folder: bool = False) -> None:
    """Write a file so that a reader sees the old or the new one. A missing folder is created, a link is replaced.

    :param in_own_folder: refuse a folder of another user.
    :raises ForeignFile: the folder belongs to another user; or the old file, and it cannot be replaced.
    :raises OSError: it cannot be written; then the old file is unchanged.
    """
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    flags = os.O_DIRECTORY | os.O_CLOEXEC
    handle = open_own(folder, flags) if in_own_folder else os.open(folder, flags)
    try:
        base = Base(handle, folder)
        try:
            replace_in(base, name, text)
        except OSError:
            found = base.look(name)
            if found is not None:
                # In a folder with the sticky bit, only its owner can replace it.
                _own(path, found)
            raise
    finally:
        os.close(handle)


def _own(path: str, found: os.stat_result) -> os.stat_result:
    if found.st_uid not in owners_of_root() | {_NOBODY}:
        raise ForeignFile(
            f"{path} belongs to user {found.st_uid}, not to you: have it removed, or submit the job from a folder that "
            "only you can write to"
        )
    return found
