# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files of the node tool.

::

    /usr/bin/hpcnode                          the launcher
    /usr/lib/hpcai/lib  -> trees/hpcnode-...  the tool
    /usr/lib/hpcai/trees/                     one folder per content, named by its digest
    /usr/lib/systemd/system/hpcai-*           units
    /usr/libexec/hpcai/                       what Slurm calls for each job
    /usr/share/                               manual pages, and completion in shells (share.py)

A new version is built next to the old one and activated by renaming one link, so it is never half installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from .payload import ToolsError

HOME = "/usr/lib/hpcai"
TREES = f"{HOME}/trees"
TOOL = f"{HOME}/lib"
LAUNCHER = "/usr/bin/hpcnode"
LOCK = f"{HOME}/.lock"
"""Held by the run that changes these files. Only root can open it: any user can lock a file that all can read."""
FOLDERS = (HOME, TREES, "/etc/hpcai", "/var/lib/hpcai")
"""Made if they are missing. The last two are also used by others and are never removed."""
SITE, WHEELS = f"{HOME}/site", f"{HOME}/wheels"
"""From version 0.1.0, which unpacked nvidia-ml-py: ``site`` links to a tree. Removed when no hpcnode of it runs."""


@dataclass(frozen=True)
class File:
    """A file with its content, permissions and owner."""

    content: bytes
    mode: int
    uid: int


@dataclass(frozen=True)
class Compiled:
    """Bytecode, identified by its first 16 bytes: the Python that it is for, and the hash of its source."""

    header: bytes
    mode: int
    uid: int


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    """A folder with its permissions and owner."""

    mode: int
    uid: int


@dataclass(frozen=True)
class SpecialFile:
    """A device, a socket, or something that cannot be read."""


Entry = Union[File, Compiled, Link, Folder, SpecialFile]
Disk = Mapping[str, Entry]
"""The files by absolute path on the machine."""


def tree_of(path: str) -> str:
    """Return the name of the tree that a path is in; empty if it is in none."""
    return path[len(TREES) + 1 :].partition("/")[0] if path.startswith(f"{TREES}/") else ""


MARK = "# Installed by the module hpcai.azure.node_tools, which overwrites it."
"""Part of a line in each of our files. A file without it belongs to somebody else, and is left unchanged."""
UNIT_FOLDER = "/usr/lib/systemd/system"
ADMIN_UNIT_FOLDER = "/etc/systemd/system"

LOCK_WAIT_S = 1
"""How long the launcher waits for a lock on its version, in seconds. An installation holds it for milliseconds."""

# -I: neither PYTHONPATH nor users' packages may change what runs as root at boot.
# A new version replaces the old one by switching the link, and then removes the old one, unless a process has locked it
# (disk.py), because modules are imported when needed, in a service perhaps hours later. If the link changed before the
# lock was taken, the launcher starts again. Any user can lock the folder too, so the launcher does not wait for long.
_LAUNCHER_TEXT = """\
#!{interpreter} -I
{mark}
import fcntl
import os
import sys
import time

sys.dont_write_bytecode = True
link = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib/hpcai/lib")


def locked(handle):
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock():
    deadline = time.monotonic() + {wait_s}
    while True:
        folder = os.path.realpath(link)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if not os.path.isdir(link):
                raise
            continue
        # Locked until this process ends.
        while not locked(handle) and time.monotonic() < deadline:
            time.sleep(0.01)
        if os.path.samestat(os.fstat(handle), os.stat(link)):
            return folder
        os.close(handle)


sys.path.insert(0, lock())
from hpcai_node.cli.main import main

raise SystemExit(main())
"""


def launcher(interpreter: str) -> str:
    """Return the text of /usr/bin/hpcnode."""
    return _LAUNCHER_TEXT.format(interpreter=interpreter, mark=MARK, wait_s=LOCK_WAIT_S)


def choose_interpreter(given: str | None) -> str:
    """Return the Python for the launcher: the given one, else the one that runs this code.

    :raises ToolsError: the kernel could not start it from the launcher's first line.
    """
    stable = "/usr/bin/python3"
    # Ansible may find python3.11, which the next upgrade of the distribution removes.
    chosen = given or (stable if os.path.realpath(stable) == os.path.realpath(sys.executable) else sys.executable)
    if not os.path.isabs(chosen) or any(letter.isspace() for letter in chosen) or len(chosen) > 120:
        raise ToolsError(
            f"{chosen!r} cannot run hpcnode. Set interpreter to an absolute path without spaces, "
            f"of at most 120 characters"
        )
    return chosen
