# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where the directories are made: on the mounted file system, or on a fallback, such as Azure's temporary disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...machine.disks import BlockDevice, disk_of, read_block_devices, resolve
from ...machine.mounts import Mount, device_of, read_mounts
from ...machine.root import Root
from ..scratch.disk_count import DiskCount
from ..scratch.disks import Refused
from ..scratch.facts import read_folder
from .options import DIRECTORY, TEMPORARY_DISK, DirectoryOptions

_LINKS = ("/dev/disk/azure/resource", "/dev/disk/cloud/azure_resource")
"""udev's links to the SCSI temporary disk: those of azure-vm-utils and waagent, and cloud-init's."""
_LINK_FOLDERS = ("/dev/disk/azure", "/dev/disk/cloud")
"""If one of these exists, Azure's udev rules are active, and a machine without the link has no temporary disk."""
USUAL_MOUNTS = ("/mnt", "/mnt/resource")
"""Where cloud-init mounts ephemeral0, and waagent on RHEL and similar systems; used if udev has made no links."""
# A mount of one of these types there was made by somebody else, and is not local.
_NOT_LOCAL = ("nfs", "nfs4", "cifs", "smb3", "tmpfs", "ramfs", "lustre", "beegfs", "ceph", "autofs", "iso9660")
_WAAGENT = "/etc/waagent.conf"


@dataclass(frozen=True)
class TemporaryDisk:
    """The temporary disk.

    :ivar device: its path below /dev; empty if the mount shows no device, as in a container.
    :ivar mount: its mount; None if it is not mounted.
    :ivar awaited: what will mount it, in words; empty if nothing is configured to.
    """

    device: str
    mount: Mount | None
    awaited: str = ""


def find_temporary_disk(
    root: Root, mounts: Sequence[Mount], devices: Mapping[str, BlockDevice], known_mounts: Sequence[str] = ()
) -> TemporaryDisk | None:
    """Return the temporary disk; None if there is none.

    :param known_mounts: mountpoints of the temporary disk from the settings. Otherwise udev's links show it, or without
        such links, as in a container, a local file system that is mounted at one of USUAL_MOUNTS.
    """
    if known_mounts:
        return next((_as_disk(mount) for path in known_mounts if (mount := _mount_at(mounts, path))), None)
    linked = next((name for link in _LINKS if (name := resolve(root, link))), None)
    if linked:
        disk = disk_of(devices, linked)
        mine = [m for m in mounts if m.root == "/" and (on := device_of(m, devices)) and disk_of(devices, on) == disk]
        return TemporaryDisk(f"/dev/{disk}", mine[0] if mine else None, "" if mine else _who_mounts(root))
    if any(root.exists(folder) for folder in _LINK_FOLDERS):
        return None
    for path in USUAL_MOUNTS:
        mount = _mount_at(mounts, path)
        if mount and mount.filesystem not in _NOT_LOCAL and not mount.filesystem.startswith("fuse"):
            return _as_disk(mount)
    return None


def configured_mounts(root: Root) -> dict[str, str]:
    """Return where the temporary disk will be mounted, and by what configuration."""
    found = {}
    for words in (line.split() for line in (root.text("/etc/fstab") or "").splitlines()):
        if len(words) < 4 or words[0].startswith("#") or not words[1].startswith("/"):
            continue
        if "comment=cloudconfig" in words[3].split(",") or words[0].startswith(_LINKS):
            found[words[1].rstrip("/")] = "cloud-init (/etc/fstab)"
    settings = {
        key.strip(): value.split("#")[0].strip()
        for key, equals, value in (line.partition("=") for line in (root.text(_WAAGENT) or "").splitlines())
        if equals and not key.lstrip().startswith("#")
    }
    if settings.get("ResourceDisk.Format", "n").lower() == "y":
        path = settings.get("ResourceDisk.MountPoint") or "/mnt/resource"
        found.setdefault(path.rstrip("/"), f"the Azure agent (ResourceDisk.MountPoint in {_WAAGENT})")
    return found


def _who_mounts(root: Root) -> str:
    return "; ".join(f"{who} on {path}" for path, who in configured_mounts(root).items())


def _mount_at(mounts: Sequence[Mount], path: str) -> Mount | None:
    found = [mount for mount in mounts if mount.mountpoint == path]
    return found[-1] if found else None


def _as_disk(mount: Mount) -> TemporaryDisk:
    # A bind mount's source is the device of the folder; the mount's root shows whether it is the whole file system.
    return TemporaryDisk(mount.source if mount.source.startswith("/dev/") and mount.root == "/" else "", mount)


MOUNT = "mount"
"""A file system is mounted there: the array of the local disks, or one that the site mounts."""
FALLBACK_FOLDER = "hpcai-scratch"
"""Name of the folder on the temporary disk."""
_HIDDEN_BELOW = "/mnt"


@dataclass(frozen=True)
class DirectoryFacts:
    """The state of the machine.

    :ivar here: what is mounted at the mountpoint; None if nothing is.
    :ivar folder: the mountpoint itself: ``missing``, ``empty``, ``filled`` or ``other`` (a file, a symbolic link).
    :ivar temporary: the temporary disk; None if there is none.
    :ivar open_to_all: every user may rename entries at the top of the temporary disk.
    :ivar configured: where the temporary disk will be mounted, and by what configuration.
    """

    here: Mount | None = None
    folder: str = "missing"
    temporary: TemporaryDisk | None = None
    open_to_all: bool = False
    configured: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_fallback(self) -> bool:
        """Whether our folder on the temporary disk is mounted there."""
        return self.here is not None and self.here.root.endswith(f"/{FALLBACK_FOLDER}")


@dataclass(frozen=True)
class Location:
    """Where the directories are made.

    :ivar kind: MOUNT, TEMPORARY_DISK or DIRECTORY.
    :ivar words: what it is, for a message.
    :ivar bound_from: the folder to be mounted at the mountpoint; empty if none.
    :ivar warnings: what the user should know.
    """

    kind: str
    words: str
    bound_from: str = ""
    warnings: tuple[str, ...] = ()


def look(options: DirectoryOptions, root: Root) -> DirectoryFacts:
    """Read the machine. No command is run."""
    mounts = read_mounts(root)
    here = [mount for mount in mounts if mount.mountpoint == options.mountpoint]
    temporary = find_temporary_disk(root, mounts, read_block_devices(root), options.temporary_mounts)
    return DirectoryFacts(
        here=here[-1] if here else None,
        folder=read_folder(root, options.mountpoint).kind,
        temporary=temporary,
        open_to_all=bool(temporary and temporary.mount and _is_open(root, temporary.mount.mountpoint)),
        configured=configured_mounts(root),
    )


def choose(facts: DirectoryFacts, options: DirectoryOptions, expected: DiskCount | None) -> Location:
    """Return where the directories are made.

    :param expected: how many local disks there must be; needed unless a file system other than our folder is mounted.
    :raises Refused: there is no place: local disks are missing, or no fallback is allowed.
    """
    warnings = _hidden(facts, options)
    if facts.here is not None and not facts.is_fallback:
        return Location(MOUNT, f"{facts.here.filesystem} of {facts.here.source}", warnings=warnings)
    if expected is None or expected.count > 0:
        raise Refused(_lacking(facts, options, expected))
    if facts.folder == "other":
        raise Refused(f"{options.mountpoint} is not a folder. Remove it, or choose another mountpoint.")
    if warnings:
        raise Refused(warnings[0])
    none = f"there are no local NVMe disks here ({expected.origin}: 0)"
    disk = facts.temporary.device if facts.temporary else ""
    on_disk = f"{none}, so it is a slow folder on the temporary disk{f' {disk}' if disk else ''}"
    if facts.here is not None:
        return Location(TEMPORARY_DISK, on_disk)
    notes: list[str] = []
    for kind in options.fallback:
        if kind == DIRECTORY:
            also = f" ({'; '.join(notes)})" if notes else ""
            return Location(DIRECTORY, f"{none}, so it is a slow folder on the operating system's disk{also}")
        problem = _why_not_temporary(facts, options)
        if not problem and facts.temporary and facts.temporary.mount:
            source = f"{facts.temporary.mount.mountpoint}/{FALLBACK_FOLDER}"
            return Location(TEMPORARY_DISK, on_disk, source)
        notes.append(problem)
    only = " or ".join(options.fallback)
    allowed = f"the only allowed fallback is {only}" if only else "no fallback is allowed"
    raise Refused(
        f"{options.mountpoint} is not mounted: {none}, and {'; '.join([allowed, *notes])}. Mount a file system there, "
        f"or allow more fallbacks in scratch_fallback."
    )


def _hidden(facts: DirectoryFacts, options: DirectoryOptions) -> tuple[str, ...]:
    """Return a warning if a later mount would hide the mountpoint."""
    for path, who in facts.configured.items():
        if options.mountpoint.startswith(f"{path}/"):
            return (
                f"mountpoint {options.mountpoint} is below {path}, where {who} mounts a disk, which hides it. "
                f"Choose another, such as /scratch",
            )
    if options.mountpoint.startswith(f"{_HIDDEN_BELOW}/") and facts.here is not None:
        return (
            f"mountpoint {options.mountpoint} is below {_HIDDEN_BELOW}. If the VM size has a temporary disk, "
            f"cloud-init mounts it there and hides the mountpoint. Choose another, such as /scratch",
        )
    return ()


def _lacking(facts: DirectoryFacts, options: DirectoryOptions, expected: DiskCount | None) -> str:
    disks = (
        f"{expected.count} local NVMe disks are expected here ({expected.origin})" if expected else "disks are missing"
    )
    if facts.is_fallback:
        return (
            f"{options.mountpoint} is a folder on the temporary disk, although {disks}. Unmount it, then run "
            f"'hpcnode scratch up'."
        )
    return (
        f"{options.mountpoint} is not mounted, although {disks}, so no fallback is used. Run 'hpcnode scratch status', "
        f"and check that its mountpoint is the same."
    )


def _why_not_temporary(facts: DirectoryFacts, options: DirectoryOptions) -> str:
    temporary = facts.temporary
    if temporary is None:
        return "there is no temporary disk"
    if temporary.mount is None:
        who = f" yet by {temporary.awaited}" if temporary.awaited else "; cloud-init or the Azure agent must mount it"
        return f"the temporary disk {temporary.device} is not mounted{who}"
    if "rw" not in temporary.mount.options:
        return f"the temporary disk at {temporary.mount.mountpoint} is mounted read-only"
    if facts.open_to_all:
        return f"every user may rename files in {temporary.mount.mountpoint}; run chmod o-w on it"
    if facts.folder == "filled":
        return f"{options.mountpoint} contains files, which a mount would hide; empty it to use the temporary disk"
    return ""


def _is_open(root: Root, path: str) -> bool:
    try:
        mode = os.stat(root.at(path)).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)
