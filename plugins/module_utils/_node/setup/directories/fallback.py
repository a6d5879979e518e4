# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Making what takes the place of local disks: a folder on the temporary disk, or at the mountpoint itself."""

from __future__ import annotations

import os
from typing import Callable

from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from ...machine.user_folders import adapt, walk
from ..scratch.mounting import gid_of, uid_of
from .folders import FolderProblem, make, opened
from .place import FALLBACK_FOLDER, Place
from .wanted import Folder

Warn = Callable[[str], None]


def take_place(
    place: Place, found: str, mountpoint: str, top: Folder, root: Root, run: Run, check: bool, warn: Warn
) -> list[str]:
    """Make it, and give it the owner and permissions that the disks' file system would have.

    :param found: what is at the mountpoint, see ``place.Facts.folder``.
    :param top: owner and permissions.
    :param check: only say what would be done.
    :param warn: takes warnings.
    :return: what was done, or would be.
    :raises CommandFailed: it cannot be made or mounted.
    :raises OSError: likewise.
    """
    actions: list[str] = []
    if place.bound_from:
        actions += _on_temporary_disk(place.bound_from, top, root, check, warn)
        actions.append(f"mount {place.bound_from} on {mountpoint}")
    if not check and found == "missing":
        os.makedirs(root.at(mountpoint), mode=0o755)
    if place.bound_from:
        if not check:
            _bind(place.bound_from, mountpoint, root, run)
        return actions
    if check and found == "missing":
        return [f"make {mountpoint} {top}"]
    with opened(root.at(mountpoint), mountpoint, "") as base:
        changed = adapt(base.handle, uid_of(top.owner), gid_of(top.group), top.mode, check)
    return [f"make {mountpoint} {top}"] if changed or found == "missing" else []


def _on_temporary_disk(path: str, top: Folder, root: Root, check: bool, warn: Warn) -> list[str]:
    disk = os.path.dirname(path)
    folder = Folder(FALLBACK_FOLDER, top.owner, top.group, top.mode, top.named)
    with opened(root.at(disk), disk, f"the temporary disk at {disk}") as base:
        try:
            made = make(base, folder, frozenset(), check, warn)
        except FolderProblem as error:
            raise CommandFailed(str(error)) from error
    return [made] if made else []


def _bind(source: str, mountpoint: str, root: Root, run: Run) -> None:
    try:
        with walk(root, source) as folder:
            # Not canonicalized: that would be the path again.
            result = run(["mount", "-c", "--bind", folder.for_commands, mountpoint])
    except FolderProblem as error:
        raise CommandFailed(str(error)) from error
    if result.rc != 0:
        said = (result.stderr.strip() or f"exit status {result.rc}").splitlines()[0]
        raise CommandFailed(f"{source} cannot be mounted on {mountpoint}: {said}")


def undo(mountpoint: str, run: Run) -> None:
    """Unmount the folder on the temporary disk; what is in it stays.

    :raises CommandFailed: somebody uses it.
    """
    result = run(["umount", mountpoint])
    if result.rc != 0:
        said = (result.stderr.strip() or f"exit status {result.rc}").splitlines()[0]
        raise CommandFailed(f"{mountpoint} cannot be unmounted: {said}")
