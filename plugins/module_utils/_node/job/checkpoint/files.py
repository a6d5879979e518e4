# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files of a checkpoint on disk: which there are, their hashes, and who of several nodes gives which."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

from ...machine.run import CommandFailed
from ..azcopy.place import trouble_with
from ..hashes import sha256_of

_THREADS = 4


class Refused(CommandFailed):
    """It cannot be published, now or later; the message says why."""


@dataclass(frozen=True)
class Entry:
    """A file below the checkpoint's folder.

    :ivar path: relative to it.
    :ivar changed: what changes when somebody writes to it or replaces it: mtime in nanoseconds, and inode.
    """

    path: str
    size: int
    changed: tuple[int, int] = (0, 0)


def scan(folder: str) -> tuple[Entry, ...]:
    """Return the files below a folder, sorted by their paths.

    :raises Refused: it holds something that no blob can be, such as a link.
    :raises OSError: it cannot be read, or is gone.
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
                    raise Refused(f"{folder}/{path} is a link or no file: a checkpoint is folders and files.")
                trouble = trouble_with(path)
                if trouble:
                    raise Refused(f"{folder}: the name {path!r} {trouble}: rename it.")
                found.append(Entry(path, facts.st_size, (facts.st_mtime_ns, facts.st_ino)))
    return tuple(sorted(found, key=lambda entry: entry.path))


def hashes(folder: str, paths: Sequence[str], beat: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Return the SHA-256 of files by their paths below the folder. Several are read at a time.

    :param beat: called before each file; what it raises ends the work.
    """

    def read(path: str) -> str:
        beat()
        return sha256_of(os.path.join(folder, path))

    if len(paths) < _THREADS:
        return {path: read(path) for path in paths}
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(paths, pool.map(read, paths)))


def digest(lines: Iterable[str]) -> str:
    """Return the SHA-256 of lines, none of which holds a newline."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def outline(entries: Iterable[Entry]) -> str:
    """Return what stands for names and sizes of all files: the same on all nodes that see the same folder."""
    return digest(f"{entry.size} {entry.path}" for entry in entries)


def share(entries: Sequence[Entry], rank: int, world: int) -> tuple[Entry, ...]:
    """Return which files a node gives of a folder that all nodes see, balanced by bytes.

    The largest first, each to whom has least: every node comes to the same answer by itself.
    """
    loads = [0] * world
    mine: list[Entry] = []
    for entry in sorted(entries, key=lambda one: (-one.size, one.path)):
        least = min(range(world), key=lambda node: (loads[node], node))
        # A byte more than it has: empty files are dealt out too.
        loads[least] += entry.size + 1
        if least == rank:
            mine.append(entry)
    return tuple(sorted(mine, key=lambda one: one.path))


def differences(folder: str, wanted: Mapping[str, tuple[int, str]]) -> list[str]:
    """Return which files differ from what is wanted, by path: size and SHA-256; what is there besides, too.

    Sizes first: where one differs, nothing is hashed.
    """
    try:
        there = {entry.path: entry.size for entry in scan(folder)}
    except (OSError, CommandFailed) as error:
        return [str(error)]
    wrong = [path for path, (size, _sha) in wanted.items() if there.get(path) != size]
    wrong += [path for path in there if path not in wanted]
    if wrong:
        return sorted(wrong)
    found = hashes(folder, sorted(wanted))
    return sorted(path for path, (_size, sha) in wanted.items() if found[path] != sha)
