# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How it is told that a checkpoint is finished. Sizes and times that stand still say nothing: a writer may wait.

Three signs, each of which the program that saves gives on purpose:

- MARKER: a file of an agreed name in the checkpoint's folder, written last. Its first line, if it has one, is the save:
  what tells two saves of one step in one attempt apart.
- LATEST: a file beside the folders that names the finished one, as DeepSpeed's ``latest``. DeepSpeed's first rank
  writes it while other ranks may still write their files: it returns from ``save_checkpoint`` when all have. So it is
  good for a job of one rank, or where all ranks wait for each other before it is written.
- RENAME: the folder gets a name that ends with its step by a rename; before it has another one.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .names import LARGEST_STEP, SAVE

MARKER, LATEST, RENAME = "marker", "latest", "rename"
KINDS = (MARKER, LATEST, RENAME)
DEFAULT_MARKER = ".complete"
DEFAULT_LATEST = "latest"

_NUMBER = re.compile(r"[0-9]+")
_MOST_READ = 4096


@dataclass(frozen=True)
class Signal:
    """Which sign.

    :ivar name: of the marker, or of the file that names the latest.
    """

    kind: str = MARKER
    name: str = DEFAULT_MARKER


@dataclass(frozen=True)
class Found:
    """A finished checkpoint.

    :ivar stamp: what changes when it is saved again.
    :ivar when: when it was finished, in seconds since 1970, by the clock of the file system.
    :ivar latest: with LATEST, name and text of the file that named it.
    """

    folder: str
    step: int
    save: str
    stamp: str
    when: float
    latest: tuple[str, str] = ("", "")


def step_of(folder: str) -> int | None:
    """Return the step that a folder's name tells: the last number in it; None if there is none."""
    found = _NUMBER.findall(folder)
    return int(found[-1]) if found and int(found[-1]) <= LARGEST_STEP else None


def find(directory: str, signal: Signal) -> list[Found]:
    """Return the finished checkpoints in a directory by their steps.

    :raises OSError: it cannot be read. One that is not there yet holds none.
    """
    try:
        folders = sorted(
            one.name
            for one in os.scandir(directory)
            if one.is_dir(follow_symlinks=False) and not one.name.startswith((".", "_"))
        )
    except FileNotFoundError:
        return []
    if signal.kind == LATEST:
        found = _latest(directory, folders, signal.name)
    else:
        look = _marked if signal.kind == MARKER else _renamed
        found = [one for folder in folders for one in look(directory, folder, signal.name)]
    return sorted(found, key=lambda one: (one.step, one.folder))


def _marked(directory: str, folder: str, name: str) -> list[Found]:
    step = step_of(folder)
    try:
        with open(os.path.join(directory, folder, name), encoding="utf-8", errors="replace") as file:
            facts = os.fstat(file.fileno())
            line = file.readline(_MOST_READ).strip()
    except OSError:
        return []
    if step is None or (line and not SAVE.fullmatch(line)):
        return []
    return [Found(folder, step, line, _stamp(facts), facts.st_mtime)]


def _renamed(directory: str, folder: str, _name: str) -> list[Found]:
    step = step_of(folder)
    if step is None or not folder[-1].isdecimal():
        return []
    try:
        facts = os.stat(os.path.join(directory, folder))
    except OSError:
        return []
    # The folder's own time of change is that of the rename.
    return [Found(folder, step, "", f"{facts.st_ctime_ns}.{facts.st_ino}", facts.st_ctime)]


def _latest(directory: str, folders: list[str], name: str) -> list[Found]:
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            facts = os.fstat(file.fileno())
            text = file.read(_MOST_READ)
    except OSError:
        return []
    tag = text.strip()
    # A tag is a folder's name; Megatron's is the step alone.
    named = [tag] if tag in folders else [one for one in folders if tag.isdecimal() and step_of(one) == int(tag)]
    step = step_of(named[0]) if len(named) == 1 else None
    if step is None:
        return []
    return [Found(named[0], step, "", _stamp(facts), facts.st_mtime, (name, text))]


def _stamp(facts: os.stat_result) -> str:
    return f"{facts.st_mtime_ns}.{facts.st_ino}"
