# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where the directories belong: on what is mounted there, or on what takes its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...machine.disks import read_block_devices
from ...machine.mounts import Mount, read_mounts
from ...machine.root import Root
from ..scratch.disk_count import DiskCount
from ..scratch.refusal import Refused
from .temporary import TemporaryDisk, configured_mounts, find_temporary_disk
from .wanted import DIRECTORY, TEMPORARY_DISK, Wanted

MOUNT = "mount"
"""A file system is mounted there: the array of the local disks, or what the site mounts."""
FALLBACK_FOLDER = "hpcai-scratch"
"""Name of the folder on the temporary disk."""
_HIDDEN_BELOW = "/mnt"


@dataclass(frozen=True)
class Facts:
    """What there is.

    :ivar here: what is mounted at the mountpoint; None where nothing is.
    :ivar folder: the mountpoint itself: ``missing``, ``empty``, ``filled`` or ``other`` (a file, a symbolic link).
    :ivar temporary: the temporary disk; None where there is none.
    :ivar open_to_all: every user may rename what lies at the top of the temporary disk.
    :ivar configured: where the temporary disk is going to be mounted, and in whose settings that stands.
    """

    here: Mount | None = None
    folder: str = "missing"
    temporary: TemporaryDisk | None = None
    open_to_all: bool = False
    configured: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_fallback(self) -> bool:
        """Whether what is mounted there is our folder on the temporary disk."""
        return self.here is not None and self.here.root.endswith(f"/{FALLBACK_FOLDER}")


@dataclass(frozen=True)
class Place:
    """Where the directories belong.

    :ivar kind: MOUNT, TEMPORARY_DISK or DIRECTORY.
    :ivar words: what it is, for a message.
    :ivar bound_from: the folder that is to be mounted at the mountpoint; empty where nothing is.
    :ivar warnings: what the user should know.
    """

    kind: str
    words: str
    bound_from: str = ""
    warnings: tuple[str, ...] = ()


def look(wanted: Wanted, root: Root) -> Facts:
    """Find out what is there. No command is run."""
    mounts = read_mounts(root)
    here = [mount for mount in mounts if mount.mountpoint == wanted.mountpoint]
    temporary = find_temporary_disk(root, mounts, read_block_devices(root), wanted.temporary_mounts)
    return Facts(
        here=here[-1] if here else None,
        folder=_kind_of(root, wanted.mountpoint),
        temporary=temporary,
        open_to_all=bool(temporary and temporary.mount and _is_open(root, temporary.mount.mountpoint)),
        configured=configured_mounts(root),
    )


def choose(facts: Facts, wanted: Wanted, promise: DiskCount | None) -> Place:
    """Return where the directories belong.

    :param promise: how many local disks there must be; needed unless something else than our folder is mounted there.
    :raises Refused: nowhere: local disks are missing, or nothing may take their place.
    """
    warnings = _hidden(facts, wanted)
    if facts.here is not None and not facts.is_fallback:
        return Place(MOUNT, f"{facts.here.filesystem} of {facts.here.source}", warnings=warnings)
    if promise is None or promise.count > 0:
        raise Refused(_lacking(facts, wanted, promise))
    if facts.folder == "other":
        raise Refused(f"{wanted.mountpoint} is no folder: remove it, or choose another mountpoint.")
    if warnings:
        raise Refused(warnings[0])
    none = f"there are no local NVMe disks here ({promise.origin}: 0)"
    disk = facts.temporary.device if facts.temporary else ""
    on_disk = f"{none}, and it is a slow folder on the temporary disk{f' {disk}' if disk else ''}"
    if facts.here is not None:
        return Place(TEMPORARY_DISK, on_disk)
    notes: list[str] = []
    for kind in wanted.fallback:
        if kind == DIRECTORY:
            also = f" ({'; '.join(notes)})" if notes else ""
            return Place(DIRECTORY, f"{none}, and it is a slow folder on the operating system's disk{also}")
        problem = _why_not_temporary(facts, wanted)
        if not problem and facts.temporary and facts.temporary.mount:
            source = f"{facts.temporary.mount.mountpoint}/{FALLBACK_FOLDER}"
            return Place(TEMPORARY_DISK, on_disk, source)
        notes.append(problem)
    only = " or ".join(wanted.fallback)
    allowed = f"only {only} may take their place" if only else "nothing may take their place"
    raise Refused(
        f"{wanted.mountpoint} is not mounted: {none}, and {'; '.join([allowed, *notes])}: mount something there, or "
        f"allow more by scratch_fallback."
    )


def _hidden(facts: Facts, wanted: Wanted) -> tuple[str, ...]:
    """Warn of a mountpoint that a later mount hides."""
    for path, who in facts.configured.items():
        if wanted.mountpoint.startswith(f"{path}/"):
            return (
                f"mountpoint {wanted.mountpoint} lies below {path}, where {who}, mounts a disk, which hides it: choose "
                f"another, such as /scratch",
            )
    if wanted.mountpoint.startswith(f"{_HIDDEN_BELOW}/") and facts.here is not None:
        return (
            f"mountpoint {wanted.mountpoint} lies below {_HIDDEN_BELOW}, where cloud-init mounts the temporary disk of "
            f"sizes that have one, which hides it: /scratch is safer",
        )
    return ()


def _lacking(facts: Facts, wanted: Wanted, promise: DiskCount | None) -> str:
    disks = f"{promise.count} local NVMe disks are expected here ({promise.origin})" if promise else "disks are missing"
    if facts.is_fallback:
        return (
            f"{wanted.mountpoint} is a folder of the temporary disk, though {disks}: unmount it, then run "
            f"'hpcnode scratch up'."
        )
    return (
        f"{wanted.mountpoint} is not mounted, though {disks}, and nothing takes their place: see "
        f"'hpcnode scratch status', and whether its mountpoint is the same."
    )


def _why_not_temporary(facts: Facts, wanted: Wanted) -> str:
    temporary = facts.temporary
    if temporary is None:
        return "there is no temporary disk"
    if temporary.mount is None:
        who = f" yet by {temporary.awaited}" if temporary.awaited else ": cloud-init or the Azure agent would do that"
        return f"the temporary disk {temporary.device} is not mounted{who}"
    if "rw" not in temporary.mount.options:
        return f"the temporary disk at {temporary.mount.mountpoint} cannot be written to"
    if facts.open_to_all:
        return f"every user may rename files in {temporary.mount.mountpoint}: take write permission there from others"
    if facts.folder == "filled":
        return f"{wanted.mountpoint} holds files, which a mount would hide: empty it to have the temporary disk there"
    return ""


def _kind_of(root: Root, path: str) -> str:
    try:
        found = os.lstat(root.at(path))
    except OSError:
        return "missing"
    if not stat.S_ISDIR(found.st_mode):
        return "other"
    return "filled" if root.entries(path) else "empty"


def _is_open(root: Root, path: str) -> bool:
    try:
        mode = os.stat(root.at(path)).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)
