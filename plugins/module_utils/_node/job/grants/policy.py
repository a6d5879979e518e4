# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who is granted what: /etc/hpcai/grants.json, written by role blob_staging for root alone, and what that means."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...forms import GUID
from ...machine.azure import LONGEST_S, Account, account_of
from ...machine.config import ConfigError, read_config
from ...machine.root import Root
from ..azcopy.place import PlaceError, place_of
from .protocol import RIGHTS

NAME = "grants"
SETTINGS = "/etc/hpcai/grants.json"
SHORTEST_LIFE_S = 300

_KEYS = {"groups", "account_url", "container", "rights"}


@dataclass(frozen=True)
class Grant:
    """What groups may do in a container.

    :ivar groups: names of groups; membership of one is enough.
    :ivar account: the storage account.
    :ivar container: its name.
    :ivar rights: one of RIGHTS.
    """

    groups: tuple[str, ...]
    account: Account
    container: str
    rights: str

    @property
    def url(self) -> str:
        """The container's URL."""
        return f"{self.account.url}/{self.container}"


@dataclass(frozen=True)
class GrantSettings:
    """What the service goes by.

    :ivar grants: who is granted what.
    :ivar life_s: how long a SAS lives.
    :ivar client_id: which of the machine's identities; empty where it has one.
    """

    grants: tuple[Grant, ...] = field(default=())
    life_s: int = 3600
    client_id: str = ""


def settings_from(stated: Mapping[str, Any], where: str) -> GrantSettings:
    """Return the settings that ``stated`` holds.

    :raises ConfigError: a key is unknown or a value is wrong; the message names it.
    """
    unknown = sorted(str(key) for key in stated if key not in ("grants", "life_s", "client_id"))
    if unknown:
        raise ConfigError(f"{where} has unknown keys: {', '.join(unknown)}; it may have client_id, grants, life_s.")
    life, client_id, listed = stated.get("life_s", 3600), stated.get("client_id", ""), stated.get("grants", [])
    if not isinstance(life, int) or isinstance(life, bool) or not SHORTEST_LIFE_S <= life <= LONGEST_S // 2:
        raise ConfigError(f"life_s in {where} is {life!r}: it may be {SHORTEST_LIFE_S} to {LONGEST_S // 2} seconds.")
    if not isinstance(client_id, str) or (client_id and not GUID.fullmatch(client_id)):
        raise ConfigError(f"client_id in {where} is {client_id!r}: it has the form of a GUID, or is empty.")
    if not isinstance(listed, list):
        raise ConfigError(f"grants in {where} is no list.")
    return GrantSettings(
        tuple(_grant(one, f"grants[{at}] in {where}") for at, one in enumerate(listed)), life, client_id
    )


def _grant(given: Any, where: str) -> Grant:
    if not isinstance(given, dict) or set(given) != _KEYS:
        raise ConfigError(f"{where}: a grant has exactly the keys {', '.join(sorted(_KEYS))}.")
    groups, container, rights = given["groups"], given["container"], given["rights"]
    if not isinstance(groups, list) or not groups or not all(isinstance(name, str) and name for name in groups):
        raise ConfigError(f"{where}: groups must be a list of one or more names of groups.")
    if rights not in RIGHTS:
        raise ConfigError(f"{where}: rights is {rights!r}: it may be {', '.join(RIGHTS)}.")
    try:
        account = account_of(str(given["account_url"]))
        if place_of(f"{account.url}/{container}").url != f"{account.url}/{container}":
            raise PlaceError(f"{container!r} is no name of a container")
    except ValueError as error:
        raise ConfigError(f"{where}: {error}.") from None
    return Grant(tuple(groups), account, container, rights)


def read_settings(root: Root) -> GrantSettings:
    """Return this node's grants; none where there is no file.

    :raises ConfigError: there is a file that cannot be used.
    """
    stated = read_config(root, NAME)
    return GrantSettings() if stated is None else settings_from(stated, root.at(SETTINGS))


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


def groups_in(grants: Sequence[Grant]) -> set[str]:
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
