# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What lies where of the node tool.

::

    /usr/bin/hpcnode                          the launcher
    /usr/lib/hpcai/lib  -> trees/hpcnode-...  the tool
    /usr/lib/hpcai/trees/                     one folder per content, named by its digest
    /usr/lib/systemd/system/hpcai-*           units
    /usr/libexec/hpcai/                       what Slurm calls for each job

A new version is built beside the old one and takes its place by one rename of a link, so there is no moment at which
half of it is installed.
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
FOLDERS = (HOME, TREES, "/etc/hpcai", "/var/lib/hpcai")
"""Made where they are missing. The last two belong to others as well and are never removed."""
SITE, WHEELS = f"{HOME}/site", f"{HOME}/wheels"
"""Of version 0.1.0, which unpacked nvidia-ml-py: ``site`` is a link to a tree. They go when no hpcnode of it runs."""


@dataclass(frozen=True)
class File:
    """A file with its content, permissions and owner."""

    content: bytes
    mode: int
    uid: int


@dataclass(frozen=True)
class Compiled:
    """Bytecode, known by its first 16 bytes: which Python it is for, and the hash of its source."""

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
class Other:
    """A device, a socket, or something that cannot be read."""


Entry = Union[File, Compiled, Link, Folder, Other]
Disk = Mapping[str, Entry]
"""What lies where, by absolute path on the machine."""


def tree_of(path: str) -> str:
    """Return the name of the tree that a path lies in; nothing if it lies in none."""
    return path[len(TREES) + 1 :].partition("/")[0] if path.startswith(f"{TREES}/") else ""


MARK = "# Installed by the module hpcai.azure.node_tools, which overwrites it."
"""Stands in each such file; one without it is somebody else's, and is left alone."""
UNIT_FOLDER = "/usr/lib/systemd/system"
ADMIN_UNIT_FOLDER = "/etc/systemd/system"

# -I: neither PYTHONPATH nor anybody's own packages may change what runs as root at boot.
# A new version takes the place of an old one by exchanging the link, and then removes the old one, unless somebody has
# locked it (disk.py): parts are loaded when they are needed, hours later in a process that watches. A start that has
# locked another version than the one that the link points to by then begins again.
_LAUNCHER_TEXT = """\
#!{interpreter} -I
{mark}
import fcntl
import os
import sys

sys.dont_write_bytecode = True
link = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib/hpcai/lib")


def lock():
    while True:
        folder = os.path.realpath(link)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if not os.path.isdir(link):
                raise
            continue
        # Locked until this process ends.
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.path.samestat(os.fstat(handle), os.stat(link)):
            return folder
        os.close(handle)


sys.path.insert(0, lock())
from hpcai_node.cli.main import main

raise SystemExit(main())
"""


def launcher(interpreter: str) -> str:
    """Return the text of /usr/bin/hpcnode."""
    return _LAUNCHER_TEXT.format(interpreter=interpreter, mark=MARK)


def choose_interpreter(given: str | None) -> str:
    """Return the Python for the launcher: the given one, else the one that runs this.

    :raises ToolsError: the kernel could not start it from the launcher's first line.
    """
    stable = "/usr/bin/python3"
    # Ansible finds python3.11, which is gone after the next upgrade of the distribution.
    chosen = given or (stable if os.path.realpath(stable) == os.path.realpath(sys.executable) else sys.executable)
    if not os.path.isabs(chosen) or any(letter.isspace() for letter in chosen) or len(chosen) > 120:
        raise ToolsError(f"hpcnode cannot be run by {chosen!r}: set interpreter to an absolute path without spaces")
    return chosen
