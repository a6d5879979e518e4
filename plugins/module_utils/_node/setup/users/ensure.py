# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Give the machine the wanted accounts: look, plan, run the commands, record. The way of the module cluster_users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...machine.config import as_config
from ...machine.root import Root
from ...machine.run import Run, must
from ..managed_file import FileChange, change_of
from . import homes
from .facts import NO_PASSWORD, Account, AccountFacts, read_facts
from .options import Group, User, UserOptions, UserProblem


@dataclass(frozen=True)
class Step:
    """One command, and in words what it does."""

    words: str
    command: tuple[str, ...]


def plan(facts: AccountFacts, options: UserOptions) -> tuple[Step, ...]:
    """Return what is to be done, in its order.

    :raises UserProblem: a name or a number is somebody else's, or an account has other numbers. All of them are named.
    """
    problems: list[str] = []
    groups = [*options.groups, *_private_groups(facts, options)]
    for group in groups:
        problems += _group_problems(facts, group)
    for user in options.users:
        problems += _user_problems(facts, user, {group.name for group in groups if group.present} | set(facts.groups))
    if problems:
        raise UserProblem("; ".join(problems))
    steps = [_add_group(group) for group in groups if group.present and group.name not in facts.groups]
    managed = {group.name for group in options.groups}
    for user in options.users:
        account = facts.account(user.name)
        if not user.present:
            steps += [Step(f"remove user {user.name}, whose files stay", ("userdel", user.name))] if account else []
        elif account is None:
            steps.append(_add_user(user))
        else:
            steps += _adapt(facts, user, account, managed)
    for group in options.groups:
        if not group.present and group.name in facts.groups:
            steps.append(Step(f"remove group {group.name}", ("groupdel", group.name)))
    return tuple(steps)


def _private_groups(facts: AccountFacts, options: UserOptions) -> list[Group]:
    """Return primary groups that nobody lists and that are not there: they are called as their user."""
    known = {group.gid for group in options.groups if group.present} | set(facts.groups.values())
    found: dict[int, Group] = {}
    for user in options.users:
        if user.present and user.gid not in known:
            found.setdefault(user.gid, Group(user.name, user.gid))
    return list(found.values())


def _group_problems(facts: AccountFacts, group: Group) -> list[str]:
    gid = facts.groups.get(group.name)
    if gid is not None and gid != group.gid:
        return [
            f"group {group.name} is there with gid {gid} and wanted with {group.gid}: its files would change hands. "
            f"Want {gid}, or rename or remove the group on this machine ('groupdel {group.name}')"
        ]
    other = facts.group_of(group.gid)
    if group.present and gid is None and other:
        return [f"gid {group.gid} is wanted for group {group.name} and belongs to group {other}: want another number"]
    return []


def _user_problems(facts: AccountFacts, user: User, groups: set[str]) -> list[str]:
    account, other = facts.account(user.name), facts.account_of(user.uid)
    if account and account.uid != user.uid:
        return [
            f"user {user.name} is there with uid {account.uid} and wanted with {user.uid}: its files and jobs would be "
            f"nobody's. Want {account.uid}, or move the account by hand on this machine while it has no processes "
            f"('usermod --uid {user.uid} {user.name}', then give it its files outside {account.home})"
        ]
    if not user.present:
        return []
    if other and not account:
        return [f"uid {user.uid} is wanted for user {user.name} and belongs to user {other.name}: want another number"]
    problems = []
    if account and account.gid != user.gid:
        problems.append(
            f"user {user.name} is there with gid {account.gid} and wanted with {user.gid}: want {account.gid}, or run "
            f"'usermod --gid {user.gid} {user.name}' on this machine"
        )
    lacking = [name for name in user.groups if name not in groups]
    if lacking:
        problems.append(f"user {user.name} is to be in {', '.join(lacking)}, which is no group: add it to the groups")
    return problems


def _add_group(group: Group) -> Step:
    return Step(f"add group {group.name} ({group.gid})", ("groupadd", "--gid", str(group.gid), group.name))


def _add_user(user: User) -> Step:
    options = ["--uid", str(user.uid), "--gid", str(user.gid), "--home-dir", user.home, "--no-create-home"]
    options += ["--shell", user.shell, "--comment", user.comment, "--password", NO_PASSWORD]
    if user.groups:
        options += ["--groups", ",".join(user.groups)]
    return Step(f"add user {user.name} ({user.uid}:{user.gid})", ("useradd", *options, user.name))


def _adapt(facts: AccountFacts, user: User, account: Account, managed: set[str]) -> list[Step]:
    """Return what an account with the right numbers lacks. Groups that nobody here manages stay as they are."""
    steps = []
    for option, have, want in (("home", account.home.rstrip("/"), user.home), ("shell", account.shell, user.shell)):
        if have != want:
            steps.append(
                Step(
                    f"change {option} of {user.name} from {have} to {want}", ("usermod", f"--{option}", want, user.name)
                )
            )
    if account.has_password:
        steps.append(Step(f"take the password of {user.name} away", ("usermod", "--password", NO_PASSWORD, user.name)))
    is_in = {group for group, members in facts.members.items() if user.name in members}
    more = [group for group in user.groups if group not in is_in and facts.groups.get(group) != user.gid]
    if more:
        steps.append(
            Step(
                f"add {user.name} to {', '.join(more)}", ("usermod", "--append", "--groups", ",".join(more), user.name)
            )
        )
    for group in sorted((is_in & managed) - set(user.groups)):
        steps.append(Step(f"take {user.name} out of {group}", ("gpasswd", "--delete", user.name, group)))
    return steps


RECORD = "/etc/hpcai/users.json"


@dataclass(frozen=True)
class Outcome:
    """What was done, or in check mode would be.

    :ivar actions: in words and in order.
    :ivar record: the change of the record.
    """

    actions: tuple[str, ...]
    record: FileChange

    @property
    def diff(self) -> Mapping[str, str]:
        """The change in the form of Ansible's diff."""
        return {"before": "", "after": "".join(f"{action}\n" for action in self.actions)} if self.actions else {}


def ensure(root: Root, options: UserOptions, mode: str, run: Run, check: bool, give: homes.Give = os.fchown) -> Outcome:
    """Give the machine the wanted accounts.

    :param mode: where homes are made: one of homes.MODES.
    :raises UserProblem: it cannot be; then no account was touched, if it is about names and numbers.
    :raises CommandFailed: a command failed; those before it did their work.
    """
    actions = []
    for step in plan(read_facts(root), options):
        if not check:
            must(run(step.command))
        actions.append(step.words)
    for user in options.users:
        if not user.present or mode == homes.NEVER or (mode == homes.AUTO and homes.is_remote(root, user.home)):
            continue
        actions += filter(None, [homes.make(root, user, check, give), homes.write_keys(root, user, check, give)])
    record = change_of(root.at(RECORD), as_config(_record(options)))
    if record.changes and (options.users or options.groups or record.before is not None):
        actions.append(f"write {RECORD}")
        if not check:
            record.apply()
    return Outcome(tuple(actions), record)


def _record(options: UserOptions) -> dict[str, Any]:
    """Return who is the cluster's, for whoever has to tell them from the machine's own accounts."""
    return {
        "groups": {group.name: group.gid for group in options.groups if group.present},
        "users": {
            user.name: {"uid": user.uid, "gid": user.gid, "home": user.home} for user in options.users if user.present
        },
    }
