# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A separate file system for slurmd's spool, half of which is reserved for root.

slurmctld drains a node whose spool has no space or inode left for a job's folder or batch script. Users can fill the
file system that contains the spool, if /var/tmp or the like is on it, and the spool itself: a job owns its batch script
and may let it grow.
"""

from __future__ import annotations

import os

from ..machine import selinux
from ..machine.mounts import read_mounts
from ..machine.owners import live_jobs, read_owned
from ..machine.root import Root
from ..machine.run import Run, must

IMAGE = "/run/hpcai/slurmd-spool.img"
"""On a tmpfs, where it takes only the space of written data: the spool's content is not needed after a restart."""
SIZE_BYTES = 256 * 2**20
INODES = 32768
_RESERVED_PERCENT = 50


class NotNow(RuntimeError):
    """The spool cannot be replaced while jobs run; the message says so."""


def is_protected(folder: str, root: Root) -> bool:
    """Whether something is mounted on the spool."""
    return any(mount.mountpoint == folder for mount in read_mounts(root))


def protect(folder: str, root: Root, run: Run) -> bool:
    """Mount a separate file system on the spool, unless something is mounted there; return whether that was needed.

    :raises NotNow: running steps have their sockets in it.
    :raises CommandFailed: it cannot be made or mounted.
    :raises OSError: it cannot be made or mounted.
    """
    if is_protected(folder, root):
        return False
    jobs = live_jobs(read_owned(root))
    if jobs:
        raise NotNow(
            f"{folder} is left unchanged while {len(jobs)} jobs run; the next start of slurmd without jobs replaces it"
        )
    os.makedirs(root.at(folder), mode=0o755, exist_ok=True)
    original = os.stat(root.at(folder))
    os.makedirs(root.at(os.path.dirname(IMAGE)), mode=0o755, exist_ok=True)
    handle = os.open(root.at(IMAGE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(handle, SIZE_BYTES)
    finally:
        os.close(handle)
    must(run(["mkfs.ext4", "-q", "-F", "-m", str(_RESERVED_PERCENT), "-N", str(INODES), IMAGE]))
    must(run(["mount", "-o", "loop,nosuid,nodev", IMAGE, folder]))
    os.chown(root.at(folder), original.st_uid, original.st_gid)
    os.chmod(root.at(folder), original.st_mode & 0o7777)
    if selinux.is_enabled(root):
        selinux.relabel([folder], run)
    return True
