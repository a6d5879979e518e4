# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Create the wanted accounts: read, plan, run the commands, record, for the module cluster_users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...machine.config import as_config
from ...machine.root import Root
from ...machine.run import Feed, Run, must
from ..managed_file import FileChange, change_of
from . import homes
from .facts import NO_PASSWORD, Account, AccountFacts, read_facts
from .options import Group, User, UserOptions, UserProblem


@dataclass(frozen=True)
class Step:
    """One command, and its description.

    :ivar secret: text for its standard input, because all users can read command lines.
    :ivar removes: the group that it removes. An earlier userdel may have removed it: by default it also removes the
        group with the user's name (USERGROUPS_ENAB in login.defs(5)).
    """

    words: str
    command: tuple[str, ...]
    secret: str = field(default="", repr=False)
    removes: str = ""


def plan(facts: AccountFacts, options: UserOptions) -> tuple[Step, ...]:
    """Return what has to be done, in order.

    :raises UserProblem: names or numbers conflict with existing accounts. The message lists all conflicts.
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
            steps += [_add_user(user), *_set_password(user)]
        else:
            steps += _adapt(facts, user, account, managed)
    for group in options.groups:
        if not group.present and group.name in facts.groups:
            steps.append(Step(f"remove group {group.name}", ("groupdel", group.name), removes=group.name))
    return tuple(steps)


def _private_groups(facts: AccountFacts, options: UserOptions) -> list[Group]:
    """Return primary groups that are neither listed nor on the machine; each gets its user's name."""
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
            f"group {group.name} exists with gid {gid}, not {group.gid}. Changing it would give its files to another "
            f"group. Set gid {gid}, or rename or remove the group on this machine ('groupdel {group.name}')"
        ]
    other = facts.group_of(group.gid)
    if group.present and gid is None and other:
        return [f"gid {group.gid} of group {group.name} already belongs to group {other}. Set another gid"]
    return []


def _user_problems(facts: AccountFacts, user: User, groups: set[str]) -> list[str]:
    account, other = facts.account(user.name), facts.account_of(user.uid)
    if account and account.uid != user.uid:
        return [
            f"user {user.name} exists with uid {account.uid}, not {user.uid}. After a change, its files and jobs would "
            f"have no owner. Set uid {account.uid}, or change the account on this machine while it has no processes "
            f"('usermod --uid {user.uid} {user.name}', then chown its files outside {account.home})"
        ]
    if not user.present:
        return []
    if other and not account:
        return [f"uid {user.uid} of user {user.name} already belongs to user {other.name}. Set another uid"]
    problems = []
    if account and account.gid != user.gid:
        problems.append(
            f"user {user.name} exists with gid {account.gid}, not {user.gid}. Set gid {account.gid}, or run "
            f"'usermod --gid {user.gid} {user.name}' on this machine"
        )
    lacking = [name for name in user.groups if name not in groups]
    if lacking:
        problems.append(f"user {user.name} must be in {', '.join(lacking)}, which does not exist. Add it to the groups")
    return problems


def _add_group(group: Group) -> Step:
    return Step(f"add group {group.name} ({group.gid})", ("groupadd", "--gid", str(group.gid), group.name))


def _add_user(user: User) -> Step:
    options = ["--uid", str(user.uid), "--gid", str(user.gid), "--home-dir", user.home, "--no-create-home"]
    options += ["--shell", user.shell, "--comment", user.comment, "--password", NO_PASSWORD]
    if user.groups:
        options += ["--groups", ",".join(user.groups)]
    return Step(f"add user {user.name} ({user.uid}:{user.gid})", ("useradd", *options, user.name))


def _set_password(user: User) -> list[Step]:
    if not user.password_hash:
        return []
    line = f"{user.name}:{user.password_hash}\n"
    return [Step(f"set the password of {user.name}", ("chpasswd", "--encrypted"), line)]


def _adapt(facts: AccountFacts, user: User, account: Account, managed: set[str]) -> list[Step]:
    """Return the changes to an existing account with the right uid and gid. Unmanaged groups stay unchanged."""
    steps = []
    for option, have, want in (("home", account.home.rstrip("/"), user.home), ("shell", account.shell, user.shell)):
        if have != want:
            steps.append(
                Step(
                    f"change {option} of {user.name} from {have} to {want}", ("usermod", f"--{option}", want, user.name)
                )
            )
    if user.password_hash:
        # An administrator's lock ("!" before the hash) stays.
        steps += _set_password(user) if account.secret.lstrip("!") != user.password_hash else []
    elif account.has_password:
        steps.append(Step(f"remove the password of {user.name}", ("usermod", "--password", NO_PASSWORD, user.name)))
    is_in = {group for group, members in facts.members.items() if user.name in members}
    more = [group for group in user.groups if group not in is_in and facts.groups.get(group) != user.gid]
    if more:
        steps.append(
            Step(
                f"add {user.name} to {', '.join(more)}", ("usermod", "--append", "--groups", ",".join(more), user.name)
            )
        )
    for group in sorted((is_in & managed) - set(user.groups)):
        steps.append(Step(f"remove {user.name} from {group}", ("gpasswd", "--delete", user.name, group)))
    return steps


RECORD = "/etc/hpcai/users.json"


@dataclass(frozen=True)
class Outcome:
    """What was done, or in check mode would be done.

    :ivar actions: the changes in words, in order.
    :ivar record: the change of the record.
    """

    actions: tuple[str, ...]
    record: FileChange

    @property
    def diff(self) -> Mapping[str, str]:
        """The change in the form of Ansible's diff."""
        return {"before": "", "after": "".join(f"{action}\n" for action in self.actions)} if self.actions else {}


def ensure(
    root: Root,
    options: UserOptions,
    mode: str,
    run: Run,
    feed: Feed,
    check: bool,
    give: homes.Give = os.fchown,
) -> Outcome:
    """Create and change accounts as the options say.

    :param mode: where homes are made: one of homes.MODES.
    :param feed: runs the commands that get a secret.
    :raises UserProblem: names or numbers conflict, and no account was changed; or a home cannot be made.
    :raises CommandFailed: a command failed; the commands before it were run.
    """
    actions = []
    for step in plan(read_facts(root), options):
        if not check and not (step.removes and step.removes not in read_facts(root).groups):
            must(feed(step.command, step.secret) if step.secret else run(step.command))
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
    """Return the cluster's accounts, to distinguish them from the machine's own."""
    return {
        "groups": {group.name: group.gid for group in options.groups if group.present},
        "users": {
            user.name: {"uid": user.uid, "gid": user.gid, "home": user.home} for user in options.users if user.present
        },
    }
