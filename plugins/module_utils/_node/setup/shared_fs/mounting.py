# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Mounts of shared file systems as systemd units: read, plan, apply, for the module shared_mounts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ...machine import selinux
from ...machine.config import as_config, read_config
from ...machine.mounts import processes_below, read_fstab, read_mounts
from ...machine.root import Root
from ...machine.run import Result, Run, must
from ...machine.unit_state import read_unit
from ..image.facts import is_running
from ..managed_file import FileChange, change_of
from ..users.facts import read_facts
from .options import LUSTRE, Mount, SharedProblem

UNIT_FOLDER = "/etc/systemd/system"
UNIT_HEADER = "# Written by the module hpcai.azure.shared_mounts, which overwrites it."
_SERVICES = "slurmd.service"


def unit_name(path: str) -> str:
    """Return a path escaped as systemd-escape --path does."""
    relative = path.strip("/")
    escaped = []
    for index, letter in enumerate(relative):
        if letter == "/":
            escaped.append("-")
        elif (letter.isascii() and letter.isalnum()) or letter in ":_" or (letter == "." and index):
            escaped.append(letter)
        else:
            escaped += [f"\\x{byte:02x}" for byte in letter.encode()]
    return "".join(escaped)


def units_of(mount: Mount) -> dict[str, str]:
    """Return the texts of the mount's units, by file name."""
    name = unit_name(mount.path)
    found = {f"{name}.mount": _mount_unit(mount)}
    if mount.automount:
        found[f"{name}.automount"] = _automount_unit(mount)
    return found


def starter(mount: Mount) -> str:
    """Return the name of the unit that is enabled."""
    return f"{unit_name(mount.path)}.{'automount' if mount.automount else 'mount'}"


def _mount_unit(mount: Mount) -> str:
    lines = [
        UNIT_HEADER,
        "[Unit]",
        f"Description=Shared file system {mount.path}",
        "Wants=network-online.target",
        "After=network-online.target",
        # slurmd starts after the attempt to mount, whether it succeeded or not.
        f"Before={_SERVICES}",
        # Each access tries again. With the default limit, systemd would stop trying after five attempts.
        "StartLimitIntervalSec=0",
        "",
        "[Mount]",
        f"What={mount.source}",
        f"Where={mount.path}",
        f"Type={mount.kind}",
        f"Options={','.join(mount.options)}",
        f"TimeoutSec={mount.timeout_s}",
    ]
    if not mount.automount:
        lines += ["", "[Install]", "WantedBy=multi-user.target"]
    return _without_specifiers(lines)


def _automount_unit(mount: Mount) -> str:
    return _without_specifiers(
        [
            UNIT_HEADER,
            "[Unit]",
            f"Description=Shared file system {mount.path}, when it is used",
            f"Before={_SERVICES}",
            "StartLimitIntervalSec=0",
            "",
            "[Automount]",
            f"Where={mount.path}",
            "DirectoryMode=0755",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
    )


def _without_specifiers(lines: list[str]) -> str:
    # A percent sign starts a specifier in a unit file.
    return "".join(f"{line.replace('%', '%%')}\n" for line in lines)


# Read, plan and apply, for the module shared_mounts.

CONFIG = "shared_fs"
RECORD = f"/etc/hpcai/{CONFIG}.json"
HOMES_ON_NFS = "use_nfs_home_dirs"
"""The boolean of SELinux that lets sshd and other confined services use home directories on NFS. It is off by default
on Enterprise Linux, and then sshd cannot read the users' keys (github.com/elasticluster/elasticluster/issues/257)."""
_BOOLEAN_KEY = "selinux_booleans"
"""The booleans that this module has set, and that were off before."""


@dataclass(frozen=True)
class MountPlan:
    """What has to be done.

    :ivar stop: units to stop before their files change.
    :ivar files: units and the record, before and after.
    :ivar enable: units to enable.
    :ivar start: units to start.
    :ivar homes_on_nfs: the new value of the boolean; None if it stays.
    """

    stop: tuple[str, ...]
    files: tuple[FileChange, ...]
    enable: tuple[str, ...]
    start: tuple[str, ...]
    homes_on_nfs: bool | None = None

    @property
    def actions(self) -> list[str]:
        """The changes in words, in order."""
        written = [f"{'write' if file.after is not None else 'remove'} {file.path}" for file in self.files]
        value = self.homes_on_nfs
        setting = [] if value is None else [" ".join(selinux.boolean_command(HOMES_ON_NFS, value))]
        return [
            *(f"stop {name}" for name in self.stop),
            *(written + setting if value else setting + written),
            *(f"enable {name}" for name in self.enable),
            *(f"start {name}" for name in self.start),
        ]


def plan(root: Root, mounts: Sequence[Mount], run: Run, live: bool) -> MountPlan:
    """Return what has to be done.

    :param live: whether to start and stop units too, which is not possible in an image.
    :raises SharedProblem: a mount would hide something, or something else is mounted there.
    """
    units = {f"{UNIT_FOLDER}/{name}": text for mount in mounts for name, text in units_of(mount).items()}
    ours = [path for path in _written_units(root) if path not in units]
    texts: dict[str, str | None] = {**units, **dict.fromkeys(ours)}
    changes = {path: change_of(root.at(path), text) for path, text in texts.items()}
    for mount in mounts:
        _check(root, mount, changes)
    files = [change for change in changes.values() if change.changes]
    homes_on_nfs, ours_to_undo = _boolean(root, mounts)
    record = change_of(root.at(RECORD), as_config(_record(mounts, ours_to_undo)) if mounts else None)
    stop: list[str] = []
    if live:
        gone = {os.path.basename(change.path) for change in files if change.before is not None}
        # Stop the automount too, which would mount the old file system again on an early access. Stop it last, because
        # stopping an automount detaches what is mounted there, even if it is in use (automount.c).
        gone |= {f"{name[: -len('.mount')]}.automount" for name in gone if name.endswith(".mount")}
        stop = sorted(
            (name for name in gone if _is_on(name, run)), key=lambda name: (name.endswith(".automount"), name)
        )
    starters = [starter(mount) for mount in mounts]
    enable = [name for name in starters if not _is_enabled(root, name)]
    start = [name for name in starters if name in stop or not _is_on(name, run)] if live else []
    return MountPlan(
        tuple(stop), (*files, *([record] if record.changes else [])), tuple(enable), tuple(start), homes_on_nfs
    )


def _boolean(root: Root, mounts: Sequence[Mount]) -> tuple[bool | None, bool]:
    """Return the value that the boolean must get, if any, and whether this module must reset it later.

    In an image that is not booted, the boolean would be that of the running machine.
    """
    recorded = HOMES_ON_NFS in ((read_config(root, CONFIG) or {}).get(_BOOLEAN_KEY) or [])
    is_on = selinux.boolean(HOMES_ON_NFS, root) if is_running(root) else None
    if is_on is None:
        return None, recorded
    if any(mount.kind != LUSTRE for mount in mounts):
        return (None if is_on else True), recorded or not is_on
    return (False if recorded and is_on else None), False


def apply(root: Root, made: MountPlan, run: Run, live: bool) -> None:
    """Make the changes.

    :raises SharedProblem: the mounted file system is in use.
    :raises CommandFailed: systemd refused.
    """
    for number, name in enumerate(made.stop):
        if _stop(root, name, run).rc != 0:
            problem = _in_use(root, name)
            # Their units are still the old ones. Without them, users would write to the folders below the mounts.
            for stopped in reversed(made.stop[:number]):
                run(["systemctl", "start", stopped])
            raise SharedProblem(problem)
    for file in made.files:
        if file.after is None and file.path.startswith(root.at(UNIT_FOLDER)):
            must(run(["systemctl", "disable", os.path.basename(file.path)]))
    # The record says what to undo. So it is there before the boolean is set, and until it is reset.
    if made.homes_on_nfs is False:
        selinux.set_boolean(HOMES_ON_NFS, False, run)
    for file in made.files:
        file.apply()
    if made.homes_on_nfs:
        selinux.set_boolean(HOMES_ON_NFS, True, run)
    if live and made.files:
        must(run(["systemctl", "daemon-reload"]))
    if made.enable:
        must(run(["systemctl", "enable", *made.enable]))
    for name in made.start:
        run(["systemctl", "reset-failed", name])
        must(run(["systemctl", "start", name]))


def unreachable(mounts: Sequence[Mount], run: Run) -> list[str]:
    """Mount each file system that is not mounted; return one line for each failure."""
    problems = []
    for mount in mounts:
        name = f"{unit_name(mount.path)}.mount"
        if read_unit(name, run).is_active:
            continue
        answer = run(["systemctl", "start", name])
        if answer.rc != 0:
            problems.append(f"{mount.source} cannot be mounted at {mount.path}: {_last_words(name, run)}")
    return problems


def _written_units(root: Root) -> list[str]:
    """Return the units that this module wrote."""
    names = [name for name in root.entries(UNIT_FOLDER) if name.endswith((".mount", ".automount"))]
    paths = [f"{UNIT_FOLDER}/{name}" for name in names]
    return [path for path in paths if (root.text(path) or "").startswith(UNIT_HEADER)]


def _check(root: Root, mount: Mount, changes: dict[str, FileChange]) -> None:
    if mount.path in read_fstab(root):
        raise SharedProblem(
            f"{mount.path} is in /etc/fstab. Remove it there or from the mounts, because only one can mount it"
        )
    unit_path = f"{UNIT_FOLDER}/{unit_name(mount.path)}.mount"
    before = changes[unit_path].before
    if before is not None and not before.startswith(UNIT_HEADER):
        raise SharedProblem(
            f"{unit_path} was not written by this module. Remove it ('systemctl revert'), or use another path"
        )
    mounted = [found for found in read_mounts(root) if found.mountpoint == mount.path and found.filesystem != "autofs"]
    if mounted and before is None:
        raise SharedProblem(
            f"{mounted[-1].source} is mounted at {mount.path}, but not by this module. Unmount it, or use another path"
        )
    if mount.hide:
        return
    known = (read_config(root, "users") or {}).get("users") or {}
    hidden = [
        account
        for account in read_facts(root).accounts
        if account.is_person
        and account.name not in known
        and f"{account.home.rstrip('/')}/".startswith(f"{mount.path}/")
    ]
    if hidden:
        names = ", ".join(account.name for account in hidden)
        raise SharedProblem(
            f"a mount at {mount.path} would hide the home of {names}, whose ssh keys are missing when the server does "
            f"not answer. Mount it elsewhere, such as {mount.path.rstrip('/')}-shared or /shared, or set hide for it"
        )


def _record(mounts: Sequence[Mount], with_boolean: bool) -> dict[str, object]:
    shown = [{"path": mount.path, "source": mount.source, "type": mount.kind} for mount in mounts]
    return {"mounts": shown, **({_BOOLEAN_KEY: [HOMES_ON_NFS]} if with_boolean else {})}


def _is_on(name: str, run: Run) -> bool:
    return read_unit(name, run).active in ("active", "activating", "reloading")


def _is_enabled(root: Root, name: str) -> bool:
    return root.exists(f"{UNIT_FOLDER}/multi-user.target.wants/{name}")


def _stop(root: Root, name: str, run: Run) -> Result:
    """Stop a unit. A mount is unmounted instead, because systemd would also stop the services that require its unit."""
    path = _mounted_at(root, name)
    return run(["umount", path] if path and name.endswith(".mount") else ["systemctl", "stop", name])


def _in_use(root: Root, name: str) -> str:
    path = _mounted_at(root, name) or name
    who = ", ".join(processes_below(root, path)) or "unknown processes"
    return f"{path} must change, but is in use by {who}. Drain the node or stop them, then run this again"


def _mounted_at(root: Root, name: str) -> str:
    """Return where a unit's file system is mounted; empty if it is not."""
    unit = name.rpartition(".")[0]
    mounts = (mount for mount in read_mounts(root) if mount.filesystem != "autofs")
    return next((mount.mountpoint for mount in mounts if unit_name(mount.mountpoint) == unit), "")


def _last_words(name: str, run: Run) -> str:
    journal = run(["journalctl", "--unit", name, "--no-pager", "--quiet", "--output=cat", "--lines=8"]).stdout
    lines = [line.strip() for line in journal.splitlines() if line.strip() and "Failed to mount" not in line]
    useful = [line for line in lines if "mount" in line.lower()]
    return (useful or lines or ["no message in the journal; check that the client's packages are installed"])[-1]
