# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options for groups and users with their numbers, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FIRST_ID, LAST_ID = 1000, 4294967293
"""Lower ids belong to the distribution's own accounts; higher ones mean "nobody" or "leave it unchanged"."""
NOBODY = frozenset((65534, 65535))
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_KEY = re.compile(r"([^\n]* )?(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3}( [^\n]*)?")
"""A line of authorized_keys(5), which may begin with options."""
_FIELD = re.compile(r"[^:\n\r]*")


class UserProblem(ValueError):
    """The accounts cannot be made; the message names both sides of the conflict and says what to do."""


@dataclass(frozen=True)
class Group:
    """A group.

    :ivar present: whether it should exist.
    """

    name: str
    gid: int
    present: bool = True


@dataclass(frozen=True)
class User:
    """A user.

    :ivar gid: gid of the primary group; by default the same as the uid.
    :ivar groups: names of further groups.
    :ivar keys: public ssh keys.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[str, ...]
    home: str
    shell: str
    comment: str
    keys: tuple[str, ...]
    present: bool = True


@dataclass(frozen=True)
class UserOptions:
    """All groups and users."""

    groups: tuple[Group, ...]
    users: tuple[User, ...]


def parse(groups: Iterable[Mapping[str, Any]], users: Iterable[Mapping[str, Any]], home_base: str) -> UserOptions:
    """Return the checked options.

    :param home_base: the parent folder of homes for users without an explicit home.
    :raises UserProblem: a value is invalid, or two values contradict each other.
    """
    parsed = UserOptions(tuple(_group(item) for item in groups), tuple(_user(item, home_base) for item in users))
    _check_unique("group", [(group.name, group.gid) for group in parsed.groups])
    _check_unique("user", [(user.name, user.uid) for user in parsed.users])
    return parsed


def _group(item: Mapping[str, Any]) -> Group:
    name = _name("group", item.get("name"))
    return Group(name, _number(f"gid of group {name}", item.get("gid")), _present(item))


def _user(item: Mapping[str, Any], home_base: str) -> User:
    name = _name("user", item.get("name"))
    uid = _number(f"uid of user {name}", item.get("uid"))
    gid = uid if item.get("gid") is None else _number(f"gid of user {name}", item["gid"])
    home = str(item.get("home") or f"{home_base.rstrip('/')}/{name}")
    if not home.startswith("/") or ".." in home.split("/") or not home.strip("/"):
        raise UserProblem(f"home of user {name} must be an absolute path without '..', not {home!r}")
    keys = tuple(str(key).strip() for key in item.get("ssh_keys") or ())
    for key in keys:
        if not _KEY.fullmatch(key):
            raise UserProblem(
                f"ssh_keys of user {name}: {key[:40]!r} is not a public key, such as 'ssh-ed25519 AAAA...'"
            )
    shell = str(item.get("shell") or "/bin/bash")
    comment = str(item.get("comment") or "")
    for what, text in (("home", home), ("shell", shell), ("comment", comment)):
        if not _FIELD.fullmatch(text):
            raise UserProblem(f"{what} of user {name} must not contain a colon or a line break: {text!r}")
    groups = tuple(dict.fromkeys(_name(f"group of user {name}", group) for group in item.get("groups") or ()))
    return User(name, uid, gid, groups, home.rstrip("/"), shell, comment, keys, _present(item))


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise UserProblem(
            f"name of a {what} must be 1 to 31 lower-case letters, digits, dashes and underscores, not {value!r}"
        )
    return value


def _number(what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserProblem(f"{what} must be a number, not {value!r}")
    if not FIRST_ID <= value <= LAST_ID or value in NOBODY:
        raise UserProblem(
            f"{what} must be {FIRST_ID} to {LAST_ID} and not one of nobody's ({', '.join(map(str, sorted(NOBODY)))}), "
            f"not {value}"
        )
    return value


def _present(item: Mapping[str, Any]) -> bool:
    return (item.get("state") or "present") == "present"


def _check_unique(what: str, pairs: list[tuple[str, int]]) -> None:
    names: dict[str, int] = {}
    numbers: dict[int, str] = {}
    for name, number in pairs:
        if name in names:
            raise UserProblem(f"{what} {name} is listed twice, as {names[name]} and as {number}. Keep one of them")
        if number in numbers:
            raise UserProblem(
                f"{what}s {numbers[number]} and {name} have the same number {number}. Give one of them another"
            )
        names[name], numbers[number] = number, name
