# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Replaces names of users, machines and subscriptions, and addresses, in the same way in all texts.

A pseudonym is computed from the name and a salt, so that the bundles of several machines with the same salt agree. The
salt is not in the bundle; with it, somebody could guess names. The id of the virtual machine and its physical host
stay, because Azure's support needs them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import itertools
import pwd
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .item import Item

USER, HOST, ADDRESS, OTHER = "user", "host", "address", "azure"

_FIRST_USER = 1000
_SERVICES = range(61184, 65536)
"""Uids of systemd's dynamic users and of nobody (https://systemd.io/UIDS-GIDS), among them those of Debian's packages,
such as 64030 of Slurm. Directory services also use higher ones for people."""
_DIGITS = "0123456789"
_SYSTEM_NAMES = frozenset(
    (
        "root",
        "slurm",
        "munge",
        "nobody",
        "localhost",
        "daemon",
        "systemd",
        "syslog",
        "unknown",
        "none",
        "default",
        "all",
    )
)
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{2,45}(?:%\w{1,20})?(?![\w:.])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])")
_AZURE = re.compile(r"(?<=/subscriptions/)[^/\s\"']+|(?<=/resource[gG]roups/)[^/\s\"']+")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
# Addresses that are the same everywhere: this machine, Azure's metadata service and its wire server.
_PUBLIC = frozenset(("169.254.169.254", "168.63.129.16", "0.0.0.0", "255.255.255.255"))
# Places that always have a name, in all texts. What is there is replaced there only: a user can write a line with these
# words, and a name that were learned from it would be replaced everywhere.
_USERS_IN_TEXT = (
    re.compile(r"\bUserId=([\w.@+\\$-]+)(?=\(\d+\))"),
    re.compile(r"/home/([\w.-]+)"),
    re.compile(r"\bfor user '?([\w.@+\\$-]+)"),
    re.compile(r"\b(?:user|User|uid_name)[=:] ?'?([A-Za-z_][\w.-]*)"),
)
_HOSTS_IN_TEXT = (
    re.compile(
        r"\b(?:NodeName|NodeHostName|NodeAddr|SlurmctldHost(?:\[\d+\])?|DbdHost)\s*=\s*([\w.-]+(?:\[[\d,-]+\])?)"
    ),
)
_MADE = re.compile(rf"(?:{USER}|{HOST}|{ADDRESS}|{OTHER})-[0-9a-f]{{8}}")
# A word, which may have several parts with dots, or a host list such as batch-[0-3].
_WORD = re.compile(r"(?<![\w.-])([\w.-]+)(\[[\d,-]+\])?")
_MOST_PARTS = 8
# A word with other characters of the names in directory services, such as CORP\alice, CORP+alice or alice@corp.
_ACCOUNT = re.compile(r"(?<![\w.@+\\$-])[\w.-]+(?:[@+\\$][\w.-]*)+")
_PLAIN = re.compile(r"[\w.-]+")
_BETWEEN_HOSTS = re.compile(r",(?![^\[]*\])")
# In Slurm's records, these fields are the last ones, and contain what people and checks write.
_FREE_TEXT = re.compile(r"\s(?:Comment|Extra|Reason)=")
_MOST_NAMES = 100_000
"""Further names are replaced too, but not listed: each takes some 200 bytes of memory."""


@dataclass
class Pseudonyms:
    """The pseudonyms of one or several bundles.

    :param salt: any text; the same for bundles whose pseudonyms have to agree.
    :ivar names: the pseudonym of each name that was replaced, for the person who made the bundle.
    """

    salt: str
    names: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)
    _stems: set[str] = field(default_factory=set)
    _accounts: bool = False
    _parts: int = 1

    def learn(self, users: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        """Replace these names in all texts that follow. They come from root, never from a text that a user chose.

        :param hosts: names and host lists.
        """
        for user in users:
            if self._learn(USER, user) and not _PLAIN.fullmatch(user):
                self._accounts = True
                # Without its domain, it is in the paths of its files.
                self._learn(USER, re.split(r"[\\+]", user)[-1].partition("@")[0])
        for host in (one for listed in hosts for one in _BETWEEN_HOSTS.split(listed)):
            name, bracket, _rest = host.partition("[")
            if bracket:
                self._stems.add(name)
            elif self._learn(HOST, name) and not _IPV4.fullmatch(name):
                self._learn(HOST, name.partition(".")[0])
                stem = name.rstrip(_DIGITS)
                self._stems.update((stem,) if stem != name else ())

    def _learn(self, kind: str, name: str) -> bool:
        if not _is_name(name):
            return False
        self._known.setdefault(name, kind)
        self._parts = min(max(self._parts, name.count(".") + 1), _MOST_PARTS)
        return True

    def learn_from(self, item: Item, text: str) -> None:
        """Learn the names of an item, from places to which no user writes."""
        lines = [_facts_of(line) for line in text.splitlines()]
        if item.users:
            self.learn(users=_users_in(item, lines))
        if item.hosts:
            found = re.compile(item.hosts)
            self.learn(hosts=(name for line in lines for name in found.findall(line)))

    def of(self, kind: str, name: str) -> str:
        """Return the pseudonym of a name."""
        made = self.names.get(name)
        if made is None:
            digest = hmac.new(self.salt.encode(), f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()
            made = f"{kind}-{digest[:8]}"
            if len(self.names) < _MOST_NAMES:
                self.names[name] = made
        return made

    def replace(self, text: str) -> str:
        """Return the text with pseudonyms. The time is proportional to the text, however many names there are."""
        text = _AZURE.sub(lambda match: self.of(OTHER, match[0]), text)
        if self._accounts:
            text = _ACCOUNT.sub(self._account, text)
        text = _MAIL.sub(lambda match: self.of(USER, match[0]), text)
        text = _MAC.sub(lambda match: self.of(ADDRESS, match[0].lower()), text)
        text = _IPV4.sub(self._address, text)
        text = _IPV6.sub(self._address, text)
        if self._known or self._stems:
            text = _WORD.sub(self._word, text)
        for kind, patterns in ((USER, _USERS_IN_TEXT), (HOST, _HOSTS_IN_TEXT)):
            for pattern in patterns:
                text = pattern.sub(lambda match, kind=kind: self._at(kind, match), text)  # type: ignore[misc]
        return text

    def _account(self, match: re.Match[str]) -> str:
        """Replace a name with other characters than those of words."""
        written = match[0].strip(".-")
        # JSON has two backslashes.
        name = written.replace("\\\\", "\\")
        return match[0].replace(written, self.of(USER, name)) if name in self._known else match[0]

    def _word(self, match: re.Match[str]) -> str:
        """Replace the names in a word: the longest first, because a name may begin with another one."""
        word, bracket = match[1], match[2] or ""
        start = word.lstrip(".-")
        if bracket and start in self._stems:
            return f"{word[: len(word) - len(start)]}{self.of(HOST, start + bracket)}"
        parts = word.split(".")
        made = []
        place = 0
        while place < len(parts):
            for end in range(min(len(parts), place + self._parts), place, -1):
                name = ".".join(parts[place:end])
                bare = name.strip("-")
                kind = self._kind(bare)
                if kind:
                    made.append(name.replace(bare, self.of(kind, bare)))
                    place = end
                    break
            else:
                made.append(parts[place])
                place += 1
        return f"{'.'.join(made)}{bracket}"

    def _kind(self, name: str) -> str:
        """Return the kind of a learned name, or of a machine whose number was not learned; empty for other words."""
        stem = name.rstrip(_DIGITS)
        return self._known.get(name) or (HOST if stem != name and stem in self._stems else "")

    def _at(self, kind: str, match: re.Match[str]) -> str:
        """Replace the name at a place that always has one."""
        name = match[1].rstrip(".-")
        if not _is_name(name) or _MADE.fullmatch(name):
            return match[0]
        start = match.start(1) - match.start()
        return f"{match[0][:start]}{self.of(self._known.get(name, kind), name)}{match[0][start + len(name) :]}"

    def _address(self, match: re.Match[str]) -> str:
        written = match[0]
        if ":" in written and written.count(":") < 2:
            return written
        try:
            address = ipaddress.ip_address(written.partition("%")[0])
        except ValueError:
            return written
        if written in _PUBLIC or address.is_loopback or address.is_unspecified or address.is_multicast:
            return written
        return self.of(ADDRESS, written)


def _is_name(name: str) -> bool:
    return len(name) > 2 and name.lower() not in _SYSTEM_NAMES and not name.isdecimal()


def _users_in(item: Item, lines: Iterable[str]) -> Iterator[str]:
    """Yield the names of people in the lines of an item."""
    if item.users_below:
        below = itertools.dropwhile(lambda line: line != item.users_below, lines)
        lines = itertools.takewhile(str.strip, itertools.islice(below, 1, None))
    for match in filter(None, map(re.compile(item.users).match, lines)):
        uid = match.groupdict().get("uid")
        if uid is None or _is_person(int(uid)):
            yield match["name"]


def _is_person(uid: int) -> bool:
    """Whether an account is not that of a service: those have the names of their units and folders."""
    return uid >= _FIRST_USER and uid not in _SERVICES


def _facts_of(line: str) -> str:
    """Return a line of Slurm's records without what people and checks have written."""
    return _FREE_TEXT.split(line, maxsplit=1)[0]


def users_of_this_machine() -> list[str]:
    """Return the names of people's accounts. A directory service may not list all; ``learn_from`` finds more."""
    return [one.pw_name for one in pwd.getpwall() if _is_person(one.pw_uid)]
