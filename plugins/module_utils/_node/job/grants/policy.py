# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Grants: reads /etc/hpcai/grants.json, which the role blob_staging writes for root only, and decides requests."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...forms import (
    Malformed,
    choice,
    guid,
    instance_of,
    list_of,
    matching,
    not_empty,
    number,
    or_empty,
    record,
    string,
    text_or_number,
)
from ...machine.azure import LONGEST_S, Account, account_of
from ...machine.cluster_settings import Vault, vault_of
from ...machine.config import read_checked
from ...machine.root import Root
from ...machine.vault_keys import NAME as NAME_OF_KEY
from ..azcopy.location import LocationError, parse_location
from .protocol import RIGHTS, WRITE

NAME = "grants"
SETTINGS = "/etc/hpcai/grants.json"
SHORTEST_LIFE_S = 300


@dataclass(frozen=True)
class Grant:
    """What groups may do in a container.

    :ivar groups: names of groups; a user needs to be a member of one of them.
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
    """The settings of the service.

    :ivar grants: which groups have which rights.
    :ivar life_s: how long a SAS is valid.
    :ivar client_id: which of the machine's identities to use; empty if the machine has one identity.
    :ivar signing_vault: the key vault whose key signs checkpoints; None if none does.
    :ivar signing_key: the key's name.
    """

    grants: tuple[Grant, ...] = field(default=())
    life_s: int = 3600
    client_id: str = ""
    signing_vault: Vault | None = None
    signing_key: str = "hpcai-checkpoints"


_GRANT = {
    "groups": list_of(not_empty, least=1),
    "account_url": string,
    "container": text_or_number,
    "rights": choice(*RIGHTS),
}


def _grant(path: str, value: Any) -> Grant:
    stated = record(_GRANT, required=tuple(_GRANT))(path, value)
    container = stated["container"]
    try:
        account = account_of(stated["account_url"])
        if parse_location(f"{account.url}/{container}").url != f"{account.url}/{container}":
            raise LocationError(f"{container!r} is not a valid container name")
    except ValueError as error:
        raise Malformed(f"{path}: {error}.") from None
    return Grant(stated["groups"], account, container, stated["rights"])


def _vault(path: str, value: Any) -> Vault | None:
    if value == "":
        return None
    try:
        return vault_of(string(path, value))
    except ValueError as error:
        raise Malformed(f"{path}: {error}") from None


FORM = instance_of(
    GrantSettings,
    {
        "grants": list_of(_grant),
        "life_s": number(SHORTEST_LIFE_S, LONGEST_S // 2, integral=True),
        "client_id": or_empty(guid),
        "signing_vault": _vault,
        "signing_key": matching(NAME_OF_KEY.pattern, "the name of a key in a key vault"),
    },
)


def read_settings(root: Root) -> GrantSettings:
    """Return this node's grants; none if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, NAME, FORM) or GrantSettings()


class NotGranted(RuntimeError):
    """The user has no grant for it; the message does not reveal whether it exists."""


def user_of(uid: int) -> pwd.struct_passwd:
    """Return the account of a user id.

    :raises NotGranted: this machine has no such account; for example, the id is from a user namespace.
    """
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise NotGranted(f"user id {uid} has no account on this node, so it has no grants") from None


def groups_of(user: pwd.struct_passwd, among: Collection[str]) -> frozenset[str]:
    """Return the groups of ``among`` that the user is a member of, as the node's user database says."""
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
    """Return the grant that covers ``need`` for the container with this URL.

    :raises NotGranted: no grant covers it.
    """
    container = url.lower().rstrip("/")
    for grant in granted(grants, groups):
        if grant.url == container and RIGHTS.index(grant.rights) >= RIGHTS.index(need):
            return grant
    raise NotGranted(
        f"none of your groups is granted {need!r} for this container: see 'hpcnode grants', or ask an administrator"
    )


def decide_signature(grants: Sequence[Grant], groups: Collection[str], url: str) -> str:
    """Return the URL of a series of checkpoints, if the user may write there.

    :raises NotGranted: the user may not, so a signature would attest nothing.
    """
    try:
        location = parse_location(url)
    except LocationError as error:
        raise NotGranted(str(error).rstrip(".")) from None
    decide(grants, groups, location.url, WRITE)
    return location.address


def decide_registry(
    registries: Sequence[str], groups_by_registry: Mapping[str, Sequence[str]], groups: Collection[str], registry: str
) -> str:
    """Return the registry's name as listed, if members of these groups may pull images from it.

    :param groups_by_registry: a registry that is not in it is open to all users.
    :raises NotGranted: it is not listed, or is for other groups only.
    """
    name = registry.lower()
    restricted = groups_by_registry.get(name)
    if name not in registries or (restricted is not None and not set(restricted) & set(groups)):
        raise NotGranted("none of your groups may pull images from this registry: ask an administrator")
    return name
