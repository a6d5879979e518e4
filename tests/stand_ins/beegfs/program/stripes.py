# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Distributes the bytes of a file in chunks of 512 KiB over its targets, in turn."""

from __future__ import annotations

from typing import Any

from .servers import Question, Servers

CHUNK = 512 * 1024


def pieces(offset: int, length: int, targets: int) -> list[tuple[int, int, int]]:
    """Split a range of a file into (index of the target, offset in that target's part, bytes)."""
    found = []
    end = offset + length
    while offset < end:
        chunk, within = divmod(offset, CHUNK)
        size = min(CHUNK - within, end - offset)
        found.append((chunk % targets, chunk // targets * CHUNK + within, size))
        offset += size
    return found


def share(size: int, index: int, targets: int) -> int:
    """Return the length of one target's part of a file of this size."""
    whole, rest = divmod(size, CHUNK)
    rounds, left = divmod(whole, targets)
    return rounds * CHUNK + (CHUNK if index < left else rest if index == left else 0)


class Content:
    """The content of files, on the storage servers."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def write(self, file: int, targets: list[int], offset: int, content: memoryview) -> None:
        """Write a range of a file."""
        questions: list[Question] = []
        done = 0
        for index, at, size in pieces(offset, len(content), len(targets)):
            header = {"op": "write", "file": f"{file:X}", "offset": at}
            questions.append((targets[index], header, content[done : done + size]))
            done += size
        self._servers.storage(questions)

    def read(self, file: int, targets: list[int], offset: int, length: int) -> bytes:
        """Read a range within the file; bytes that were never written are zero."""
        questions: list[Question] = []
        sizes = []
        for index, at, size in pieces(offset, length, len(targets)):
            questions.append((targets[index], {"op": "read", "file": f"{file:X}", "offset": at, "length": size}, b""))
            sizes.append(size)
        answers = self._servers.storage(questions)
        return b"".join(content.ljust(size, b"\0") for (_unused, content), size in zip(answers, sizes, strict=True))

    def truncate(self, file: int, targets: list[int], size: int) -> None:
        """Truncate a file."""
        self._each("truncate", file, targets, [share(size, index, len(targets)) for index in range(len(targets))])

    def sync(self, file: int, targets: list[int]) -> None:
        """Flush a file to the servers' disks."""
        self._each("sync", file, targets)

    def remove(self, file: int, targets: list[int]) -> None:
        """Remove a file's content."""
        self._each("remove", file, targets)

    def _each(self, op: str, file: int, targets: list[int], lengths: list[int] | None = None) -> None:
        header: dict[str, Any] = {"op": op, "file": f"{file:X}"}
        per_target = [{**header, "length": length} for length in lengths] if lengths else [header] * len(targets)
        self._servers.storage([(target, one, b"") for target, one in zip(targets, per_target, strict=True)])

    def space(self) -> tuple[int, int, int, int]:
        """Return blocks of 4096 bytes, total and free, and inodes, total and free, of all targets."""
        storage = {target["node"]: target["number"] for target in self._servers.found["targets"]}
        answers = self._servers.storage([(target, {"op": "space"}, b"") for target in storage.values()])
        targets = [space for answer, _unused in answers for space in answer["targets"].values()]
        blocks, free, inodes, inodes_free = (sum(column) for column in zip(*targets, strict=True))
        return blocks, free, inodes, inodes_free
