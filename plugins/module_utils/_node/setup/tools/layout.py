# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What lies where of the node tool.

::

    /usr/bin/hpcnode                          the launcher
    /usr/lib/hpcai/lib  -> trees/hpcnode-...  the tool
    /usr/lib/hpcai/site -> trees/nvidia_...   nvidia-ml-py, for the modules and the tool
    /usr/lib/hpcai/trees/                     one folder per content, named by its digest
    /usr/lib/hpcai/wheels/                    where a wheel waits to be unpacked
    /usr/lib/systemd/system/hpcai-*           units
    /usr/libexec/hpcai/                       what Slurm calls for each job

A new version is built beside the old one and takes its place by one rename of a link, so there is no moment at which
half of it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

HOME = "/usr/lib/hpcai"
TREES = f"{HOME}/trees"
WHEELS = f"{HOME}/wheels"
TOOL, SITE = f"{HOME}/lib", f"{HOME}/site"
LAUNCHER = "/usr/bin/hpcnode"
FOLDERS = (HOME, TREES, WHEELS, "/etc/hpcai", "/var/lib/hpcai")
"""Made where they are missing. The last two belong to others as well and are never removed."""


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
