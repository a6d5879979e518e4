# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Root and the people of a machine: their homes and passwords."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass

from ...machine.root import Root

PASSWD, SHADOW = "/etc/passwd", "/etc/shadow"
_LABEL = "security.selinux"
_FIRST_PERSON, _NOBODY = 1000, 65534
NO_PASSWORD = "*"
"""No password fits. Not ``!``: sshd without PAM takes that for an account that may not log in by its key either."""


@dataclass(frozen=True)
class Account:
    """Somebody who logs in.

    :ivar has_password: a hash of a password is in /etc/shadow.
    """

    name: str
    home: str
    has_password: bool


def people(root: Root) -> tuple[Account, ...]:
    """Return root and all accounts of people."""
    secrets = dict(line.split(":", 2)[:2] for line in _lines(root, SHADOW) if line.count(":") >= 2)
    found = []
    for line in _lines(root, PASSWD):
        fields = line.split(":")
        if len(fields) < 7 or not fields[2].isdecimal():
            continue
        name, number, home = fields[0], int(fields[2]), os.path.normpath(fields[5] or "/")
        if number == 0 or _FIRST_PERSON <= number < _NOBODY:
            # Never the whole machine for somebody's home.
            home = home if home.startswith("/") and home.strip("/") else "/nonexistent"
            found.append(Account(name, home, secrets.get(name, "").startswith("$")))
    return tuple(found)


def lock(root: Root, names: Collection[str]) -> None:
    """Take the passwords of these accounts away; owner and permissions of the file stay.

    :raises OSError: the file cannot be written; then it is as it was.
    """
    place = os.path.realpath(root.at(SHADOW))
    lines = []
    with open(place, encoding="utf-8", errors="surrogateescape") as file:
        about = os.fstat(file.fileno())
        for line in file:
            fields = line.split(":")
            if len(fields) > 2 and fields[0] in names:
                fields[1] = NO_PASSWORD
            lines.append(":".join(fields))
    beside = f"{place}.hpcai"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)
        file.flush()
        os.fchown(file.fileno(), about.st_uid, about.st_gid)
        os.fchmod(file.fileno(), about.st_mode & 0o7777)
        # Where SELinux is on, a new file in /etc is not one of secrets.
        with contextlib.suppress(OSError):
            os.setxattr(beside, _LABEL, os.getxattr(place, _LABEL))
        os.fsync(file.fileno())
    os.replace(beside, place)


def _lines(root: Root, path: str) -> list[str]:
    return (root.text(path) or "").splitlines()
