# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Takes files from azcopy's folder, checks size and hash, decompresses them, and then moves them to their final paths.

It works while azcopy runs, so that files verified before a kill need not be copied again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from ...machine.mounts import is_full
from ..azcopy.output import DAMAGED, FULL, OTHER, Blob, Failure, sentence_of
from ..hashes import CHUNK_SIZE, md5
from .manifest import Journal, Staged
from .options import is_unpacked

_LOOK_S = 0.25


class Receiver:
    """Watches a folder in which files appear, and moves each verified file to its final path.

    :param incoming: the folder, which contains nothing else.
    :param target: the folder of the final paths.
    :param blobs: the blobs that may appear, by name.
    :param paths: their paths below the target, by name.
    :param workers: how many files to handle at a time.
    :param sums: their expected SHA-256 by path; None to accept any.
    """

    def __init__(
        self,
        incoming: str,
        target: str,
        blobs: Mapping[str, Blob],
        paths: Mapping[str, str],
        journal: Journal,
        decompress: bool,
        workers: int,
        sums: Mapping[str, str] | None = None,
    ) -> None:
        self._incoming, self._target, self._blobs, self._paths = incoming, target, blobs, paths
        self._journal, self._decompress, self._sums = journal, decompress, sums or {}
        self._received: set[str] = set()
        self._lock = threading.Lock()
        self._staged: dict[str, Staged] = {}
        self._failures: dict[str, Failure] = {}
        self._pool = ThreadPoolExecutor(max_workers=workers)
        self._futures: list[Future[None]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._broken: BaseException | None = None

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def finish(self) -> None:
        """Handle the remaining files, and stop.

        :raises Exception: an error of a thread, such as a manifest that cannot be written.
        """
        self._over.set()
        self._thread.join()
        self._pool.shutdown()
        for future in self._futures:
            future.result()
        if self._broken:
            raise self._broken

    def has_received(self, name: str) -> bool:
        """Whether a file has appeared; it is handled already or will be."""
        return name in self._received

    @property
    def staged(self) -> dict[str, Staged]:
        """The files at their final paths, by name."""
        with self._lock:
            return dict(self._staged)

    @property
    def failures(self) -> dict[str, Failure]:
        """The refused files, by name."""
        with self._lock:
            return dict(self._failures)

    @property
    def is_full(self) -> bool:
        """Whether the disk is full."""
        return any(failure.why == FULL for failure in self.failures.values())

    def _look_on(self) -> None:
        try:
            while not self._over.wait(_LOOK_S):
                self._look()
            self._look()
        except BaseException as error:
            self._broken = error

    def _look(self) -> None:
        for name in files_below(self._incoming):
            if name in self._blobs and name not in self._received:
                self._received.add(name)
                self._futures.append(self._pool.submit(self._take, name))

    def _take(self, name: str) -> None:
        blob = self._blobs[name]
        unpack = is_unpacked(blob, self._decompress)
        try:
            path = self._paths[name]
            staged = accept(
                blob, os.path.join(self._incoming, name), self._target, path, unpack, self._sums.get(path, "")
            )
        except NotAccepted as refused:
            with self._lock:
                self._failures[name] = refused.failure
            return
        self._journal.add(staged)
        with self._lock:
            self._staged[name] = staged


def files_below(folder: str) -> Iterator[str]:
    """Yield the paths of all files below a folder, relative to it."""
    for parent, _folders, files in os.walk(folder):
        for file in files:
            yield os.path.relpath(os.path.join(parent, file), folder)


_MOST_AT_ONCE = 16 << 20
_GZIP = 31
"""zlib's window size for the gzip format with header and checksum."""


class NotAccepted(RuntimeError):
    """A file differs from the listing, or cannot be moved to its final path.

    :ivar failure: which file and why.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.words)
        self.failure = failure


def accept(blob: Blob, source: str, target: str, path: str, unpack: bool, expected: str = "") -> Staged:
    """Move the file at ``source`` to ``target/path`` if it matches the listing, and return its record.

    :param unpack: decompress it; its own checksum and length must be correct.
    :param expected: the SHA-256 of the file; empty to accept any.
    :raises NotAccepted: it differs, or the disk is full; then there is no file at the final path.
    """
    final = os.path.join(target, path)
    made = f"{source}.hpcai-unpacked" if unpack else source
    try:
        os.makedirs(os.path.dirname(final), exist_ok=True)
        arrived = os.stat(source).st_size
        if arrived != blob.size:
            raise _refused(
                blob, DAMAGED, f"{arrived} bytes arrived, {blob.size} are listed: the blob has changed; stage again"
            )
        stored, sha256, size = _unpack(blob, source, made) if unpack else _read(blob, source)
        if blob.md5 and stored != blob.md5:
            raise _refused(blob, DAMAGED, "its MD5 differs from the listed one: the blob has changed; stage again")
        if expected and sha256 != expected:
            raise _refused(blob, DAMAGED, f"its SHA-256 is {sha256}, but the sums have {expected}")
        os.replace(made, final)
        if unpack:
            os.unlink(source)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(made)
        full = is_full(error)
        words = sentence_of(FULL) if full else f"{error.filename or final}: {error.strerror}"
        raise _refused(blob, FULL if full else OTHER, words) from None
    except NotAccepted:
        for leftover in (source, made):
            with contextlib.suppress(OSError):
                os.unlink(leftover)
        raise
    return Staged(blob.name, path, blob.size, blob.md5, blob.last_modified, size, sha256, unpack)


def _read(blob: Blob, source: str) -> tuple[str, str, int]:
    stored, sha256, size = md5(), hashlib.sha256(), 0
    with open(source, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_SIZE):
            if blob.md5:
                stored.update(chunk)
            sha256.update(chunk)
            size += len(chunk)
    return stored.hexdigest(), sha256.hexdigest(), size


def _unpack(blob: Blob, source: str, made: str) -> tuple[str, str, int]:
    """Decompress ``source``, which may have several gzip members, to ``made``; zlib verifies CRC and length."""
    stored, sha256, size = md5(), hashlib.sha256(), 0
    unpacker = zlib.decompressobj(_GZIP)
    ended = False

    def put(content: bytes) -> int:
        sha256.update(content)
        view = memoryview(content)
        while view:
            view = view[out.write(view) :]
        return len(content)

    with open(source, "rb", buffering=0) as file, open(made, "wb", buffering=0) as out:
        while chunk := file.read(CHUNK_SIZE):
            if blob.md5:
                stored.update(chunk)
            while chunk:
                if ended:
                    # The next member; zeros after the last one are padding, which gzip(1) ignores as well.
                    chunk = chunk.lstrip(b"\0")
                    if not chunk:
                        break
                    unpacker, ended = zlib.decompressobj(_GZIP), False
                try:
                    size += put(unpacker.decompress(chunk, _MOST_AT_ONCE))
                except zlib.error as error:
                    raise _refused(blob, DAMAGED, f"it cannot be decompressed ({error}): upload it again") from None
                chunk, ended = unpacker.unconsumed_tail or unpacker.unused_data, unpacker.eof
        if not ended:
            size += put(unpacker.flush())
            ended = unpacker.eof
    if not ended:
        raise _refused(blob, DAMAGED, "its compressed data is truncated: upload it again")
    return stored.hexdigest(), sha256.hexdigest(), size


def _refused(blob: Blob, why: str, words: str) -> NotAccepted:
    return NotAccepted(Failure(blob.name, why, words))
