# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""From where azcopy leaves files to their places: measured, hashed, decompressed, and only then under their names.

It works while azcopy goes on: what is verified early need not be copied again after a kill.
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
    """Looks through a folder in which files appear, and brings each to its place.

    :param incoming: the folder, with nothing else in it.
    :param target: where files belong.
    :param wanted: the blobs that may appear, by name.
    :param paths: where they belong, by name.
    :param workers: how many files at a time.
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
    ) -> None:
        self._incoming, self._target, self._blobs, self._paths = incoming, target, blobs, paths
        self._journal, self._decompress = journal, decompress
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
        """Begin to look."""
        self._thread.start()

    def finish(self) -> None:
        """Take what is there, and end. What could not be done raises here.

        :raises Exception: what went wrong in it, such as a manifest that cannot be written.
        """
        self._over.set()
        self._thread.join()
        self._pool.shutdown()
        for future in self._futures:
            future.result()
        if self._broken:
            raise self._broken

    def has_received(self, name: str) -> bool:
        """Whether a file has appeared, and is dealt with or will be."""
        return name in self._received

    @property
    def staged(self) -> dict[str, Staged]:
        """What is at its place, by name."""
        with self._lock:
            return dict(self._staged)

    @property
    def failures(self) -> dict[str, Failure]:
        """What was not accepted, by name."""
        with self._lock:
            return dict(self._failures)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more."""
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
            staged = accept(blob, os.path.join(self._incoming, name), self._target, self._paths[name], unpack)
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
"""zlib's number for gzip with its header and its check sum."""


class NotAccepted(RuntimeError):
    """A file is not what was listed, or cannot be brought to its place.

    :ivar failure: what and why.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.words)
        self.failure = failure


def accept(blob: Blob, source: str, target: str, path: str, unpack: bool) -> Staged:
    """Bring the file at ``source`` to ``target/path``, if it is what was listed, and return what it is.

    :param unpack: decompress it; its own check sum and length must be right.
    :raises NotAccepted: it is not, or the disk is full; then nothing lies at its place.
    """
    final = os.path.join(target, path)
    made = f"{source}.hpcai-unpacked" if unpack else source
    try:
        os.makedirs(os.path.dirname(final), exist_ok=True)
        arrived = os.stat(source).st_size
        if arrived != blob.size:
            raise _refused(
                blob, DAMAGED, f"{arrived} bytes arrived, {blob.size} were listed: it was changed since; list anew"
            )
        stored, sha256, size = _unpack(blob, source, made) if unpack else _read(blob, source)
        if blob.md5 and stored != blob.md5:
            raise _refused(blob, DAMAGED, "its MD5 is not the one that was listed: it was changed since; list anew")
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
    """Decompress ``source``, which may have several members, to ``made``; gzip's own CRC and length are checked."""
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
                    # Another member; zeros behind the last one are padding, which gzip(1) takes as well.
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
        raise _refused(blob, DAMAGED, "it ends in the middle of what is compressed: upload it again")
    return stored.hexdigest(), sha256.hexdigest(), size


def _refused(blob: Blob, why: str, words: str) -> NotAccepted:
    return NotAccepted(Failure(blob.name, why, words))
