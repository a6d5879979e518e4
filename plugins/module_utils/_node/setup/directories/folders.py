# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Making a directory of the settings where every user may put something. machine/user_folders.py does it safely."""

from __future__ import annotations

import contextlib
import os
from typing import Callable

from ...machine.user_folders import Base, FolderProblem, adapt, as_problem, foreign, opened, take
from ..scratch.mounting import gid_of, uid_of
from .wanted import Folder

__all__ = ["Base", "FolderProblem", "make", "opened"]


def make(
    base: Base,
    folder: Folder,
    trusted: frozenset[int],
    check: bool = False,
    warn: Callable[[str], None] = lambda words: None,
) -> str:
    """Make a directory and its parents, or give an existing one its owner, group and mode.

    Nothing is changed below a directory that exists. Missing parents belong to root and have mode 0755. What users have
    put in the place of one is moved aside, with a warning.

    :param trusted: users whose directories may be used where every user may make one.
    :param check: only say what would be done.
    :param warn: takes warnings.
    :return: what was done, or would be; empty where nothing is to be.
    :raises FolderProblem: it cannot be done.
    """
    path = f"{base.path}/{folder.path}"
    uid, gid = uid_of(folder.owner), gid_of(folder.group)
    mine = trusted | {uid, os.geteuid()}
    done = f"make {path} {folder}"
    made = False
    parts = folder.path.split("/")
    with contextlib.ExitStack() as handles:
        here = base
        for place, part in enumerate(parts, start=1):
            so_far = f"{here.path}/{part}"
            with as_problem(so_far, base):
                if check:
                    strange = foreign(here, part, mine)
                    if strange:
                        warn(f"{strange}: it would be moved aside")
                    if strange or here.look(part) is None:
                        return done
                    here = handles.enter_context(here.enter(part))
                    continue
                handle, made_now = take(here, part, mine, warn)
                handles.callback(os.close, handle)
                if made_now and place < len(parts):
                    os.fchmod(handle, 0o755)
            made = made or made_now
            here = Base(handle, so_far, base.filesystem)
        with as_problem(path, base):
            changed = adapt(here.handle, uid, gid, folder.mode, check)
    return done if made or changed else ""
