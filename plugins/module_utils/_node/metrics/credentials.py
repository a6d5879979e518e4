# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The password with which Prometheus and people reach Alertmanager on the monitor.

Users may log in on that machine, and Alertmanager on loopback without a password would let them silence alerts. The
password is made on the machine and never leaves it; the web configuration has only its hash. If Prometheus has logins,
it scrapes itself with this one.
"""

from __future__ import annotations

import ctypes
import grp
import os
import re
import secrets

from ..machine.atomic import write_file
from ..machine.config import ConfigError
from ..machine.root import Root

USER = "hpcai"
PASSWORD_FILE, WEB_FILE = "alertmanager.password", "alertmanager-web.yml"
_COST = 10
_HASH = re.compile(r"\$2b\$\d\d\$[./A-Za-z0-9]{53}")
_ALPHABET = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")


def ensure(root: Root, folder: str, group: str) -> bool:
    """Create the password and the web configuration unless both exist; return whether they were created.

    :param folder: an existing folder of root.
    :param group: the group that may read both files.
    :raises ConfigError: there is no such group, or this machine cannot make the hash.
    :raises OSError: they cannot be written.
    """
    if all(root.exists(f"{folder}/{name}") for name in (PASSWORD_FILE, WEB_FILE)):
        return False
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigError(f"there is no group {group}: install the package of Prometheus, which creates it") from None
    password = secrets.token_urlsafe(24)
    made = bcrypt(password)
    owner = (os.geteuid(), gid) if os.geteuid() == 0 else None
    write_file(root.at(f"{folder}/{PASSWORD_FILE}"), password, 0o640, owner)
    write_file(root.at(f"{folder}/{WEB_FILE}"), f"basic_auth_users:\n  {USER}: {made}\n", 0o640, owner)
    return True


def bcrypt(password: str) -> str:
    """Return the bcrypt hash of a password, made by the system's libcrypt.

    :raises ConfigError: it has no bcrypt.
    """
    salt = "".join(secrets.choice(_ALPHABET) for _letter in range(21)) + secrets.choice(".Oeu")
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.crypt.restype = ctypes.c_char_p
        made = library.crypt(password.encode(), f"$2b${_COST}${salt}".encode())
        if made and _HASH.fullmatch(made.decode("ascii", "replace")):
            return str(made.decode("ascii"))
    raise ConfigError("the system's libcrypt has no bcrypt: install libcrypt1 or libxcrypt")
