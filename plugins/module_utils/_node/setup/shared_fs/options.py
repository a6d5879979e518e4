# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options for mounts of shared file systems, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...forms import (
    ConfigError,
    Malformed,
    boolean,
    choice,
    list_of,
    matching,
    number,
    record,
    string,
    wrong,
)

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


def shared_path(path: str, value: Any) -> str:
    """A path where a shared file system may be mounted: it does not belong to the operating system."""
    shown = value.rstrip("/") if isinstance(value, str) else ""
    if value and isinstance(value, str) and not shown:
        raise Malformed(f"{path} must not be /, the root file system. Use a folder such as /shared.")
    if not _PATH.fullmatch(shown) or any(name in ("", ".", "..") for name in shown.split("/")[1:]):
        raise wrong(path, "an absolute path of letters, digits and ._@+-, without '..'", value)
    if shown in _SYSTEM or shown.startswith(("/proc/", "/sys/", "/dev/", "/etc/", "/run/", "/boot/", "/usr/bin")):
        raise Malformed(
            f"{path} must not be {shown}, which belongs to the operating system. Use a folder such as /shared."
        )
    return shown


def _option(path: str, value: Any) -> str:
    option = _ONE_OPTION(path, value)
    if option.partition("=")[0] in ("fail", "user", "users"):
        raise Malformed(f"{path}: fail, user and users are not allowed, because they can block an unattended boot.")
    return option


_ONE_OPTION = matching(r"[A-Za-z0-9_][^\s,\"'\\]*", "one mount option, because each option is an item of the list")
MOUNT_KEYS = {
    "path": shared_path,
    "source": string,
    "type": choice(*TYPES),
    "options": list_of(_option),
    "automount": boolean,
    # A boot may wait for it.
    "timeout": number(1, 300, integral=True),
    "hide": boolean,
}
MOUNT_DEFAULTS: Mapping[str, Any] = {"type": NFS4, "automount": True, "timeout": 30, "hide": False}
MOUNT_REQUIRED = ("path", "source")
_mounts = list_of(record(MOUNT_KEYS, MOUNT_REQUIRED, null_is_absent=True, defaults=MOUNT_DEFAULTS), key="path")


def parse(items: Iterable[Mapping[str, Any]]) -> tuple[Mount, ...]:
    """Return checked mounts, each one after its parents.

    :raises ConfigError: a value is invalid.
    """
    mounts = sorted((_mount(given) for given in _mounts("mounts", list(items))), key=lambda one: one.path.split("/"))
    for first, second in zip(mounts, mounts[1:]):
        if first.path == second.path:
            raise SharedProblem(f"{first.path} is listed twice, from {first.source} and {second.source}. Keep one")
    return tuple(mounts)


def _mount(given: Mapping[str, Any]) -> Mount:
    path, kind, source = given["path"], given["type"], given["source"]
    pattern, shown = _SOURCES[kind]
    if not pattern.fullmatch(source):
        raise wrong(f"mounts[{path}].source", f"of the form {shown} for the type {kind}", source)
    options = given.get("options", DEFAULT_OPTIONS[kind])
    # An option from the user replaces its opposite: suid replaces nosuid, relatime replaces noatime.
    names = {option.partition("=")[0] for option in options} | ({"atime"} if "relatime" in options else set())
    always = tuple(option for option in ALWAYS_OPTIONS if not {option, option[2:]} & names)
    return Mount(path, source, kind, (*options, *always), given["automount"], given["timeout"], given["hide"])
