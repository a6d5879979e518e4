# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may log in: users of the cluster, whose name and groups this machine knows, whatever has checked the password."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


@dataclass(frozen=True)
class Rules:
    """Who may use the portal.

    :ivar groups: only members of one of these groups; empty for all users.
    :ivar refused_groups: no members of these, because the portal must not be able to act as administrators.
    :ivar refused_users: nor these users.
    :ivar admin_groups: their members may stop other users' notebooks.
    :ivar least_uid: lower ids are those of system users.
    """

    groups: tuple[str, ...] = ()
    refused_groups: tuple[str, ...] = ("sudo", "wheel")
    refused_users: tuple[str, ...] = ()
    admin_groups: tuple[str, ...] = ()
    least_uid: int = 1000


@dataclass(frozen=True)
class Account:
    """A user of this machine."""

    name: str
    uid: int
    groups: tuple[str, ...] = ()
    shell: str = "/bin/sh"


def account_of(name: str) -> Account | None:
    """Look the user up; None if this machine has no such user."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        return None
    names = []
    for gid in os.getgrouplist(found.pw_name, found.pw_gid):
        try:
            names.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return Account(found.pw_name, found.pw_uid, tuple(sorted(set(names))), found.pw_shell)


def problem_of(account: Account | None, rules: Rules) -> str:
    """Return why the user may not log in; empty if they may."""
    if account is None:
        return "is not a user of this cluster"
    if account.uid < rules.least_uid:
        return f"is a system user (uid below {rules.least_uid})"
    # Users of services, such as slurm, may have high uids.
    if account.shell.rpartition("/")[2] in ("nologin", "false"):
        return "has no login shell"
    if account.name in rules.refused_users:
        return "is an administrator (portal_refused_users)"
    refused = set(rules.refused_groups) & set(account.groups)
    if refused:
        return f"is in the group {min(refused)}, whose members cannot use the portal (portal_refused_groups)"
    if rules.groups and not set(rules.groups) & set(account.groups):
        return f"is in none of the groups {', '.join(rules.groups)} (portal_groups)"
    return ""


def name_of_claim(claims: Mapping[str, Any], claim: str, domain: str = "") -> str:
    """Return the user's name in the cluster from what an OpenID provider says; empty if it has none.

    :param claim: the claim with the name, such as ``preferred_username``.
    :param domain: of ``alice@example.org`` only the part before this domain counts, and names of other domains are
        refused, because others could have the same first part.
    """
    value = claims.get(claim)
    if not isinstance(value, str):
        return ""
    name = value
    if domain:
        name, mark, found = value.partition("@")
        if not mark or found.lower() != domain.lower():
            return ""
        name = name.lower()
    return name if _NAME.fullmatch(name) else ""
