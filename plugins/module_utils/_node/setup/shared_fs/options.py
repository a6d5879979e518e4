# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options for mounts of shared file systems, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...forms import ConfigError

NFS, NFS4, LUSTRE = "nfs", "nfs4", "lustre"
TYPES = (NFS4, NFS, LUSTRE)
DEFAULT_OPTIONS: Mapping[str, tuple[str, ...]] = {
    # hard: a job waits for a server that does not answer, and does not lose written data.
    # nconnect and 1 MiB: one TCP connection cannot use the full network bandwidth of a GPU node.
    NFS4: ("vers=4.2", "hard", "proto=tcp", "nconnect=8", "rsize=1048576", "wsize=1048576"),
    NFS: ("vers=3", "hard", "proto=tcp", "nconnect=8", "rsize=1048576", "wsize=1048576"),
    # flock: MPI-IO and Python libraries use file locks across nodes.
    LUSTRE: ("flock",),
}
ALWAYS_OPTIONS = ("noatime", "nosuid", "nodev", "nofail", "_netdev")
"""With nofail, remote-fs.target does not wait for the mount."""
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var")
_PATH = re.compile(r"/[A-Za-z0-9._/@+-]+")
_OPTION = re.compile(r"[A-Za-z0-9_][^\s,\"'\\]*")
_SOURCES = {
    NFS4: (re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):/[^\s:]*"), "SERVER:/PATH"),
    NFS: (re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):/[^\s:]*"), "SERVER:/PATH"),
    LUSTRE: (re.compile(r"[^\s/]+@[a-z0-9]+(:[^\s/]+@[a-z0-9]+)*:/[^\s:]+"), "ADDRESS@tcp:/NAME"),
}


class SharedProblem(ConfigError):
    """An invalid or forbidden mount or export; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Mount:
    """A file system of another machine.

    :ivar automount: mount it at the first access instead of at boot.
    :ivar timeout_s: timeout of one attempt to mount.
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
    """Return checked mounts, each one after its parents.

    :raises SharedProblem: a value is invalid.
    """
    mounts = sorted((_mount(item) for item in items), key=lambda mount: mount.path.split("/"))
    for first, second in zip(mounts, mounts[1:]):
        if first.path == second.path:
            raise SharedProblem(f"{first.path} is listed twice, from {first.source} and {second.source}. Keep one")
    return tuple(mounts)


def checked_path(what: str, value: Any) -> str:
    """Return a path where a shared file system may be mounted.

    :raises SharedProblem: it belongs to the operating system, or is not a valid path.
    """
    path = value.rstrip("/") if isinstance(value, str) else ""
    if value and isinstance(value, str) and not path:
        raise SharedProblem(f"{what} must not be /, the root file system. Use a folder such as /shared")
    if not _PATH.fullmatch(path) or any(name in ("", ".", "..") for name in path.split("/")[1:]):
        raise SharedProblem(
            f"{what} must be an absolute path of letters, digits and ._@+-, without '..', not {value!r}"
        )
    if path in _SYSTEM or path.startswith(("/proc/", "/sys/", "/dev/", "/etc/", "/run/", "/boot/", "/usr/bin")):
        raise SharedProblem(
            f"{what} must not be {path}, which belongs to the operating system. Use a folder such as /shared"
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
            raise SharedProblem(
                f"options of {path}: {option!r} is not a mount option. Write each option as a list item"
            )
    # An option from the user replaces its opposite: suid replaces nosuid, relatime replaces noatime.
    given = {option.partition("=")[0] for option in options} | ({"atime"} if "relatime" in options else set())
    always = tuple(option for option in ALWAYS_OPTIONS if not {option, option[2:]} & given)
    timeout = item.get("timeout")
    timeout = 30 if timeout is None else timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not 1 <= timeout <= 300:
        raise SharedProblem(
            f"timeout of {path} must be 1 to 300 seconds, not {timeout!r}, because a boot may wait for it"
        )
    if given & {"fail", "user", "users"}:
        raise SharedProblem(
            f"options of {path}: fail, user and users are not allowed, because they can block an unattended boot"
        )
    return Mount(
        path,
        source,
        str(kind),
        (*options, *always),
        item.get("automount") is not False,
        timeout,
        bool(item.get("hide")),
    )
