# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Look, choose and make the directories: used by both the module and the boot phase."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from ...machine.lock import Locked, only_one
from ...machine.root import Root
from ...machine.run import Run, wait_until
from ...machine.user_folders import FolderProblem, opened
from ..scratch import options as scratch_options
from ..scratch.disk_count import DiskCount, expected_disks
from ..scratch.disks import Refused
from ..scratch.mounting import uid_of
from ..scratch.options import read_options as read_scratch
from .apply import make, make_fallback
from .options import DirectoryOptions, Folder
from .plan import MOUNT, DirectoryFacts, Location, choose, look

LOCK = "/run/hpcai/directories.lock"
"""Not in /run/lock, where a user could create and lock a file of this name."""
_LEAST_FREE = 0.01
"""A file system counts as full below this share of free space or inodes."""


@dataclass(frozen=True)
class Outcome:
    """What was done, or in check mode would be done.

    :ivar kind: ``mount``, ``temporary_disk`` or ``directory``; None if check mode cannot know it.
    :ivar actions: what was done, in words and in order.
    :ivar warnings: what the user should know.
    :ivar problems: one line for each directory that could not be made as wanted.
    :ivar size_bytes: size of the file system.
    :ivar free_bytes: bytes that ordinary users can still write.
    :ivar free_inodes: files that ordinary users can still create; also 0 if the file system does not count inodes.
    """

    kind: str | None
    mountpoint: str
    actions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    size_bytes: int = 0
    free_bytes: int = 0
    free_inodes: int = 0


def ensure(
    options: DirectoryOptions,
    root: Root,
    run: Run,
    check: bool = False,
    nvme_count: int | None = None,
    wait_s: float = 0,
    lock_timeout_s: float = 60,
) -> Outcome:
    """Make the directories on the scratch or its fallback.

    :param check: only return what would be done.
    :param nvme_count: how many local disks the VM size has, if the caller knows it.
    :param wait_s: how long to wait, in seconds, until the temporary disk is mounted.
    :raises Refused: there is no place for them; nothing was changed.
    :raises CommandFailed: the folder on the temporary disk cannot be mounted.
    :raises UnknownVmSize: it depends on the VM size, which is unknown.
    :raises ConfigError: it depends on the VM size, which is unknown, or the settings are invalid.
    """
    if root.is_this_machine and os.geteuid() != 0:
        raise Refused("making directories for other users needs root. Run with become.")
    if not root.is_this_machine and not check:
        raise Refused(f"{root.path} is a captured tree and cannot be changed. Use check mode.")
    try:
        with only_one(root.at(LOCK), lock_timeout_s) if not check else contextlib.nullcontext():
            return _ensure(options, root, run, check, nvme_count, wait_s)
    except Locked as error:
        raise Refused(f"another run is changing the directories: {error}") from error


def _ensure(
    options: DirectoryOptions, root: Root, run: Run, check: bool, nvme_count: int | None, wait_s: float
) -> Outcome:
    scratch = read_scratch(root) or scratch_options.parse({})
    facts = look(options, root)
    expected = None
    if facts.here is None or facts.is_fallback:
        expected = expected_disks(scratch, root, nvme_count)
        if check and expected.count and facts.here is None:
            return _foreseen(options, expected)
    if not check and _is_awaited(facts, expected):
        wait_until(lambda: not _is_awaited(look(options, root), expected), wait_s)
        facts = look(options, root)
    location = choose(facts, options, expected)
    top = Folder("", scratch.owner, scratch.group, scratch.mode, "")
    actions: list[str] = []
    moved: list[str] = []
    if location.kind != MOUNT:
        actions += make_fallback(location, facts.folder, options.mountpoint, top, root, run, check, moved.append)
    if check and (facts.folder == "missing" or location.bound_from):
        return Outcome(
            location.kind, options.mountpoint, (*actions, *_all(options)), (*_warnings(location, options, ""), *moved)
        )
    problems: list[str] = []
    with opened(root.at(options.mountpoint), options.mountpoint, _filesystem(options, root)) as base:
        for folder in options.folders:
            try:
                actions += filter(None, [make(base, folder, _owners(options), check, moved.append)])
            except FolderProblem as error:
                problems.append(str(error))
            except Refused as error:
                problems.append(f"{base.path}/{folder.path}: {error}")
        space = os.fstatvfs(base.handle)
    warnings = _warnings(location, options, _in_words(space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize))
    return Outcome(
        location.kind,
        options.mountpoint,
        tuple(actions),
        (*warnings, *moved, *_fullness(space, options)),
        tuple(problems),
        space.f_blocks * space.f_frsize,
        space.f_bavail * space.f_frsize,
        space.f_favail,
    )


def _foreseen(options: DirectoryOptions, expected: DiskCount) -> Outcome:
    """Return the outcome in check mode while the disks are not mounted, because the task before mounted nothing."""
    warning = (
        f"{options.mountpoint} is not mounted yet, and {expected.count} local NVMe disks are expected "
        f"({expected.origin}): check mode cannot predict whether this run would mount them. If not, the real run fails"
    )
    return Outcome(None, options.mountpoint, _all(options), (warning,))


def _all(options: DirectoryOptions) -> tuple[str, ...]:
    return tuple(f"make {options.mountpoint}/{folder.path} {folder}" for folder in options.folders)


def _is_awaited(facts: DirectoryFacts, expected: DiskCount | None) -> bool:
    """Whether the temporary disk is needed, and a service is expected to mount it."""
    disk = facts.temporary
    needed = facts.here is None and expected is not None and expected.count == 0
    return needed and disk is not None and disk.mount is None and bool(disk.awaited)


def _owners(options: DirectoryOptions) -> frozenset[int]:
    """The users for whom directories are made; these may own the parents of other directories."""
    found = set()
    for folder in options.folders:
        with contextlib.suppress(Refused):
            found.add(uid_of(folder.owner))
    return frozenset(found)


def _filesystem(options: DirectoryOptions, root: Root) -> str:
    """The file system at the mountpoint, in words."""
    here = look(options, root).here
    return f"{here.filesystem} of {here.source}" if here else "the operating system's disk"


def _warnings(location: Location, options: DirectoryOptions, space: str) -> tuple[str, ...]:
    if location.kind == MOUNT:
        return location.warnings
    return (f"{options.mountpoint} is not on NVMe disks: {location.words}{space}", *location.warnings)


def _in_words(size: int, free: int) -> str:
    return f", {size / 1e9:.1f} GB, of which {free / 1e9:.1f} GB are free"


def _fullness(space: os.statvfs_result, options: DirectoryOptions) -> tuple[str, ...]:
    free_bytes = f"{space.f_bavail * space.f_frsize} bytes"
    if space.f_blocks and space.f_bavail < _LEAST_FREE * space.f_blocks:
        return (f"{options.mountpoint} is full: {free_bytes} and {space.f_favail} inodes are free",)
    # Some file systems, such as btrfs, do not count inodes.
    if space.f_files and space.f_favail < _LEAST_FREE * space.f_files:
        return (f"{options.mountpoint} has almost no free inodes: {space.f_favail} inodes and {free_bytes} are free",)
    return ()
