# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Plan the mount: where, with which options, and with which owner. Pure except that it looks up users and groups."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from ...machine.mounts import Mount
from .disks import Existing, Refused, mounted_by
from .facts import ScratchFacts
from .options import ScratchOptions
from .steps import Step

# These options are for mount(8) or systemd, or have no effect; the kernel does not list them. For other options, the
# kernel lists only differences from its defaults, so a default is in force if its opposite is not listed.
_FOR_OTHERS = ("x-", "X-", "comment=", "uhelper=")
_UNSEEN = ("defaults", "auto", "noauto", "nofail", "_netdev", "user", "nouser", "users", "owner", "group")
# One less than the largest number: the kernel takes that one, -1, as "leave the owner unchanged".
_HIGHEST_ID = 2**32 - 2
_OPPOSITES = {
    "rw": "ro",
    "exec": "noexec",
    "dev": "nodev",
    "suid": "nosuid",
    "async": "sync",
    "diratime": "nodiratime",
    "nodiscard": "discard",
    "nolazytime": "lazytime",
}


def mount_steps(
    facts: ScratchFacts,
    options: ScratchOptions,
    device: str,
    mounts: Sequence[Mount],
    filesystem: str,
    ours: Existing | None = None,
    fresh: bool = False,
    adopted: bool = False,
) -> list[Step]:
    """Return the steps that mount ``device`` as the options say.

    :param mounts: where it is mounted now.
    :param ours: our array or disk; its file system may be made again if it turns out to be damaged.
    :param fresh: its file system is new.
    :param adopted: it is not ours: it is mounted if it is not mounted yet, and otherwise left unchanged.
    :raises Refused: something blocks the mount.
    """
    if not adopted:
        check_names(options)
    here, _device = facts.mount_at(options.mountpoint)
    mine = [mount for mount in mounts if mount.root == "/"]
    if here is not None and here in mine:
        return [] if adopted else [*_remount(facts, options, device, here), *_owner_steps(facts, options)]
    steps = unmount_steps(mine)
    if not fresh:
        check_mountpoint(facts, options, {device})
    mount_options = ",".join(options.mount_options) or "defaults"
    members, uuid = (ours.members, ours.uuid) if ours else ((), "")
    detail = f"{filesystem} {mount_options}"
    steps.append(Step("mount", device, members, options.mountpoint, detail, uuid))
    # The owner of an adopted array's folder is left unchanged.
    return steps if adopted else [*steps, Step("own", where=options.mountpoint, detail=_owner_words(options))]


def unmount_steps(mounts: Iterable[Mount]) -> list[Step]:
    """Return the steps that undo mounts, in reverse order."""
    return [Step("unmount", where=mount.mountpoint) for mount in reversed(list(mounts))]


def check_mountpoint(facts: ScratchFacts, options: ScratchOptions, ours: Set[str]) -> None:
    """Make sure that the mount would hide nothing.

    :param ours: kernel names of the devices that may be mounted there.
    :raises Refused: the mount would hide something.
    """
    here, device = facts.mount_at(options.mountpoint)
    if here is not None:
        if device in ours:
            return
        raise Refused(
            f"{options.mountpoint} is a mount of {here.source} ({here.filesystem}). Choose another mountpoint"
            f"{mounted_by(facts, options.mountpoint)}."
        )
    if facts.folder.kind == "other":
        raise Refused(f"{options.mountpoint} is not a folder. Remove it, or choose another mountpoint.")
    if facts.folder.kind == "filled":
        raise Refused(
            f"{options.mountpoint} is not empty, and the mount would hide its content. Move the content away, or "
            f"choose another mountpoint."
        )


def _remount(facts: ScratchFacts, options: ScratchOptions, device: str, mount: Mount) -> list[Step]:
    recorded = facts.record.get("mount_options") if facts.record.get("number") == mount.number else None
    if not _differ(mount, options, recorded):
        return []
    return [
        Step("remount", device=device, where=options.mountpoint, detail=",".join(options.mount_options) or "defaults")
    ]


def _differ(mount: Mount, options: ScratchOptions, recorded: object) -> bool:
    in_force = set(mount.options)
    if "ro" in in_force and "ro" not in options.mount_options:
        return True
    if recorded is not None:
        return recorded != list(options.mount_options)
    return any(not _is_in_force(option, in_force) for option in options.mount_options)


def _is_in_force(option: str, options: set[str]) -> bool:
    if option in options or option in _UNSEEN or option.startswith(_FOR_OTHERS):
        return True
    return option in _OPPOSITES and _OPPOSITES[option] not in options


def _owner_steps(facts: ScratchFacts, options: ScratchOptions) -> list[Step]:
    folder = facts.folder
    if (folder.uid, folder.gid, folder.mode) == (uid_of(options.owner), gid_of(options.group), options.mode):
        return []
    return [Step("own", where=options.mountpoint, detail=_owner_words(options))]


def _owner_words(options: ScratchOptions) -> str:
    return f"{options.owner}:{options.group} {options.mode:04o}"


def check_names(options: ScratchOptions) -> None:
    """Make sure that owner and group exist on this machine, so that the settings cannot fail at the next boot.

    :raises Refused: one of them does not exist.
    """
    uid_of(options.owner), gid_of(options.group)


def uid_of(owner: str) -> int:
    """Return a user's uid.

    :raises Refused: there is no such user.
    """
    try:
        return _number("owner", owner) if owner.isdecimal() else pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise Refused(f"owner: there is no user {owner!r} on this machine.") from None


def gid_of(group: str) -> int:
    """Return a group's gid.

    :raises Refused: there is no such group.
    """
    try:
        return _number("group", group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise Refused(f"group: there is no group {group!r} on this machine.") from None


def _number(name: str, text: str) -> int:
    if int(text) > _HIGHEST_ID:
        raise Refused(f"{name}: {text} is above the highest id, {_HIGHEST_ID}.")
    return int(text)


def keep_mounted(options: ScratchOptions, adopted: bool) -> Mapping[str, Any]:
    """Return the mount after the change, for the diff."""
    mount: dict[str, Any] = {"mountpoint": options.mountpoint, "mount_options": list(options.mount_options)}
    if not adopted:
        mount.update(owner=options.owner, group=options.group, mode=f"{options.mode:04o}")
    return mount


def describe_folder(facts: ScratchFacts, options: ScratchOptions, mount: Mount) -> Mapping[str, Any]:
    """Return the mount as it is, for the diff; values that match the options are written as the options write them."""
    folder = facts.folder
    recorded = facts.record.get("mount_options") if facts.record.get("number") == mount.number else None
    same = not _differ(mount, options, recorded)
    described: dict[str, Any] = {"mount_options": list(options.mount_options if same else mount.options)}
    if mount.mountpoint == options.mountpoint:
        described.update(
            owner=options.owner if folder.uid == uid_of(options.owner) else str(folder.uid),
            group=options.group if folder.gid == gid_of(options.group) else str(folder.gid),
            mode=f"{folder.mode:04o}",
        )
    return described
