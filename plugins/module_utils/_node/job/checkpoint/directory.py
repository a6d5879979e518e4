# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Checkpoints on disk: which are finished, which files they contain, and which files each node publishes.

Unchanged sizes and times do not show that a checkpoint is finished, because the writer may be paused. So the program
that saves must give one of three signals:

- MARKER: a file with an agreed name in the checkpoint's folder, written last. Its first line, if not empty, is the save
  id, which distinguishes two saves of one step in one attempt.
- LATEST: a file next to the folders that names the finished one, such as DeepSpeed's ``latest``. DeepSpeed's first rank
  writes it while other ranks may still write their files; ``save_checkpoint`` returns when all are done. So use it for
  a job of one rank, or if all ranks wait for each other before it is written.
- RENAME: a rename gives the folder a name that ends with its step; before, it has another name.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

from ...machine.run import CommandFailed
from ..azcopy.location import trouble_with
from ..hashes import sha256_of
from .names import LARGEST_STEP, SAVE

MARKER, LATEST, RENAME = "marker", "latest", "rename"
KINDS = (MARKER, LATEST, RENAME)
DEFAULT_MARKER = ".complete"
DEFAULT_LATEST = "latest"

_NUMBER = re.compile(r"[0-9]+")
_MOST_READ = 4096


@dataclass(frozen=True)
class Signal:
    """The signal to look for.

    :ivar name: of the marker, or of the file that names the latest checkpoint.
    """

    kind: str = MARKER
    name: str = DEFAULT_MARKER


@dataclass(frozen=True)
class FinishedCheckpoint:
    """A finished checkpoint.

    :ivar stamp: a value that changes when it is saved again.
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
    """Return the step in a folder's name, which is the last number in it; None if there is none."""
    found = _NUMBER.findall(folder)
    return int(found[-1]) if found and int(found[-1]) <= LARGEST_STEP else None


def find_finished(directory: str, signal: Signal) -> list[FinishedCheckpoint]:
    """Return the finished checkpoints in a directory, sorted by step; none if the directory does not exist yet.

    :raises OSError: it cannot be read.
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


def _marked(directory: str, folder: str, name: str) -> list[FinishedCheckpoint]:
    step = step_of(folder)
    try:
        with open(os.path.join(directory, folder, name), encoding="utf-8", errors="replace") as file:
            facts = os.fstat(file.fileno())
            line = file.readline(_MOST_READ).strip()
    except OSError:
        return []
    if step is None or (line and not SAVE.fullmatch(line)):
        return []
    return [FinishedCheckpoint(folder, step, line, _stamp(facts), facts.st_mtime)]


def _renamed(directory: str, folder: str, _name: str) -> list[FinishedCheckpoint]:
    step = step_of(folder)
    if step is None or not folder[-1].isdecimal():
        return []
    try:
        facts = os.stat(os.path.join(directory, folder))
    except OSError:
        return []
    # The folder's change time (ctime) is the time of the rename.
    return [FinishedCheckpoint(folder, step, "", f"{facts.st_ctime_ns}.{facts.st_ino}", facts.st_ctime)]


def _latest(directory: str, folders: list[str], name: str) -> list[FinishedCheckpoint]:
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            facts = os.fstat(file.fileno())
            text = file.read(_MOST_READ)
    except OSError:
        return []
    tag = text.strip()
    # The tag is the folder's name; Megatron writes only the step.
    named = [tag] if tag in folders else [one for one in folders if tag.isdecimal() and step_of(one) == int(tag)]
    step = step_of(named[0]) if len(named) == 1 else None
    if step is None:
        return []
    return [FinishedCheckpoint(named[0], step, "", _stamp(facts), facts.st_mtime, (name, text))]


def _stamp(facts: os.stat_result) -> str:
    return f"{facts.st_mtime_ns}.{facts.st_ino}"


_THREADS = 4


class Refused(CommandFailed):
    """The checkpoint cannot be published, and a retry is useless; the message says why."""


@dataclass(frozen=True)
class Entry:
    """A file below the checkpoint's folder.

    :ivar path: relative to the folder.
    :ivar changed: mtime in nanoseconds, and inode: they change when the file is written to or replaced.
    """

    path: str
    size: int
    changed: tuple[int, int] = (0, 0)


def scan(folder: str) -> tuple[Entry, ...]:
    """Return the files below a folder, sorted by their paths.

    :raises Refused: it contains something that cannot be a blob, such as a link.
    :raises OSError: it cannot be read, or was removed.
    """
    found: list[Entry] = []
    pending = [""]
    while pending:
        inside = pending.pop()
        with os.scandir(os.path.join(folder, inside)) as listed:
            for one in listed:
                path = f"{inside}{one.name}"
                facts = one.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    pending.append(f"{path}/")
                    continue
                if not stat.S_ISREG(facts.st_mode):
                    raise Refused(f"{folder}/{path} is a link or a special file: only folders and files are allowed.")
                trouble = trouble_with(path)
                if trouble:
                    raise Refused(f"{folder}: the name {path!r} {trouble}: rename it.")
                found.append(Entry(path, facts.st_size, (facts.st_mtime_ns, facts.st_ino)))
    return tuple(sorted(found, key=lambda entry: entry.path))


def hashes(folder: str, paths: Sequence[str], before_each: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Return the SHA-256 of files by their paths below the folder. Several files are read in parallel.

    :param before_each: called before each file; an exception that it raises stops the work.
    """

    def read(path: str) -> str:
        before_each()
        return sha256_of(os.path.join(folder, path))

    if len(paths) < _THREADS:
        return {path: read(path) for path in paths}
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(paths, pool.map(read, paths)))


def digest(lines: Iterable[str]) -> str:
    """Return the SHA-256 of lines, none of which contains a newline."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def outline(entries: Iterable[Entry]) -> str:
    """Return a digest of names and sizes of all files, equal on all nodes that see the same folder."""
    return digest(f"{entry.size} {entry.path}" for entry in entries)


def share(entries: Sequence[Entry], rank: int, world: int) -> tuple[Entry, ...]:
    """Return the files that a node publishes from a folder that all nodes see, balanced by bytes.

    Files are assigned from the largest to the smallest, each to the node with the fewest bytes. Every node computes the
    same result.
    """
    loads = [0] * world
    mine: list[Entry] = []
    for entry in sorted(entries, key=lambda one: (-one.size, one.path)):
        least = min(range(world), key=lambda node: (loads[node], node))
        # Count one byte more, so that empty files are distributed too.
        loads[least] += entry.size + 1
        if least == rank:
            mine.append(entry)
    return tuple(sorted(mine, key=lambda one: one.path))


def differences(folder: str, expected: Mapping[str, tuple[int, str]]) -> list[str]:
    """Return the files that differ from the expected size and SHA-256, are missing, or are not expected.

    Sizes are compared first; if one differs, no file is hashed.
    """
    try:
        sizes = {entry.path: entry.size for entry in scan(folder)}
    except (OSError, CommandFailed) as error:
        return [str(error)]
    wrong = [path for path, (size, _sha) in expected.items() if sizes.get(path) != size]
    wrong += [path for path in sizes if path not in expected]
    if wrong:
        return sorted(wrong)
    found = hashes(folder, sorted(expected))
    return sorted(path for path, (_size, sha) in expected.items() if found[path] != sha)
