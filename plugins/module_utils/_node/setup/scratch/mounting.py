# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Decide about the mount: where, with which options, whose. Pure but for the names of users."""

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

# Options for mount(8), systemd or nobody: the kernel does not list them. Of the others it lists what differs from its
# defaults, so a default that is asked for can only be seen by its opposite not being there.
_FOR_OTHERS = ("x-", "X-", "comment=", "uhelper=")
_UNSEEN = ("defaults", "auto", "noauto", "nofail", "_netdev", "user", "nouser", "users", "owner", "group")
# The kernel takes the number above it, -1, for "leave as it is".
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
    """Return the steps after which ``device`` is mounted as wanted.

    :param mounts: where it is mounted now.
    :param ours: what it is of ours, and may be made anew if its file system turns out to be damaged.
    :param fresh: its file system is new.
    :param adopted: it is not ours: it is mounted where it is not, and left alone otherwise.
    :raises Refused: something is in the way.
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
    # On an adopted array, whose folder it is was decided by somebody else.
    return steps if adopted else [*steps, Step("own", where=options.mountpoint, detail=_owner_words(options))]


def unmount_steps(mounts: Iterable[Mount]) -> list[Step]:
    """Return the steps that undo mounts, the last one first."""
    return [Step("unmount", where=mount.mountpoint) for mount in reversed(list(mounts))]


def check_mountpoint(facts: ScratchFacts, options: ScratchOptions, ours: Set[str]) -> None:
    """Make sure that nothing would be hidden.

    :param ours: kernel names of the devices that may be mounted there.
    :raises Refused: something would.
    """
    here, device = facts.mount_at(options.mountpoint)
    if here is not None:
        if device in ours:
            return
        raise Refused(
            f"{options.mountpoint} is a mount of {here.source} ({here.filesystem}): choose another mountpoint"
            f"{mounted_by(facts, options.mountpoint)}."
        )
    if facts.folder.kind == "other":
        raise Refused(f"{options.mountpoint} is no folder: remove it, or choose another mountpoint.")
    if facts.folder.kind == "filled":
        raise Refused(
            f"{options.mountpoint} is not empty, and the mount would hide what is in it: move that away, or choose "
            f"another mountpoint."
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
    """Make sure that this machine knows owner and group: what is kept for the boot must not fail there.

    :raises Refused: it does not.
    """
    uid_of(options.owner), gid_of(options.group)


def uid_of(owner: str) -> int:
    """Return a user's number.

    :raises Refused: there is no such user.
    """
    try:
        return _number("owner", owner) if owner.isdecimal() else pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise Refused(f"owner: there is no user {owner!r} on this machine.") from None


def gid_of(group: str) -> int:
    """Return a group's number.

    :raises Refused: there is no such group.
    """
    try:
        return _number("group", group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise Refused(f"group: there is no group {group!r} on this machine.") from None


def _number(name: str, text: str) -> int:
    if int(text) > _HIGHEST_ID:
        raise Refused(f"{name}: {text} is no number of a user or group: {_HIGHEST_ID} is the highest.")
    return int(text)


def keep_mounted(options: ScratchOptions, adopted: bool) -> Mapping[str, Any]:
    """Return the mount as it is afterwards, for the diff."""
    mount: dict[str, Any] = {"mountpoint": options.mountpoint, "mount_options": list(options.mount_options)}
    if not adopted:
        mount.update(owner=options.owner, group=options.group, mode=f"{options.mode:04o}")
    return mount


def describe_folder(facts: ScratchFacts, options: ScratchOptions, mount: Mount) -> Mapping[str, Any]:
    """Return the mount as it is, for the diff; what is as wanted in the words of the options."""
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
