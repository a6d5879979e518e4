# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The accounts in the machine's own files."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...machine.root import Root
from .options import UserProblem

PASSWD, GROUP, SHADOW = "/etc/passwd", "/etc/group", "/etc/shadow"
NO_PASSWORD = "*"
"""No password matches. Not ``!``: sshd without PAM then refuses logins with a key too."""
FIRST_PERSON, NOBODY = 1000, 65534
"""The first uid of people's accounts, and the uid of nobody."""


@dataclass(frozen=True)
class Account:
    """A line of /etc/passwd.

    :ivar secret: the field of /etc/shadow: a password hash, or a text that no password matches.
    """

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    secret: str = field(default="", repr=False)

    @property
    def has_password(self) -> bool:
        """Whether /etc/shadow has a password hash."""
        return self.secret.startswith("$")

    @property
    def is_person(self) -> bool:
        """Whether it belongs to a person, not to a service."""
        return FIRST_PERSON <= self.uid < NOBODY


@dataclass(frozen=True)
class AccountFacts:
    """The machine's accounts and groups.

    :ivar groups: gids by group name.
    :ivar members: user names by the name of the group that lists them as members.
    """

    accounts: tuple[Account, ...]
    groups: dict[str, int]
    members: dict[str, tuple[str, ...]]

    def account(self, name: str) -> Account | None:
        """Return the account of this name."""
        return next((account for account in self.accounts if account.name == name), None)

    def account_of(self, uid: int) -> Account | None:
        """Return the account with this uid."""
        return next((account for account in self.accounts if account.uid == uid), None)

    def group_of(self, gid: int) -> str | None:
        """Return the name of the group with this gid."""
        return next((name for name, number in self.groups.items() if number == gid), None)


def read_accounts(root: Root) -> tuple[Account, ...]:
    """Return the machine's accounts; none if it has no such file."""
    secrets = {fields[0]: fields[1] for fields in _lines(root, SHADOW) if len(fields) > 1}
    return tuple(
        Account(fields[0], int(fields[2]), int(fields[3]), fields[5], fields[6], secrets.get(fields[0], ""))
        for fields in _lines(root, PASSWD)
        if len(fields) >= 7 and fields[2].isdecimal() and fields[3].isdecimal()
    )


def read_facts(root: Root) -> AccountFacts:
    """Return the machine's accounts and groups.

    :raises UserProblem: the machine has no such files.
    """
    if not _lines(root, PASSWD):
        raise UserProblem(f"{root.at(PASSWD)} cannot be read, or is empty, so this machine cannot have users")
    groups: dict[str, int] = {}
    members: dict[str, tuple[str, ...]] = {}
    for fields in _lines(root, GROUP):
        if len(fields) >= 4 and fields[2].isdecimal():
            groups[fields[0]] = int(fields[2])
            members[fields[0]] = tuple(filter(None, fields[3].split(",")))
    return AccountFacts(read_accounts(root), groups, members)


def _lines(root: Root, path: str) -> list[list[str]]:
    return [line.split(":") for line in (root.text(path) or "").splitlines() if line and not line.startswith("#")]
