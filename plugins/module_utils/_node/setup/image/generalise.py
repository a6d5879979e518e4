# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Remove a machine's own data before others are made from it: plan, stop services that would rewrite it, apply."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import json
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.atomic import write_file
from ...machine.mounts import Mount, read_mounts
from ...machine.root import Root
from ...machine.run import Run
from ..users.facts import NO_PASSWORD, SHADOW, Account, read_accounts
from .facts import is_running
from .identity import HOME, ITEMS, PASSWORDS, Item

_DISK_FILESYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "zfs", "overlay", "fuse.fuse-overlayfs")
_SEVERAL_ROOTS = ("btrfs",)
"""File systems that often have a subvolume mounted, which is not a bind mount."""


class MountsUnknown(RuntimeError):
    """The mounts are not known, so it is not known what may be removed."""


class ImageMounts:
    """Shows by the mounts whether a path belongs to the image.

    A folder of the host that is mounted into an image while it is made (a package cache, /etc/resolv.conf) must be
    left unchanged, whatever it contains, and so must data on another machine.
    """

    def __init__(self, root: Root, mounts: Sequence[Mount]) -> None:
        self._root = root
        # A later mount hides an earlier one at the same place.
        self._mounts = {mount.mountpoint.rstrip("/") or "/": mount for mount in mounts}

    def foreign(self, path: str) -> str | None:
        """Return why the real path ``path`` does not belong to the image, in a few words; None if it does."""
        top = os.path.realpath(self._root.path)
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if os.path.commonpath([top, real]) != top:
            return f"it is outside of the image, at {real}"
        while real != top:
            mount = self._mounts.get(real)
            if mount:
                return self._why(mount)
            real = os.path.dirname(real)
        return None

    def has_mounts_below(self, path: str) -> bool:
        """Whether anything is mounted below the folder at the real path ``path``."""
        return any(point.startswith(f"{path.rstrip('/')}/") for point in self._mounts)

    def _why(self, mount: Mount) -> str | None:
        if mount.filesystem not in _DISK_FILESYSTEMS:
            return f"{mount.filesystem} is mounted at {mount.mountpoint}"
        if mount.root != "/" and mount.filesystem not in _SEVERAL_ROOTS:
            return f"{mount.mountpoint} is a bind mount"
        return None


def read_image_mounts(root: Root) -> ImageMounts:
    """Return the mounts of the image below ``root``.

    :raises MountsUnknown: the kernel does not list the mounts.
    """
    # The mounts of this machine, wherever the image is: in a chroot, the kernel lists the mounts inside it.
    mounts = read_mounts(Root("/"))
    if not mounts and not os.path.exists("/proc/self/mountinfo"):
        raise MountsUnknown(
            "Cannot read what is mounted into this image, because /proc/self/mountinfo is missing. Mount /proc in it."
        )
    return ImageMounts(root, mounts)


REMOVE, EMPTY, FORGET = "remove", "empty", "forget"
_NODE = "/etc/hpcai/node.json"
_SELINUX_LABEL = "security.selinux"
_ITS_SIZE = "vm_size"
"""The VM size of the machine that bakes the image. The file's other keys, sizes described by hand, stay."""
# messages.1, syslog.2.gz, dmesg.0, cloud-init.log-20260101, secure-20260101.gz
_ROTATED = re.compile(r"\.\d+$|[.-]\d{8}$|\.(?:gz|xz|bz2|zst|old)$|\.journal~?$")


@dataclass(frozen=True)
class Action:
    """What is done to one path.

    :ivar item: name of its ``Item``.
    :ivar kind: REMOVE, EMPTY, or FORGET for a settings file that loses one key.
    :ivar path: its path on the machine, relative to the root.
    """

    item: str
    kind: str
    path: str


@dataclass(frozen=True)
class GeneralisePlan:
    """What must be removed.

    :ivar actions: in order; a folder includes all of its content.
    :ivar locked: accounts whose password is removed.
    :ivar left_alone: (path, reason) of what was found but does not belong to the image.
    """

    actions: tuple[Action, ...]
    locked: tuple[str, ...]
    left_alone: tuple[tuple[str, str], ...]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.actions or self.locked)


def plan(
    root: Root, mounts: ImageMounts, keep: Collection[str] = (), extra: Sequence[str] = (), spared: Collection[str] = ()
) -> GeneralisePlan:
    """Return what must be removed. Changes nothing.

    :param keep: names of items that stay.
    :param extra: further patterns to remove.
    :param spared: real paths that this process needs; nothing below them is touched.
    """
    walk = _Walk(root, mounts, spared)
    people = [account for account in read_accounts(root) if account.uid == 0 or account.is_person]
    for item in (Item("extra", "further patterns from the options", remove=tuple(extra)), *ITEMS):
        if item.name not in keep:
            walk.visit(item, [_home_of(account) for account in people])
    if "cluster" not in keep and _ITS_SIZE in _settings(root):
        walk.actions[_NODE] = Action("cluster", FORGET, _NODE)
    locked = () if PASSWORDS in keep else tuple(account.name for account in people if account.has_password)
    return GeneralisePlan(tuple(walk.actions.values()), locked, tuple(sorted(walk.left_alone.items())))


def _home_of(account: Account) -> str:
    # An account whose home is / must not cause the whole file system to be matched.
    home = os.path.normpath(account.home or "/")
    return home if home.startswith("/") and home.strip("/") else "/nonexistent"


class _Walk:
    def __init__(self, root: Root, mounts: ImageMounts, spared: Collection[str]) -> None:
        self.root, self.mounts = root, mounts
        self.spared = {os.path.realpath(path) for path in spared}
        self.actions: dict[str, Action] = {}
        self.left_alone: dict[str, str] = {}

    def visit(self, item: Item, homes: Sequence[str]) -> None:
        for path in self._matching(item.remove, homes):
            self._remove(item, path)
        for path in self._matching(item.empty, homes):
            self._empty(item, path)
        for folder in self._folders(item.clear, homes):
            for entry in sorted(os.listdir(folder)):
                if not any(fnmatch.fnmatch(entry, name) for name in item.spare):
                    self._remove(item, os.path.join(folder, entry))
        for folder in self._folders(item.files, homes):
            for path in self._files_below(folder):
                self._remove(item, path)
        for folder in self._folders(item.logs, homes):
            for path in self._files_below(folder):
                if _ROTATED.search(path):
                    self._remove(item, path)
                else:
                    self._empty(item, path)

    def _matching(self, patterns: Sequence[str], homes: Sequence[str]) -> Iterator[str]:
        top = glob.escape(self.root.path.rstrip("/"))
        for pattern in patterns:
            stems = homes if pattern.startswith(HOME) else ("",)
            for stem in stems:
                found = glob.glob(f"{top}{glob.escape(stem)}{pattern[len(HOME) :] if stem else pattern}")
                yield from sorted(path for path in found if os.path.lexists(path))

    def _folders(self, patterns: Sequence[str], homes: Sequence[str]) -> Iterator[str]:
        for path in self._matching(patterns, homes):
            # Links to folders too, within the image: each entry is checked by its real path.
            if os.path.isdir(path) and self._is_ours(path):
                yield path

    def _files_below(self, folder: str) -> Iterator[str]:
        for here, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if self._is_ours(os.path.join(here, name)))
            yield from (os.path.join(here, name) for name in sorted(files))

    def _is_ours(self, path: str) -> bool:
        reason = self.mounts.foreign(path)
        if reason:
            self._leave(path, reason)
        return not reason

    def _leave(self, path: str, reason: str) -> None:
        # Data on a tmpfs is in no image, so it needs no report.
        if not reason.startswith("tmpfs"):
            self.left_alone[self._shown(path)] = reason

    def _remove(self, item: Item, found_path: str) -> None:
        if not self._is_ours(found_path):
            return
        real = os.path.join(os.path.realpath(os.path.dirname(found_path)), os.path.basename(found_path))
        if any(path == real or path.startswith(f"{real}/") for path in self.spared):
            # This process runs from there: remove everything beside its own files.
            if real not in self.spared:
                for entry in sorted(os.listdir(found_path)):
                    self._remove(item, os.path.join(found_path, entry))
        elif self.mounts.has_mounts_below(real):
            self._leave(found_path, "something is mounted in it")
        else:
            self._add(item, REMOVE, found_path)

    def _empty(self, item: Item, path: str) -> None:
        about = os.lstat(path)
        # A link belongs to the distribution (/etc/resolv.conf of systemd-resolved); sockets and pipes have no content.
        if stat.S_ISREG(about.st_mode) and about.st_size and self._is_ours(path):
            self._add(item, EMPTY, path)

    def _add(self, item: Item, kind: str, path: str) -> None:
        shown = self._shown(path)
        above = shown
        while above != "/":
            above = os.path.dirname(above)
            if above in self.actions:
                return
        self.actions.setdefault(shown, Action(item.name, kind, shown))

    def _shown(self, path: str) -> str:
        top = self.root.path.rstrip("/")
        return path[len(top) :] if top and path.startswith(f"{top}/") else path


def apply(root: Root, planned: GeneralisePlan) -> None:
    """Carry out the plan. It is not an error if something is already gone.

    :raises OSError: something could not be removed; the message names it.
    """
    for action in planned.actions:
        path = root.at(action.path)
        with contextlib.suppress(FileNotFoundError):
            if action.kind == EMPTY:
                os.truncate(path, 0)
            elif action.kind == FORGET:
                kept = {key: value for key, value in _settings(root).items() if key != _ITS_SIZE}
                write_file(path, json.dumps(kept, indent=2, sort_keys=True) + "\n")
            elif os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
    if planned.locked:
        _lock_passwords(root, planned.locked)


def _lock_passwords(root: Root, names: Collection[str]) -> None:
    """Remove the passwords of these accounts; owner and permissions of the file stay.

    :raises OSError: the file cannot be written; then it is unchanged.
    """
    path = os.path.realpath(root.at(SHADOW))
    lines = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        about = os.fstat(file.fileno())
        for line in file:
            fields = line.split(":")
            if len(fields) > 2 and fields[0] in names:
                fields[1] = NO_PASSWORD
            lines.append(":".join(fields))
    beside = f"{path}.hpcai"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)
        file.flush()
        os.fchown(file.fileno(), about.st_uid, about.st_gid)
        os.fchmod(file.fileno(), about.st_mode & 0o7777)
        # With SELinux, a new file in /etc does not get the label of the shadow file.
        with contextlib.suppress(OSError):
            os.setxattr(beside, _SELINUX_LABEL, os.getxattr(path, _SELINUX_LABEL))
        os.fsync(file.fileno())
    os.replace(beside, path)


def _settings(root: Root) -> dict[str, Any]:
    try:
        found = json.loads(root.text(_NODE) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def as_diff(planned: GeneralisePlan) -> dict[str, str]:
    """Return the change in the form of Ansible's diff: all paths before, and those that stay, emptied, after."""
    remains = {EMPTY: "empty", FORGET: f"without {_ITS_SIZE}"}
    kept = [f"{action.path} ({remains[action.kind]})" for action in planned.actions if action.kind in remains]
    return {
        "before": "".join(f"{action.path}\n" for action in planned.actions)
        + "".join(f"password of {name}\n" for name in planned.locked),
        "after": "".join(f"{line}\n" for line in kept),
    }


# Keep a running machine from writing again what is being removed.

_RUNNING_STATES = ("active", "activating", "reloading")


def writers(root: Root, keep: Collection[str], run: Run) -> tuple[str, ...]:
    """Return the running units that would write removed files again; none if the image is not booted.

    :param keep: names of items that stay.
    """
    if not _is_running(root):
        return ()
    units = [unit for item in ITEMS if item.name not in keep for unit in item.stop]
    # One line for each unit, in order; "inactive" for those that systemd does not know.
    states = run(["systemctl", "is-active", *units]).stdout.split()
    return tuple(unit for unit, state in zip(units, states) if state in _RUNNING_STATES)


def stop_writers(root: Root, units: Sequence[str], keep: Collection[str], run: Run) -> None:
    """Stop these units, and let the journal write to memory only. A unit that does not stop is no reason to fail."""
    if units:
        run(["systemctl", "stop", *units])
    if _is_running(root) and "logs" not in keep:
        run(["journalctl", "--relinquish-var"])


def _is_running(root: Root) -> bool:
    return root.is_this_machine and is_running(root)
