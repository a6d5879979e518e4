# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Replace and remove files so that a reader sees the old or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import tempfile


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
