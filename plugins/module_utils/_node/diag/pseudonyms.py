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
import pwd
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

USER, HOST, ADDRESS, OTHER = "user", "host", "address", "azure"

_FIRST_USER, _NOBODY = 1000, 65534
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
_USERS_IN_TEXT = (
    re.compile(r"\bUserId=([\w.@-]+)\(\d+\)"),
    re.compile(r"/home/([\w.-]+)"),
    re.compile(r"\bfor user '?([\w.@-]+)"),
    re.compile(r"\b(?:user|User|uid_name)[=:] ?'?([A-Za-z_][\w.-]*)"),
)
_HOSTS_IN_TEXT = (
    re.compile(r"\b(?:NodeName|NodeHostName|NodeAddr|SlurmctldHost(?:\[\d+\])?|DbdHost)\s*=\s*([\w.-]+)"),
)
_NUMBERED = re.compile(r"(.*\D)\d+")


@dataclass
class Pseudonyms:
    """The pseudonyms of one or several bundles.

    :param salt: any text; the same for bundles whose pseudonyms have to agree.
    :ivar names: the pseudonym of each name that was replaced, for the person who made the bundle.
    """

    salt: str
    names: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def learn(self, users: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        """Replace these names in all texts that follow."""
        for kind, names in ((USER, users), (HOST, hosts)):
            for name in names:
                if len(name) > 2 and name.lower() not in _SYSTEM_NAMES and not name.isdecimal():
                    self._known.setdefault(name, kind)
                    if kind == HOST and "." in name and not _IPV4.fullmatch(name):
                        self._known.setdefault(name.partition(".")[0], HOST)

    def learn_from(self, text: str) -> None:
        """Learn names from places in text that always have names: Slurm's records, and homes."""
        self.learn(
            users=(name for pattern in _USERS_IN_TEXT for name in pattern.findall(text)),
            hosts=(name for pattern in _HOSTS_IN_TEXT for name in pattern.findall(text)),
        )

    def of(self, kind: str, name: str) -> str:
        """Return the pseudonym of a name."""
        made = self.names.get(name)
        if made is None:
            digest = hmac.new(self.salt.encode(), f"{kind}:{name}".encode(), hashlib.sha256).hexdigest()
            made = self.names[name] = f"{kind}-{digest[:8]}"
        return made

    def replace(self, text: str) -> str:
        """Return the text with pseudonyms."""
        text = _AZURE.sub(lambda match: self.of(OTHER, match[0]), text)
        text = _MAIL.sub(lambda match: self.of(USER, match[0]), text)
        text = _MAC.sub(lambda match: self.of(ADDRESS, match[0].lower()), text)
        text = _IPV4.sub(self._address, text)
        text = _IPV6.sub(self._address, text)
        known = sorted(self._known, key=len, reverse=True)
        if known:
            words = "|".join(map(re.escape, known))
            text = re.sub(rf"(?<![\w-])(?:{words})(?![\w])(?!-\w)", lambda match: self._name(match[0]), text)
        return self._hostlists(text)

    def _name(self, name: str) -> str:
        return self.of(self._known[name], name)

    def _hostlists(self, text: str) -> str:
        """Replace host lists such as ``batch-[0-3]`` of learned names."""
        stems = {
            match[1]
            for name, kind in self._known.items()
            if kind == HOST
            for match in [_NUMBERED.fullmatch(name)]
            if match
        }
        for stem in sorted(stems, key=len, reverse=True):
            pattern = re.compile(rf"(?<![\w-]){re.escape(stem)}(?:\[[\d,-]+\]|\d+)")
            text = pattern.sub(lambda match: self.of(HOST, match[0]), text)
        return text

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


def users_of_this_machine() -> list[str]:
    """Return the names of people's accounts. A directory service may not list all; ``learn_from`` finds more."""
    return [one.pw_name for one in pwd.getpwall() if _FIRST_USER <= one.pw_uid < _NOBODY]
