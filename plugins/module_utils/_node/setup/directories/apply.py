# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Make directories where every user can write, and the fallback folder for nodes without local disks."""

from __future__ import annotations

import contextlib
import os
from typing import Callable

from ...machine.root import Root
from ...machine.run import CommandFailed, Result, Run
from ...machine.user_folders import Base, FolderProblem, adapt, as_problem, foreign, opened, take, walk
from ..scratch.mounting import gid_of, uid_of
from .options import Folder, parse, read_or_defaults
from .plan import FALLBACK_FOLDER, Location, look


def make(
    base: Base,
    folder: Folder,
    trusted: frozenset[int],
    check: bool = False,
    warn: Callable[[str], None] = lambda words: None,
) -> str:
    """Make a directory and its parents, or set an existing one's owner, group and mode.

    Nothing is changed below a directory that exists. Missing parents belong to root and have mode 0755. Anything that
    users put in the place of one is moved aside, with a warning.

    :param trusted: users whose directories may be used as parents where every user can create one.
    :param check: only return what would be done.
    :param warn: called with each warning.
    :return: what was done, or would be; empty if there is nothing to do.
    :raises FolderProblem: it cannot be made.
    """
    path = f"{base.path}/{folder.path}"
    uid, gid = uid_of(folder.owner), gid_of(folder.group)
    mine = trusted | {uid, os.geteuid()}
    done = f"make {path} {folder}"
    made = False
    names = folder.path.split("/")
    with contextlib.ExitStack() as handles:
        here = base
        for depth, name in enumerate(names, start=1):
            so_far = f"{here.path}/{name}"
            with as_problem(so_far, base):
                if check:
                    strange = foreign(here, name, mine)
                    if strange:
                        warn(f"{strange}: it would be moved aside")
                    if strange or here.look(name) is None:
                        return done
                    here = handles.enter_context(here.enter(name))
                    continue
                handle, made_now = take(here, name, mine, warn)
                handles.callback(os.close, handle)
                if made_now and depth < len(names):
                    os.fchmod(handle, 0o755)
            made = made or made_now
            here = Base(handle, so_far, base.filesystem)
        with as_problem(path, base):
            changed = adapt(here.handle, uid, gid, folder.mode, check)
    return done if made or changed else ""


# The fallback for local disks: a folder on the temporary disk, or at the mountpoint itself.

Warn = Callable[[str], None]


def make_fallback(
    location: Location, found: str, mountpoint: str, top: Folder, root: Root, run: Run, check: bool, warn: Warn
) -> list[str]:
    """Make the fallback folder, and give it the owner and permissions that the disks' file system would have.

    :param found: what is at the mountpoint, see ``plan.DirectoryFacts.folder``.
    :param top: owner and permissions.
    :param check: only return what would be done.
    :param warn: called with each warning.
    :return: what was done, or would be.
    :raises CommandFailed: it cannot be made or mounted.
    :raises OSError: it cannot be made or mounted.
    """
    actions: list[str] = []
    if location.bound_from:
        actions += _on_temporary_disk(location.bound_from, top, root, check, warn)
        actions.append(f"mount {location.bound_from} on {mountpoint}")
    if not check and found == "missing":
        os.makedirs(root.at(mountpoint), mode=0o755)
    if location.bound_from:
        if not check:
            _bind(location.bound_from, mountpoint, root, run)
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
            # -c: without it, mount would resolve the path in /proc back to a path that users may have replaced.
            result = run(["mount", "-c", "--bind", folder.for_commands, mountpoint])
    except FolderProblem as error:
        raise CommandFailed(str(error)) from error
    if result.rc != 0:
        raise CommandFailed(f"{source} cannot be mounted on {mountpoint}: {_reason(result)}")


def _reason(result: Result) -> str:
    return (result.stderr.strip() or f"exit status {result.rc}").splitlines()[0]


def unmount_fallback(root: Root, run: Run, check: bool) -> tuple[str, ...]:
    """Unmount our folder on the temporary disk if it is mounted; its content stays.

    :return: what was done, or in check mode would be done.
    :raises CommandFailed: it is in use.
    """
    settings, _warnings = read_or_defaults(root)
    options = parse({"mountpoint": settings["mountpoint"]})
    if not look(options, root).is_fallback:
        return ()
    if not check:
        result = run(["umount", options.mountpoint])
        if result.rc != 0:
            raise CommandFailed(f"{options.mountpoint} cannot be unmounted: {_reason(result)}")
    return (f"unmount {options.mountpoint}",)
