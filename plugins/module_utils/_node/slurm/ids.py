# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The accounts slurm and munge, with the same ids on every machine, because Slurm and NFS compare them."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..machine.owners import any_slurmstepd
from ..machine.root import Root
from ..machine.run import Run, must

PATHS = {
    "munge": ("/etc/munge", "/var/lib/munge", "/var/log/munge", "/run/munge"),
    "slurm": ("/etc/slurm", "/var/lib/slurm", "/var/log/slurm", "/var/spool/slurm", "/run/slurm"),
}
"""The folders with files of each account."""
SERVICES = ("slurmctld", "slurmdbd", "slurmd", "sackd", "slurmrestd", "munge")
"""Services that run as one of the accounts or communicate with one that does, in the order in which they are stopped.
"""
NO_LOGIN = "/usr/sbin/nologin"


class CannotChange(RuntimeError):
    """The ids cannot be changed; the message says what to do."""


@dataclass(frozen=True)
class Account:
    """An account with a group of the same name."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Facts:
    """The current state.

    :ivar users: uid and primary gid by name, of the accounts.
    :ivar groups: gid by name, of the accounts' groups.
    :ivar uid_owners: the owner of each uid of the accounts.
    :ivar gid_owners: the owner of each gid of the accounts.
    :ivar has_steps: whether a job runs here.
    """

    users: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    uid_owners: Mapping[int, str] = field(default_factory=dict)
    gid_owners: Mapping[int, str] = field(default_factory=dict)
    has_steps: bool = False


@dataclass(frozen=True)
class Plan:
    """What to do, in this order.

    :ivar moved: accounts that exist with other ids. Their services are stopped, and their files get the new ids before
        the account does, so that the next run can complete an interrupted one.
    :ivar commands: commands that create or change accounts and groups.
    """

    moved: tuple[Account, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()


def read_facts(accounts: Sequence[Account], root: Root) -> Facts:
    """Read the current state from the machine's account databases, local or remote."""
    users, groups, uid_owners, gid_owners = {}, {}, {}, {}
    for account in accounts:
        for user in (_user(account.name), _user(account.uid)):
            if user:
                uid_owners[user.pw_uid] = user.pw_name
                if user.pw_name == account.name:
                    users[account.name] = user.pw_uid, user.pw_gid
        for group in (_group(account.name), _group(account.gid)):
            if group:
                gid_owners[group.gr_gid] = group.gr_name
                if group.gr_name == account.name:
                    groups[account.name] = group.gr_gid
    steps = any_slurmstepd(root)
    return Facts(users, groups, uid_owners, gid_owners, steps)


def _user(name: str | int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name) if isinstance(name, str) else pwd.getpwuid(name)
    except KeyError:
        return None


def _group(name: str | int) -> grp.struct_group | None:
    try:
        return grp.getgrnam(name) if isinstance(name, str) else grp.getgrgid(name)
    except KeyError:
        return None


def plan(facts: Facts, accounts: Sequence[Account]) -> Plan:
    """Return what gives the accounts their ids. Pure.

    :raises CannotChange: an id belongs to another account, or ids must change while a job runs here.
    """
    moved: list[Account] = []
    commands: list[tuple[str, ...]] = []
    for account in accounts:
        name = account.name
        for kind, number, owners in (("uid", account.uid, facts.uid_owners), ("gid", account.gid, facts.gid_owners)):
            owner = owners.get(number)
            if owner not in (None, name):
                raise CannotChange(
                    f"{kind} {number} for {name} already belongs to {owner} on this machine. Set slurm_uid, "
                    "slurm_gid, slurm_munge_uid and slurm_munge_gid to ids that are free on every machine."
                )
        user, group = facts.users.get(name), facts.groups.get(name)
        if group is None:
            commands.append(("groupadd", "--system", "--gid", str(account.gid), name))
        elif group != account.gid:
            commands.append(("groupmod", "--gid", str(account.gid), name))
        if user is None:
            words = ["--uid", str(account.uid), "--gid", name, "--home-dir", "/nonexistent", "--shell", NO_LOGIN]
            commands.append(("useradd", "--system", "--no-create-home", *words, name))
        elif user != (account.uid, account.gid):
            commands.append(("usermod", "--uid", str(account.uid), "--gid", name, name))
        if (user and user != (account.uid, account.gid)) or (group is not None and group != account.gid):
            moved.append(account)
    if moved and facts.has_steps:
        names = " and ".join(f"{account.name} ({_ids(facts, account)})" for account in moved)
        raise CannotChange(
            f"The ids of {names} differ from the cluster's, and cannot change while a job runs on this machine. "
            "Drain the node, wait until it is empty, and run the playbook again, or give it a new image."
        )
    return Plan(tuple(moved), tuple(commands))


def _ids(facts: Facts, account: Account) -> str:
    uid, gid = facts.users.get(account.name, (None, None))
    return f"{uid}:{facts.groups.get(account.name, gid)} instead of {account.uid}:{account.gid}"


def actions(made: Plan) -> list[str]:
    """Return the plan in words."""
    given_away = [f"give the files of {account.name} to {account.uid}:{account.gid}" for account in made.moved]
    return [*given_away, *(" ".join(command) for command in made.commands)]


def apply(made: Plan, facts: Facts, root: Root, run: Run, more_paths: Sequence[str] = ()) -> None:
    """Apply the plan. Services that ran before run again afterwards.

    :param more_paths: further folders with files of the accounts, such as a state folder that the site has chosen.
    :raises CommandFailed: an account could not be created or changed.
    :raises OSError: a file's owner could not be changed.
    """
    running: list[str] = []
    if made.moved:
        running = [name for name in SERVICES if run(["systemctl", "is-active", "--quiet", name]).rc == 0]
        for name in running:
            must(run(["systemctl", "stop", name]))
    for account in made.moved:
        uid_before, gid_before = facts.users.get(account.name, (None, None))
        gid_before = facts.groups.get(account.name, gid_before)
        for path in (*PATHS.get(account.name, ()), *more_paths):
            give(root.at(path), {uid_before: account.uid}, {gid_before: account.gid})
    for command in made.commands:
        must(run(command))
    for name in reversed(running):
        must(run(["systemctl", "start", name]))


def give(path: str, uids: Mapping[int | None, int], gids: Mapping[int | None, int]) -> None:
    """Change the ids of everything at and below the path, if they are among the changed ones. Links are not followed.

    :raises OSError: an owner could not be changed.
    """
    for entry in _below(path):
        status = os.lstat(entry)
        uid, gid = uids.get(status.st_uid, status.st_uid), gids.get(status.st_gid, status.st_gid)
        if (uid, gid) != (status.st_uid, status.st_gid):
            os.lchown(entry, uid, gid)


def _below(path: str) -> Iterator[str]:
    if not os.path.lexists(path):
        return
    yield path
    if os.path.islink(path):
        return
    for folder, folders, files in os.walk(path):
        yield from (os.path.join(folder, name) for name in (*folders, *files))
