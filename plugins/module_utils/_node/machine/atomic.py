# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Replaces and removes files so that a reader sees the old or the new file, never an incomplete one.

Also the file in which a service shows its state to operators.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from typing import Any

from .config import ConfigError
from .root import Root
from .user_folders import Base, opened, write_new


def write_file(path: str, text: str, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Write ``text`` to ``path`` atomically and durably, with exactly ``mode`` and, if given, ``owner``.

    Missing folders are created with mode 0755. If ``path`` is a symbolic link, its target is replaced. Text that was
    read with the error handler ``surrogateescape`` is written as its original bytes.

    :param owner: ids of user and group.
    :raises OSError: it cannot be written; then the old file is unchanged.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    make_folders(folder)
    # Because of the dot, a program that reads a folder by a pattern (conf.d/*.conf) ignores the incomplete file.
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
            # The kernel's error, such as no space, does not name the file.
            error.filename = target
        raise
    _sync_folder(folder)


def write_beside_users(path: str, text: str, mode: int = 0o644) -> None:
    """Write ``text`` to a path that an operator gave. Users may be able to create links in its folder, such as /tmp.

    A link at the path is replaced and not followed. The folder must exist.

    :raises OSError: it cannot be written; then the old file is unchanged.
    """
    folder, name = os.path.split(os.path.abspath(path))
    with opened(os.path.realpath(folder), folder) as base:
        replace_in(base, name, text, mode)


def replace_in(base: Base, name: str, text: str, mode: int = 0o644) -> None:
    """Write ``text`` to a file of an open folder atomically and durably. A link with this name is replaced.

    :raises OSError: it cannot be written; then the old file is unchanged.
    """
    temporary = f".{name}.{secrets.token_hex(8)}"
    try:
        write_new(base, temporary, text, mode)
        os.rename(temporary, name, src_dir_fd=base.handle, dst_dir_fd=base.handle)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=base.handle)
        raise
    os.fsync(base.handle)


def remove_file(path: str) -> None:
    """Remove ``path``; if it is a link, remove the link itself. A missing file is not an error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def make_folders(folder: str) -> None:
    """Create a folder with its parents, mode 0755 whatever the umask is. An existing one is left unchanged.

    :raises OSError: it cannot be created.
    """
    if os.path.isdir(folder):
        return
    make_folders(os.path.dirname(folder))
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
        # Do not depend on the umask: containers and jobs of all users read files below it.
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
    """Create a folder that only root and the group of operators can read. Only root may be able to write to its parent.

    :raises OSError: it cannot be created.
    """
    make_folders(os.path.dirname(root.at(path)))
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


def write_state(
    root: Root, path: str, schema: int, state: Mapping[str, Any], mode: int = 0o644, indent: int | None = 1
) -> None:
    """Write what a service shows of itself as JSON with a schema version, into a folder of operators.

    :raises OSError: it cannot be written.
    """
    make_operators_folder(root, os.path.dirname(path))
    write_file(root.at(path), json.dumps({"schema": schema, **state}, indent=indent) + "\n", mode=mode)


def read_state(root: Root, path: str, schema: int) -> dict[str, Any] | None:
    """Return what ``write_state`` wrote, without the version; None if there is none of this version."""
    try:
        held = json.loads(root.text(path) or "null")
    except ValueError:
        return None
    return held if isinstance(held, dict) and held.pop("schema", None) == schema else None


def require_readable(root: Root, path: str) -> None:
    """Refuse to continue if this user cannot read a folder: its files would seem to be missing.

    :raises ConfigError: the user cannot read it.
    """
    if root.exists(path) and not os.access(root.at(path), os.R_OK | os.X_OK):
        raise ConfigError(f"only root and the group {OPERATORS} can read {path}: run this with sudo.")


def _operators_gid() -> int | None:
    with contextlib.suppress(KeyError):
        return grp.getgrnam(OPERATORS).gr_gid
    return None
