# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which disk is Azure's temporary disk, and where it is mounted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...machine.disks import BlockDevice, disk_of, resolve
from ...machine.mounts import Mount, device_of
from ...machine.root import Root

_LINKS = ("/dev/disk/azure/resource", "/dev/disk/cloud/azure_resource")
"""udev's links to the SCSI temporary disk: those of azure-vm-utils and waagent, and cloud-init's."""
_LINK_FOLDERS = ("/dev/disk/azure", "/dev/disk/cloud")
"""Where one of these is, Azure's udev rules are at work, and a machine without the link has no such disk."""
USUAL_MOUNTS = ("/mnt", "/mnt/resource")
"""Where cloud-init mounts ephemeral0, and waagent on RHEL and its like; asked where udev has no links."""
# A mount there of one of these kinds is somebody else's, and not local.
_NOT_LOCAL = ("nfs", "nfs4", "cifs", "smb3", "tmpfs", "ramfs", "lustre", "beegfs", "ceph", "autofs", "iso9660")
_WAAGENT = "/etc/waagent.conf"


@dataclass(frozen=True)
class TemporaryDisk:
    """The temporary disk.

    :ivar device: its path below /dev; empty where the mount has none to be seen, as in a container.
    :ivar mount: its mount; None where it is not mounted.
    :ivar awaited: who will mount it, in words; empty where nobody seems to.
    """

    device: str
    mount: Mount | None
    awaited: str = ""


def find_temporary_disk(
    root: Root, mounts: Sequence[Mount], devices: Mapping[str, BlockDevice], told: Sequence[str] = ()
) -> TemporaryDisk | None:
    """Return the temporary disk; None where there is none.

    :param told: mountpoints that are the temporary disk's, if somebody said so. Otherwise udev's links tell, and where
        there are none, as in a container, a local file system that is mounted at one of USUAL_MOUNTS.
    """
    if told:
        return next((_of(mount) for path in told if (mount := _at(mounts, path))), None)
    linked = next((name for link in _LINKS if (name := resolve(root, link))), None)
    if linked:
        disk = disk_of(devices, linked)
        mine = [m for m in mounts if m.root == "/" and (on := device_of(m, devices)) and disk_of(devices, on) == disk]
        return TemporaryDisk(f"/dev/{disk}", mine[0] if mine else None, "" if mine else _who_mounts(root))
    if any(root.exists(folder) for folder in _LINK_FOLDERS):
        return None
    for path in USUAL_MOUNTS:
        mount = _at(mounts, path)
        if mount and mount.filesystem not in _NOT_LOCAL and not mount.filesystem.startswith("fuse"):
            return _of(mount)
    return None


def configured_mounts(root: Root) -> dict[str, str]:
    """Return where the temporary disk is going to be mounted, and in whose settings that stands."""
    found = {}
    for words in (line.split() for line in (root.text("/etc/fstab") or "").splitlines()):
        if len(words) < 4 or words[0].startswith("#") or not words[1].startswith("/"):
            continue
        if "comment=cloudconfig" in words[3].split(",") or words[0].startswith(_LINKS):
            found[words[1].rstrip("/")] = "cloud-init, in /etc/fstab"
    settings = {
        key.strip(): value.split("#")[0].strip()
        for key, equals, value in (line.partition("=") for line in (root.text(_WAAGENT) or "").splitlines())
        if equals and not key.lstrip().startswith("#")
    }
    if settings.get("ResourceDisk.Format", "n").lower() == "y":
        path = settings.get("ResourceDisk.MountPoint") or "/mnt/resource"
        found.setdefault(path.rstrip("/"), f"the Azure agent, by ResourceDisk.MountPoint in {_WAAGENT}")
    return found


def _who_mounts(root: Root) -> str:
    return "; ".join(f"{who}, on {path}" for path, who in configured_mounts(root).items())


def _at(mounts: Sequence[Mount], path: str) -> Mount | None:
    found = [mount for mount in mounts if mount.mountpoint == path]
    return found[-1] if found else None


def _of(mount: Mount) -> TemporaryDisk:
    # The source of a bind mount is the device that the folder lies on; whether that is the whole of it, root tells.
    return TemporaryDisk(mount.source if mount.source.startswith("/dev/") and mount.root == "/" else "", mount)
