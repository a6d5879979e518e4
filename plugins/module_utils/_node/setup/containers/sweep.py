# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What jobs left behind that died with the machine: their containers and half-imported images.

Only what bears the name of a job's: ``pyxis_<job>_<name>``, ``pyxis_<job>.<step>``, ``<job>.<step>.squashfs``. A
container that a user made and named is his. It is removed as the user whose it is, so that nobody can lead this
elsewhere by a link.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...machine import owners
from ...machine.root import Root
from ...machine.run import Run
from ...machine.user_folders import remove_as_owner

SWEPT = "/run/hpcai/containers.swept"
"""There after the sweep of this boot: /run is empty after each."""
_CONTAINER = re.compile(r"pyxis_(?P<job>\d+)(_.+|\.\d+)")
_IMAGE = re.compile(r"(?P<job>\d+)\.\d+\.squashfs")


@dataclass(frozen=True)
class Leftover:
    """Something of a job that is no more.

    :ivar uid: user whose it is.
    :ivar path: where it lies.
    """

    uid: int
    path: str


def live_jobs(root: Root) -> set[str]:
    """Return the ids of jobs that have a slurmstepd on this machine."""
    return {str(job) for job in owners.live_jobs(owners.read_owned(root))}


def leftovers(data_path: str, runtime_path: str, root: Root) -> list[Leftover]:
    """Return what jobs left behind that do not run any more.

    :param data_path: folder of the users' folders with containers, such as /scratch/enroot/data.
    :param runtime_path: pyxis' folder, of users' folders with images.
    """
    live = live_jobs(root)
    found = []
    for parent, form in ((data_path, _CONTAINER), (runtime_path, _IMAGE)):
        for folder, uid in _users(parent, root) if parent else ():
            for name in root.entries(folder):
                match = form.fullmatch(name)
                if match and match["job"] not in live:
                    found.append(Leftover(uid, root.at(f"{folder}/{name}")))
    return found


def _users(parent: str, root: Root) -> Iterator[tuple[str, int]]:
    """The folders of users in it: a real folder that belongs to the user whose number is in its name."""
    for name in root.entries(parent):
        number = name.rpartition("-")[2]
        if not number.isdecimal() or name not in (number, f"user-{number}"):
            continue
        found = os.lstat(root.at(f"{parent}/{name}"))
        if os.path.isdir(root.at(f"{parent}/{name}")) and found.st_uid == int(number) and not _is_link(found.st_mode):
            yield f"{parent}/{name}", found.st_uid


def _is_link(mode: int) -> bool:
    return mode & 0o170000 == 0o120000


def remove(found: list[Leftover], run: Run) -> list[str]:
    """Remove them, each as its user; return what could not be removed, in words."""
    return [problem for left in found if (problem := remove_as_owner(left.path, left.uid, run))]
