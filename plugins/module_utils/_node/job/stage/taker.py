# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Takes what azcopy has finished, while it goes on: what is verified early need not be copied again after a kill."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from ..azcopy.output import FULL, Blob, Failure
from .accept import NotAccepted, accept
from .manifest import Journal, Staged
from .naming import is_unpacked

_LOOK_S = 0.25


class Taker:
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
        wanted: Mapping[str, Blob],
        paths: Mapping[str, str],
        journal: Journal,
        decompress: bool,
        workers: int,
    ) -> None:
        self._incoming, self._target, self._wanted, self._paths = incoming, target, wanted, paths
        self._journal, self._decompress = journal, decompress
        self._seen: set[str] = set()
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

    def has_taken(self, name: str) -> bool:
        """Whether a file has appeared, and is dealt with or will be."""
        return name in self._seen

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
        for name in _files_below(self._incoming):
            if name in self._wanted and name not in self._seen:
                self._seen.add(name)
                self._futures.append(self._pool.submit(self._take, name))

    def _take(self, name: str) -> None:
        blob = self._wanted[name]
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


def _files_below(folder: str) -> Iterator[str]:
    for parent, _folders, files in os.walk(folder):
        below = os.path.relpath(parent, folder)
        for file in files:
            yield file if below == "." else f"{below}/{file}"
