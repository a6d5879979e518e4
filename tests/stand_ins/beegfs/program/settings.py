# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ``key = value`` file of a daemon, of the client and of the tools, and the command line that overrides it."""

from __future__ import annotations

import fcntl
import hashlib
import socket
import struct
from pathlib import Path

VERSION = "7.4.7"
_AUTH_AT_MOST, _AUTH_AT_LEAST = 1024, 4
_SIOCGIFADDR = 0x8915
_TRUE = {"true", "yes", "1", "y", "t", "on"}

DEFAULTS = {
    "connAuthFile": "",
    "connClientPortUDP": "8004",
    "connCommRetrySecs": "600",
    "connDisableAuthentication": "false",
    "connHelperdPortTCP": "8006",
    "connInterfacesFile": "",
    "connMetaPortTCP": "8005",
    "connMetaPortUDP": "8005",
    "connMgmtdPortTCP": "8008",
    "connMgmtdPortUDP": "8008",
    "connPortShift": "0",
    "connStoragePortTCP": "8003",
    "connStoragePortUDP": "8003",
    "connTCPFallbackEnabled": "true",
    "connUnmountRetries": "true",
    "connUseRDMA": "true",
    "logStdFile": "",
    "pidFile": "",
    "runDaemonized": "false",
    "storeAllowFirstRunInit": "true",
    "storeMetaDirectory": "",
    "storeMgmtdDirectory": "",
    "storeStorageDirectory": "",
    "sysAllowNewServers": "true",
    "sysMgmtdHost": "",
    "sysMountSanityCheckMS": "11000",
    "sysTargetOfflineTimeoutSecs": "180",
}
_CLIENTS = {"connCommRetrySecs", "connTCPFallbackEnabled", "connUnmountRetries", "sysMountSanityCheckMS"}
_FOLDERS = {"storeMetaDirectory", "storeMgmtdDirectory", "storeStorageDirectory"}
FOREIGN = {
    "mgmtd": _CLIENTS | _FOLDERS - {"storeMgmtdDirectory"},
    "meta": _CLIENTS | _FOLDERS - {"storeMetaDirectory"} | {"sysAllowNewServers"},
    "storage": _CLIENTS | _FOLDERS - {"storeStorageDirectory"} | {"sysAllowNewServers"},
    "helperd": _CLIENTS | _FOLDERS | {"storeAllowFirstRunInit", "sysAllowNewServers", "sysTargetOfflineTimeoutSecs"},
}
"""Keys that a daemon rejects because they belong to others. beegfs-ctl and the client accept all keys."""


class Wrong(Exception):
    """The configuration is invalid."""


class Insecure(Exception):
    """There is no secret, and authentication is not disabled."""


class Settings:
    """Settings from a file and words such as ``connPortShift=1000``, with the real programs' defaults."""

    def __init__(self, words: list[str], default_file: str = "", kind: str = "") -> None:
        given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
        self.file = given.pop("cfgFile", default_file)
        found = {**(self._read(self.file) if self.file else {}), **given}
        foreign = [key for key in found if key in FOREIGN.get(kind, ())]
        if foreign:
            raise Wrong(f"The config argument '{foreign[0]}' is invalid")
        self._values = {**DEFAULTS, **found}

    @staticmethod
    def _read(file: str) -> dict[str, str]:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise Wrong(f"Unable to load config file: {file} (SysErr: {error.strerror})") from error
        found = {}
        for line in text.splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.lstrip().startswith("#"):
                found[key.strip()] = value.strip()
        return found

    def text(self, key: str) -> str:
        """Return a value as text."""
        return self._values[key]

    def number(self, key: str) -> int:
        """Return a value as an integer."""
        try:
            return int(self._values[key])
        except ValueError:
            raise Wrong(f"Invalid value for {key}: {self._values[key]}") from None

    def true(self, key: str) -> bool:
        """Return a value as a boolean."""
        return self._values[key].lower() in _TRUE

    def port(self, key: str) -> int:
        """Return a port, shifted by connPortShift."""
        return self.number(key) + self.number("connPortShift")

    def secret(self) -> str:
        """Return the secret that peers must send, or an empty string if authentication is disabled."""
        file = self.text("connAuthFile")
        if not file:
            if self.true("connDisableAuthentication"):
                return ""
            raise Insecure("No connAuthFile configured. To go without one, set connDisableAuthentication to true.")
        try:
            content = Path(file).read_bytes()[:_AUTH_AT_MOST]
        except OSError as error:
            raise Wrong(f"Unable to open auth file: {file} (SysErr: {error.strerror})") from error
        if len(content) < _AUTH_AT_LEAST:
            raise Wrong(f"Auth file is empty: {file}")
        return hashlib.sha256(content).hexdigest()

    def address(self) -> str:
        """Return the address at which others reach this machine. Like the real programs, ignore ``lo``."""
        listed = self.text("connInterfacesFile")
        allowed = Path(listed).read_text(encoding="utf-8").split() if listed else []
        found = {name: _address_of(name) for _number, name in socket.if_nameindex() if name != "lo"}
        for name in allowed or found:
            if found.get(name):
                return found[name]
        raise Wrong("Couldn't find any usable NIC")


def _address_of(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
