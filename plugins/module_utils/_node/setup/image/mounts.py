# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which paths belong to the image, and which are mounted into it from somewhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...machine.mounts import Mount, read_mounts
from ...machine.root import Root

_ON_DISK = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "zfs", "overlay", "fuse.fuse-overlayfs")
_SEVERAL_ROOTS = ("btrfs",)
"""Where a part of the file system is commonly mounted that is not a folder of another mount."""


class MountsUnknown(RuntimeError):
    """It cannot be told what is mounted, and so not what may be removed."""


class ImageMounts:
    """Tells by the mounts whether a place belongs to the image.

    A folder of the host that is mounted into an image while that is made (a cache of packages, /etc/resolv.conf) must
    outlive it, whatever it holds. So must what lies on another machine.
    """

    def __init__(self, root: Root, mounts: Sequence[Mount]) -> None:
        self._root = root
        # A later mount hides an earlier one at the same place.
        self._mounts = {mount.mountpoint.rstrip("/") or "/": mount for mount in mounts}

    def foreign(self, place: str) -> str | None:
        """Return why what lies at the real path ``place`` is not the image's, in a few words; None if it is."""
        top = os.path.realpath(self._root.path)
        real = os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
        if os.path.commonpath([top, real]) != top:
            return f"it leads out of the image, to {real}"
        while real != top:
            mount = self._mounts.get(real)
            if mount:
                return self._why(mount)
            real = os.path.dirname(real)
        return None

    def has_mounts_below(self, place: str) -> bool:
        """Whether anything is mounted below the folder at the real path ``place``."""
        return any(point.startswith(f"{place.rstrip('/')}/") for point in self._mounts)

    def _why(self, mount: Mount) -> str | None:
        if mount.filesystem not in _ON_DISK:
            return f"{mount.filesystem} is mounted at {mount.mountpoint}"
        if mount.root != "/" and mount.filesystem not in _SEVERAL_ROOTS:
            return f"{mount.mountpoint} is a bind mount"
        return None


def read_image_mounts(root: Root) -> ImageMounts:
    """Return the mounts of the image below ``root``.

    :raises MountsUnknown: the kernel does not tell what is mounted.
    """
    # Of this machine, wherever the image lies: in a chroot the kernel tells what is mounted in there.
    mounts = read_mounts(Root("/"))
    if not mounts and not os.path.exists("/proc/self/mountinfo"):
        raise MountsUnknown(
            "It cannot be told what is mounted into this image, as there is no /proc/self/mountinfo: mount /proc in it."
        )
    return ImageMounts(root, mounts)
