# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads what an item of the catalogue names, with a time limit and a size limit, and never more than that.

Commands get a small environment, run at the lowest priority, and are ended with all their processes. Files are read in
a child process, because a file system may hang. Users may have put links, pipes or their own files where the
collection reads: such entries are refused, not followed.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ..machine.child import Died, Overdue, within
from ..machine.root import Root
from ..machine.run import LIMIT, Ended, follow
from ..machine.user_folders import FolderProblem, open_system_file

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "TZ": "UTC",
    "HOME": "/",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_PAGER": "",
}
"""The complete environment of commands, so that no token of the caller's environment reaches a tool."""
_GRACE_S = 1.0
_BLOCK = 1 << 16

NEVER = (
    *("*/munge.key", "*/jwt*.key", "*.key", "*.pem", "*.pfx", "*/shadow*", "*/gshadow*", "*/sudoers*", "*/.ssh/*"),
    *("/proc/*/environ", "/proc/*/cmdline", "/proc/*/mem", "*/slurm.jwks", "*sas*", "*token*", "*credential*"),
    *("/var/lib/cloud/*", "/var/lib/waagent/*", "/var/log/cloud-init*", "/etc/munge/*", "/root/*", "/home/*"),
    *("*/enroot/.credentials", "*/.netrc", "*/.docker/*", "*/etc/ssl/private/*", "*/kubeconfig*", "*.kdbx"),
)
"""Patterns of paths that are never opened, whatever the catalogue or a link says."""


@dataclass(frozen=True)
class Raw:
    """What was read, before anything is hidden.

    :ivar exit: exit status of the command; None for files, and for a command that could not be ended.
    :ivar cut: why something is missing: ``size``, ``time``; empty if nothing is.
    :ivar note: one line about what could not be read; empty if nothing went wrong.
    """

    text: str
    exit: int | None = None
    cut: str = ""
    note: str = ""


class _Enough(Exception):
    """The size limit is reached."""


def read_command(words: Sequence[str], limit_s: float, most_bytes: int) -> Raw:
    """Run a command, and return the beginning of its output."""
    chunks: list[bytes] = []
    size = 0

    def gather(chunk: bytes) -> bool:
        nonlocal size
        size += len(chunk)
        chunks.append(chunk)
        if size > most_bytes:
            raise _Enough
        return True

    try:
        ended = follow(words, ENVIRONMENT, gather, limit_s, grace_s=_GRACE_S, cwd="/")
    except FileNotFoundError:
        return Raw("", 127, note="not installed")
    except OSError as error:
        return Raw("", 126, note=f"{words[0]}: {error.strerror}")
    except _Enough:
        return Raw(_complete_lines(b"".join(chunks)[:most_bytes], first=True), cut="size")
    return _ended(ended, b"".join(chunks), limit_s)


def _ended(ended: Ended, output: bytes, limit_s: float) -> Raw:
    cut = "time" if ended.cut == LIMIT else ""
    note = f"no answer within {limit_s:g} s" if cut else ""
    if ended.rc is None:
        note = f"no answer within {limit_s:g} s, and it cannot be killed: it hangs in the kernel"
    text = _complete_lines(output, first=True) if cut else output.decode("utf-8", "replace")
    return Raw(text, ended.rc, cut, note)


def _complete_lines(data: bytes, first: bool) -> str:
    """Return text without its incomplete line: half a secret would not look like one.

    :param first: whether the data is the beginning of the text, and not its end.
    """
    beginning, newline, rest = data.rpartition(b"\n") if first else data.partition(b"\n")
    kept = beginning + newline if first else rest
    return kept.decode("utf-8", "replace")


def may_be_opened(path: str) -> bool:
    """Whether a path is none of those that are never opened."""
    return not any(fnmatch.fnmatch(path.lower(), pattern) for pattern in NEVER)


def read_files(root: Root, paths: Sequence[str], newest: int, most_bytes: int) -> dict[str, Any]:
    """Return the ends of files, each below a line with its path, as plain values for the parent process.

    :param paths: paths; the last part of a path may be a pattern.
    :param newest: for a pattern, how many files to read, the newest first.
    """
    found = [path for given in paths for path in _matching(root, given, newest)]
    texts: list[list[str]] = []
    notes: list[str] = []
    cut = False
    for path in found:
        try:
            text, was_cut = _end_of(root, path, most_bytes // max(1, len(found)))
        except (OSError, FolderProblem) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            notes.append(f"{path}: {reason}")
            continue
        texts.append([path, text])
        cut = cut or was_cut
    if not found:
        notes.append("there is no such file")
    return {"files": texts, "cut": cut, "note": "; ".join(notes[:5])}


def _matching(root: Root, path: str, newest: int) -> list[str]:
    folder, name = os.path.split(path)
    if not set(name) & set("*?["):
        return [path] if root.exists(path) else []
    entries = [f"{folder}/{entry}" for entry in root.entries(folder) if fnmatch.fnmatchcase(entry, name)]
    return sorted(sorted(entries, key=lambda entry: -_changed(root, entry))[:newest])


def _changed(root: Root, path: str) -> float:
    try:
        return os.lstat(root.at(path)).st_mtime
    except OSError:
        return 0.0


def _end_of(root: Root, path: str, most_bytes: int) -> tuple[str, bool]:
    if not may_be_opened(path):
        raise FolderProblem("this file may contain secrets and is never read")
    handle = open_system_file(root, path)
    with open(handle, "rb") as file:
        real = os.readlink(f"/proc/self/fd/{file.fileno()}")
        if not may_be_opened(real if root.is_this_machine else f"/{os.path.relpath(real, root.path)}"):
            raise FolderProblem("this is a link to a file that may contain secrets and is never read")
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            file.seek(size - most_bytes)
            return _complete_lines(file.read(most_bytes), first=False), True
        # Files in /proc and /sys have no size.
        data = b""
        while len(data) <= most_bytes:
            block = file.read(_BLOCK)
            if not block:
                return data.decode("utf-8", "replace"), False
            data += block
        return _complete_lines(data[:most_bytes], first=True), True


def in_child(function: Callable[[], Mapping[str, Any]], limit_s: float) -> dict[str, Any]:
    """Return what a function returns in a child process, or ``note`` and ``cut`` if it does not answer or fails."""

    def guarded() -> Mapping[str, Any]:
        try:
            return function()
        except Exception as error:
            # One item must not end the collection.
            return {"note": f"{type(error).__name__}: {error}"}

    began = time.monotonic()
    try:
        return within(limit_s, guarded)
    except Overdue as error:
        return {"note": f"no answer within {limit_s:g} s{error}", "cut": True, "overdue": True}
    except (Died, OSError, ValueError) as error:
        return {"note": f"{error} after {time.monotonic() - began:.1f} s"}


def regular_size(path: str) -> int:
    """Return the size of a file that root's own tool has written; 0 if it is no regular file."""
    try:
        facts = os.lstat(path)
    except OSError:
        return 0
    return facts.st_size if stat.S_ISREG(facts.st_mode) else 0
