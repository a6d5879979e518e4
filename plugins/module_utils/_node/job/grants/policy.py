# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a user may have. Pure: groups and grants in, a grant or a refusal out."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection, Mapping, Sequence

from .protocol import RIGHTS
from .settings import Grant


class NotGranted(RuntimeError):
    """The user may not have it; the message is the same whether it exists or not."""


def user_of(uid: int) -> pwd.struct_passwd:
    """Return the account of a user id.

    :raises NotGranted: this machine knows none, as with the additional ids of a user namespace.
    """
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise NotGranted(f"user id {uid} has no account on this node, so nothing is granted to it") from None


def groups_of(user: pwd.struct_passwd, among: Collection[str]) -> frozenset[str]:
    """Return which of these groups the user is a member of, by the machine's own directory of users."""
    ids = set(os.getgrouplist(user.pw_name, user.pw_gid))
    found = set()
    for name in among:
        try:
            if grp.getgrnam(name).gr_gid in ids:
                found.add(name)
        except KeyError:
            continue
    return frozenset(found)


def mentioned(grants: Sequence[Grant]) -> set[str]:
    """Return the names of all groups that are granted something."""
    return {name for grant in grants for name in grant.groups}


def granted(grants: Sequence[Grant], groups: Collection[str]) -> list[Grant]:
    """Return what members of these groups are granted."""
    return [grant for grant in grants if set(grant.groups) & set(groups)]


def decide(grants: Sequence[Grant], groups: Collection[str], url: str, need: str) -> Grant:
    """Return the grant that covers ``need`` at the container of this URL.

    :raises NotGranted: there is none.
    """
    wanted = url.lower().rstrip("/")
    for grant in granted(grants, groups):
        if grant.url == wanted and RIGHTS.index(grant.rights) >= RIGHTS.index(need):
            return grant
    raise NotGranted(f"none of your groups is granted {need!r} there: see 'hpcnode grants', or ask an administrator")


def decide_registry(
    registries: Sequence[str], groups_by_registry: Mapping[str, Sequence[str]], groups: Collection[str], wanted: str
) -> str:
    """Return the registry, as it is listed, if members of these groups may fetch images from it.

    :param groups_by_registry: a registry that is not in it is for all users.
    :raises NotGranted: it is not listed, or is for other groups.
    """
    name = wanted.lower()
    restricted = groups_by_registry.get(name)
    if name not in registries or (restricted is not None and not set(restricted) & set(groups)):
        raise NotGranted("none of your groups is granted images of that registry: ask an administrator")
    return name
