# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options for groups and users with their numbers, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...forms import ConfigError, Malformed, as_argument, choice, list_of, matching, or_empty, record, wrong

FIRST_ID, LAST_ID = 1000, 4294967293
"""Lower ids belong to the distribution's own accounts; higher ones mean "nobody" or "leave it unchanged"."""
NOBODY = frozenset((65534, 65535))
_CHAR = "[./A-Za-z0-9]"
_PASSWORD_HASH = re.compile(
    rf"\$6\$(rounds=[0-9]{{4,9}}\$)?{_CHAR}{{1,16}}\${_CHAR}{{86}}"
    rf"|\$y\${_CHAR}{{1,8}}\${_CHAR}{{1,86}}\${_CHAR}{{43}}"
    rf"|\$2b\$[0-9]{{2}}\${_CHAR}{{53}}"
)
"""SHA-512, yescrypt and bcrypt, as in crypt(5). Older methods can be guessed too fast."""
_KEY = re.compile(r"([^\n]* )?(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3}( [^\n]*)?")
"""A line of authorized_keys(5), which may begin with options."""


class UserProblem(ConfigError):
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
    :ivar password_hash: empty for an account without a password.
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
    password_hash: str = field(default="", repr=False)


@dataclass(frozen=True)
class UserOptions:
    """All groups and users."""

    groups: tuple[Group, ...]
    users: tuple[User, ...]


def _id(path: str, value: Any) -> int:
    """A uid or gid of a person."""
    if isinstance(value, bool) or not isinstance(value, int) or not FIRST_ID <= value <= LAST_ID or value in NOBODY:
        nobody = ", ".join(map(str, sorted(NOBODY)))
        raise wrong(path, f"a number from {FIRST_ID} to {LAST_ID} that is not one of nobody's ({nobody})", value)
    return value


def _home(path: str, value: Any) -> str:
    text = _field(path, value)
    if not text.startswith("/") or ".." in text.split("/") or not text.strip("/"):
        raise wrong(path, "an absolute path without '..'", value)
    return text.rstrip("/")


def _key(path: str, value: Any) -> str:
    text = value.strip() if isinstance(value, str) else value
    if not isinstance(text, str) or not _KEY.fullmatch(text):
        # Only the beginning: it may be a private key.
        raise wrong(path, "a public key, such as 'ssh-ed25519 AAAA...'", str(text)[:40])
    return text


def _password_hash(path: str, value: Any) -> str:
    # The message does not have the value, which may be a password.
    if not isinstance(value, str) or not _PASSWORD_HASH.fullmatch(value):
        raise Malformed(
            f"{path} must be a hash of crypt(5) that starts with $6$, $y$ or $2b$, and never the password itself. "
            f"Create one with 'openssl passwd -6'."
        )
    return value


_name = matching(r"[a-z_][a-z0-9_-]{0,30}", "1 to 31 lower-case letters, digits, dashes and underscores")
_field = matching(r"[^:\n\r]*", "a string without a colon or a line break")
_state = choice("present", "absent")
GROUP_KEYS = {"name": _name, "gid": as_argument(_id, type="int"), "state": _state}
GROUP_DEFAULTS = {"state": "present"}
USER_KEYS = {
    "name": _name,
    "uid": _id,
    "gid": _id,
    "groups": list_of(_name),
    "home": _home,
    "shell": _field,
    "comment": _field,
    # Without no_log=False, Ansible warns that an option with this name may be secret.
    "ssh_keys": as_argument(list_of(_key), type="list", elements="str", no_log=False),
    "password_hash": as_argument(or_empty(_password_hash), type="str", no_log=True),
    "state": _state,
}
USER_DEFAULTS: Mapping[str, Any] = {
    "groups": [],
    "shell": "/bin/bash",
    "comment": "",
    "ssh_keys": [],
    "state": "present",
}
GROUP_REQUIRED, USER_REQUIRED = ("name", "gid"), ("name", "uid")
_groups = list_of(record(GROUP_KEYS, GROUP_REQUIRED, null_is_absent=True, defaults=GROUP_DEFAULTS), key="name")
_users = list_of(record(USER_KEYS, USER_REQUIRED, null_is_absent=True, defaults=USER_DEFAULTS), key="name")


def parse(groups: Iterable[Mapping[str, Any]], users: Iterable[Mapping[str, Any]], home_base: str) -> UserOptions:
    """Return the checked options.

    :param home_base: the parent folder of homes for users without an explicit home.
    :raises ConfigError: a value is invalid, or two values contradict each other.
    """
    # An empty home counts as missing.
    at_home = [{**one, "home": one.get("home") or f"{home_base.rstrip('/')}/{one.get('name')}"} for one in users]
    parsed = UserOptions(
        tuple(Group(one["name"], one["gid"], one["state"] == "present") for one in _groups("groups", list(groups))),
        tuple(_user(one) for one in _users("users", at_home)),
    )
    _check_unique("group", [(group.name, group.gid) for group in parsed.groups])
    _check_unique("user", [(user.name, user.uid) for user in parsed.users])
    return parsed


def _user(given: Mapping[str, Any]) -> User:
    return User(
        given["name"],
        given["uid"],
        given.get("gid", given["uid"]),
        tuple(dict.fromkeys(given["groups"])),
        given["home"],
        given["shell"] or USER_DEFAULTS["shell"],
        given["comment"],
        given["ssh_keys"],
        given["state"] == "present",
        given.get("password_hash", ""),
    )


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
