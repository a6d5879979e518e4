# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which shared file systems are wanted where, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...forms import ConfigError

NFS, NFS4, LUSTRE = "nfs", "nfs4", "lustre"
TYPES = (NFS4, NFS, LUSTRE)
DEFAULT_OPTIONS: Mapping[str, tuple[str, ...]] = {
    # hard: a job waits for a server that is away instead of losing what it wrote.
    # nconnect and 1 MiB: one TCP connection does not fill the network of a GPU machine.
    NFS4: ("vers=4.2", "hard", "proto=tcp", "nconnect=8", "rsize=1048576", "wsize=1048576"),
    NFS: ("vers=3", "hard", "proto=tcp", "nconnect=8", "rsize=1048576", "wsize=1048576"),
    # flock: MPI-IO and Python's libraries lock files on all nodes.
    LUSTRE: ("flock",),
}
ALWAYS_OPTIONS = ("noatime", "nosuid", "nodev", "nofail", "_netdev")
"""nofail takes the mount out of what remote-fs.target waits for."""
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var")
_PATH = re.compile(r"/[A-Za-z0-9._/@+-]+")
_OPTION = re.compile(r"[A-Za-z0-9_][^\s,\"'\\]*")
_SOURCES = {
    NFS4: (re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):/[^\s:]*"), "SERVER:/PATH"),
    NFS: (re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):/[^\s:]*"), "SERVER:/PATH"),
    LUSTRE: (re.compile(r"[^\s/]+@[a-z0-9]+(:[^\s/]+@[a-z0-9]+)*:/[^\s:]+"), "ADDRESS@tcp:/NAME"),
}


class SharedProblem(ConfigError):
    """A mount or an export that cannot or must not be; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Mount:
    """A file system of another machine.

    :ivar automount: mounted when somebody looks, and not at boot.
    :ivar timeout_s: how long one attempt to mount may take.
    :ivar hide: whether it may hide homes of local accounts.
    """

    path: str
    source: str
    kind: str
    options: tuple[str, ...]
    automount: bool
    timeout_s: int
    hide: bool


def parse(items: Iterable[Mapping[str, Any]]) -> tuple[Mount, ...]:
    """Return checked mounts, each after those that it lies below.

    :raises SharedProblem: a value makes no sense.
    """
    mounts = sorted((_mount(item) for item in items), key=lambda mount: mount.path.split("/"))
    for first, second in zip(mounts, mounts[1:]):
        if first.path == second.path:
            raise SharedProblem(f"{first.path} is listed twice, from {first.source} and {second.source}: keep one")
    return tuple(mounts)


def checked_path(what: str, value: Any) -> str:
    """Return a path that a shared file system may have.

    :raises SharedProblem: it is the system's, or none.
    """
    path = value.rstrip("/") if isinstance(value, str) else ""
    if value and isinstance(value, str) and not path:
        raise SharedProblem(f"{what} must not be /: it is the whole machine. Take a folder such as /shared")
    if not _PATH.fullmatch(path) or any(name in ("", ".", "..") for name in path.split("/")[1:]):
        raise SharedProblem(
            f"{what} must be an absolute path of letters, digits and ._@+-, without '..', not {value!r}"
        )
    if path in _SYSTEM or path.startswith(("/proc/", "/sys/", "/dev/", "/etc/", "/run/", "/boot/", "/usr/bin")):
        raise SharedProblem(
            f"{what} must not be {path}, which is the operating system's: take a folder such as /shared"
        )
    return path


def _mount(item: Mapping[str, Any]) -> Mount:
    path = checked_path("path of a mount", item.get("path"))
    kind = item.get("type") or NFS4
    if kind not in TYPES:
        raise SharedProblem(f"type of {path} must be one of {', '.join(TYPES)}, not {kind!r}")
    source = str(item.get("source") or "")
    pattern, form = _SOURCES[kind]
    if not pattern.fullmatch(source):
        raise SharedProblem(f"source of {path} must have the form {form} for {kind}, not {source!r}")
    asked = item.get("options")
    options = DEFAULT_OPTIONS[kind] if asked is None else tuple(str(option) for option in asked)
    for option in options:
        if not _OPTION.fullmatch(option):
            raise SharedProblem(f"options of {path}: {option!r} is no mount option; give a list of single ones")
    # An option of the user's own takes its opposite's place: suid that of nosuid, relatime that of noatime.
    given = {option.partition("=")[0] for option in options} | ({"atime"} if "relatime" in options else set())
    always = tuple(option for option in ALWAYS_OPTIONS if not {option, option[2:]} & given)
    timeout = item.get("timeout")
    timeout = 30 if timeout is None else timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not 1 <= timeout <= 300:
        raise SharedProblem(f"timeout of {path} must be 1 to 300 seconds, not {timeout!r}: a boot may wait for it")
    if given & {"fail", "user", "users"}:
        raise SharedProblem(f"options of {path}: fail, user and users are not for a machine that has to boot by itself")
    return Mount(
        path,
        source,
        str(kind),
        (*options, *always),
        item.get("automount") is not False,
        timeout,
        bool(item.get("hide")),
    )
