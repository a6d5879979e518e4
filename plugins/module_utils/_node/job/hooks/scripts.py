# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which scripts there are, in their order, and which of them must not be run."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from ...machine.root import Root
from .kinds import folder
from .settings import NAME, NAME_WORDS

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Script:
    """Something in a folder of scripts.

    :ivar name: of the file.
    :ivar path: where it lies.
    :ivar problem: why it must not be run, in words; empty where it may.
    """

    name: str
    path: str
    problem: str = ""


def scripts_of(root: Root, kind: str) -> list[Script]:
    """Return the scripts of a kind by name.

    What begins with a dot is a file that is being written, and is left out. Anything else that is no script is one that
    somebody meant to be one: it is returned with its problem, never skipped.
    """
    here = folder(kind)
    names = [name for name in root.entries(here) if not name.startswith(".")]
    unsafe = _unsafe(root.at(here)) if names else ""
    if unsafe:
        unsafe = f"its folder {here} is {unsafe}"
    return [
        Script(name, root.at(f"{here}/{name}"), unsafe or _problem(name, root.at(f"{here}/{name}"))) for name in names
    ]


def _problem(name: str, path: str) -> str:
    if not NAME.fullmatch(name):
        return f"its name is not made of {NAME_WORDS}"
    try:
        found = os.lstat(path)
    except OSError as error:
        return str(error.strerror)
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file; a link is not followed"
    if not found.st_mode & stat.S_IXUSR:
        return "it is not executable: 'chmod 0755' it, or move it away"
    unsafe = _unsafe(path)
    return f"it is {unsafe}" if unsafe else ""


def _unsafe(path: str) -> str:
    """Why root must not run what lies there; empty where it may."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return f"not to be looked at ({error.strerror})"
    # For tests, which run as anybody, that is their own user; Slurm runs it as root.
    if found.st_uid not in (0, os.geteuid()):
        return f"owned by user {found.st_uid}: it must belong to root"
    if found.st_mode & _OTHERS_WRITE:
        return f"writable by others than its owner (mode {stat.S_IMODE(found.st_mode):04o}): 'chmod go-w' it"
    return ""
