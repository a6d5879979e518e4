# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The accounts that a machine has, as its own files say."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.root import Root
from .options import UserProblem

PASSWD, GROUP, SHADOW = "/etc/passwd", "/etc/group", "/etc/shadow"
NO_PASSWORD = "*"
"""No password fits. Not ``!``: sshd without PAM takes that for an account that may not log in by its key either."""
FIRST_PERSON, NOBODY = 1000, 65534
"""Numbers of people's accounts begin with the first; the second is nobody's."""


@dataclass(frozen=True)
class Account:
    """A line of /etc/passwd.

    :ivar has_password: a hash of a password is in /etc/shadow.
    """

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    has_password: bool = False

    @property
    def is_person(self) -> bool:
        """Whether it belongs to somebody who logs in, and not to a service."""
        return FIRST_PERSON <= self.uid < NOBODY


@dataclass(frozen=True)
class AccountFacts:
    """The machine's accounts and groups.

    :ivar groups: numbers of groups by name.
    :ivar members: names of users by the name of the group that has them as members.
    """

    accounts: tuple[Account, ...]
    groups: dict[str, int]
    members: dict[str, tuple[str, ...]]

    def account(self, name: str) -> Account | None:
        """The account of this name."""
        return next((account for account in self.accounts if account.name == name), None)

    def account_of(self, uid: int) -> Account | None:
        """The account with this number."""
        return next((account for account in self.accounts if account.uid == uid), None)

    def group_of(self, gid: int) -> str | None:
        """The name of the group with this number."""
        return next((name for name, number in self.groups.items() if number == gid), None)


def read_accounts(root: Root) -> tuple[Account, ...]:
    """Return the machine's accounts; none where it has no such file."""
    secrets = {fields[0]: fields[1] for fields in _lines(root, SHADOW) if len(fields) > 1}
    return tuple(
        Account(
            fields[0], int(fields[2]), int(fields[3]), fields[5], fields[6], secrets.get(fields[0], "").startswith("$")
        )
        for fields in _lines(root, PASSWD)
        if len(fields) >= 7 and fields[2].isdecimal() and fields[3].isdecimal()
    )


def read_facts(root: Root) -> AccountFacts:
    """Return the machine's accounts and groups.

    :raises UserProblem: the machine has no such files.
    """
    if not _lines(root, PASSWD):
        raise UserProblem(f"{root.at(PASSWD)} cannot be read, or is empty: this is no machine that can have users")
    groups: dict[str, int] = {}
    members: dict[str, tuple[str, ...]] = {}
    for fields in _lines(root, GROUP):
        if len(fields) >= 4 and fields[2].isdecimal():
            groups[fields[0]] = int(fields[2])
            members[fields[0]] = tuple(filter(None, fields[3].split(",")))
    return AccountFacts(read_accounts(root), groups, members)


def _lines(root: Root, path: str) -> list[list[str]]:
    return [line.split(":") for line in (root.text(path) or "").splitlines() if line and not line.startswith("#")]
