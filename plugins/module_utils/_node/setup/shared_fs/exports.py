# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folders that an NFS server exports, and to which clients."""

from __future__ import annotations

import ipaddress
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from ...forms import list_of, matching, not_empty, record, string
from ...machine.root import Root
from ...machine.run import Run, must
from ...machine.user_folders import FolderProblem, adapt, walk
from ..managed_file import FileChange, change_of
from ..scratch.mounting import gid_of, uid_of
from ..scratch.options import octal_mode
from .options import SharedProblem, shared_path

FILE, ACTIVE = "/etc/exports.d/hpcai.exports", "/var/lib/nfs/etab"
HEADER = "# Written by the module hpcai.azure.nfs_exports, which overwrites it."
LOCAL = "local"
DEFAULT_OPTIONS = ("rw", "sync", "no_subtree_check", "root_squash")

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
PRIVATE: tuple[Network, ...] = tuple(
    ipaddress.ip_network(name)
    for name in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "::1/128")
)
"""RFC 1918, RFC 4193, and loopback addresses."""


@dataclass(frozen=True)
class Export:
    """A folder that other machines may mount.

    :ivar networks: networks for this folder only; empty to use the common ones.
    :ivar owner: user, group and mode of the folder, if it has to be made.
    """

    path: str
    options: tuple[str, ...]
    networks: tuple[str, ...]
    owner: tuple[str, str, int]


EXPORT_KEYS = {
    "path": shared_path,
    "options": list_of(
        matching(
            r"[a-z_]+(=[A-Za-z0-9:/@._-]+)?", "one option of exports(5), because each option is an item of the list"
        )
    ),
    "networks": list_of(string),
    "owner": not_empty,
    "group": not_empty,
    "mode": octal_mode,
}
EXPORT_DEFAULTS: Mapping[str, Any] = {
    "options": DEFAULT_OPTIONS,
    "networks": (),
    "owner": "root",
    "group": "root",
    "mode": "0755",
}
EXPORT_REQUIRED = ("path",)
_exports = list_of(record(EXPORT_KEYS, EXPORT_REQUIRED, null_is_absent=True, defaults=EXPORT_DEFAULTS), key="path")


def parse(items: Iterable[Mapping[str, Any]]) -> tuple[Export, ...]:
    """Return checked exports.

    :raises ConfigError: a value is invalid.
    """
    found: dict[str, Export] = {}
    for given in _exports("exports", list(items)):
        path = given["path"]
        if path in found:
            raise SharedProblem(f"{path} is exported twice. Keep one")
        owner = (given["owner"], given["group"], given["mode"])
        found[path] = Export(path, given["options"], given["networks"], owner)
    return tuple(found[path] for path in sorted(found))


def networks(names: Iterable[str], run: Run, allow_public: bool = False) -> tuple[Network, ...]:
    """Return the networks, an address as a network of its own, without networks that are part of another.

    :param names: networks and addresses; ``local`` is the subnet of this machine's default route.
    :raises SharedProblem: a name is not a network, or is not private.
    """
    found: list[Network] = []
    for name in names:
        found += _local(run) if name == LOCAL else [checked_network(name, allow_public)]
    four = [network for network in found if isinstance(network, ipaddress.IPv4Network)]
    six = [network for network in found if isinstance(network, ipaddress.IPv6Network)]
    return (*ipaddress.collapse_addresses(four), *ipaddress.collapse_addresses(six))


def checked_network(name: str, allow_public: bool) -> Network:
    """Return the network of this name.

    :raises SharedProblem: it is not a network, or is not private.
    """
    try:
        network = ipaddress.ip_network(name, strict=False)
    except ValueError as error:
        raise SharedProblem(f"{name!r} is neither a network nor an address, such as 10.0.0.0/24: {error}") from error
    if network.prefixlen == 0:
        raise SharedProblem(
            f"{name} includes everybody, and an NFS server trusts its clients. List the cluster's subnets"
        )
    if not allow_public and not any(_lies_in(network, private) for private in PRIVATE):
        raise SharedProblem(
            f"{name} is not a private network (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16), and an NFS server trusts "
            f"its clients. List the cluster's subnets, or explicitly allow public networks"
        )
    return network


def _lies_in(network: Network, other: Network) -> bool:
    # subnet_of() does not compare IPv4 with IPv6.
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(other, ipaddress.IPv4Network) and network.subnet_of(other)
    return isinstance(other, ipaddress.IPv6Network) and network.subnet_of(other)


def _local(run: Run) -> list[Network]:
    """Return the subnet of the default route: Azure gives a machine the prefix of its subnet."""
    routes = json.loads(must(run(["ip", "-json", "route", "show", "default"])).stdout or "[]")
    devices = [route["dev"] for route in routes if route.get("dev")]
    if not devices:
        raise SharedProblem("this machine has no default route, so its subnet is not known. List the networks")
    interfaces = json.loads(must(run(["ip", "-json", "-4", "address", "show", "dev", devices[0]])).stdout or "[]")
    found = [
        checked_network(f"{address['local']}/{address['prefixlen']}", allow_public=False)
        for interface in interfaces
        for address in interface.get("addr_info", [])
        if address.get("scope") == "global"
    ]
    if not found:
        raise SharedProblem(f"{devices[0]} has no IPv4 address, so the subnet is not known. List the networks")
    return found


def text(exports: Sequence[Export], everybodys: Sequence[str], run: Run, allow_public: bool) -> str | None:
    """Return the text of the file; None without exports.

    :raises SharedProblem: an export has no networks, or networks that are not allowed.
    """
    lines = [HEADER]
    for export in exports:
        clients = networks(export.networks or everybodys, run, allow_public)
        if not clients:
            raise SharedProblem(f"{export.path} has no networks that may mount it. List the cluster's subnets")
        options = ",".join(export.options)
        lines.append(" ".join([export.path, *(f"{_shown(client)}({options})" for client in clients)]))
    return "".join(f"{line}\n" for line in lines) if exports else None


def _shown(network: Network) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def plan(root: Root, after: str | None) -> FileChange:
    """Return the change of the file."""
    return change_of(root.at(FILE), after)


def make_folders(root: Root, exports: Sequence[Export], check: bool) -> list[str]:
    """Make exported folders that do not exist; an existing one is left unchanged.

    :raises SharedProblem: something that is not a folder is in the way.
    """
    made = []
    for export in exports:
        path = root.at(export.path)
        if os.path.lexists(path):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise SharedProblem(f"{export.path} is not a folder, so it cannot be exported")
            continue
        owner, group, mode = export.owner
        made.append(f"make {export.path} {owner}:{group} {mode:04o}")
        if not check:
            _make(root, export.path, uid_of(owner), gid_of(group), mode)
    return made


def _make(root: Root, path: str, uid: int, gid: int, mode: int) -> None:
    parent, name = os.path.split(path)
    try:
        with walk(root, parent, make_mode=0o755) as base:
            os.mkdir(name, 0o700, dir_fd=base.handle)
            with base.enter(name) as folder:
                adapt(folder.handle, uid, gid, mode)
    except FolderProblem as error:
        raise SharedProblem(f"{path} cannot be made: {error}") from error


def is_running(run: Run) -> bool:
    """Whether the server runs. A server that starts later reads its files then."""
    return run(["systemctl", "is-active", "--quiet", "nfs-server.service"]).rc == 0


def is_stale(root: Root, after: str | None) -> bool:
    """Whether a running server has not read the current file."""
    active = {(words[0], words[1].partition("(")[0]) for words in _words(root.text(ACTIVE)) if len(words) > 1}
    expected = {(words[0], client.partition("(")[0]) for words in _words(after) for client in words[1:]}
    return not expected <= active


def refresh(run: Run) -> None:
    """Let the server read its files again.

    :raises CommandFailed: it refused them.
    """
    must(run(["exportfs", "-ra"]))


def _words(table: str | None) -> list[list[str]]:
    return [line.split() for line in (table or "").splitlines() if line.startswith("/")]
