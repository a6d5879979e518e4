# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The store in Blob storage. What speaks to it is ``job.azcopy``."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Sequence

from ..azcopy.place import Place
from ..azcopy.tool import Azcopy, Progress
from ..azcopy.transfer import download, list_blobs, remove, upload
from .store import Hear, Stored

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")


class AzcopyStore:
    """The blobs of a series below ``place``."""

    def __init__(self, tool: Azcopy, place: Place) -> None:
        self._tool = tool
        self._place = place

    @property
    def work(self) -> str:
        """See ``Store``."""
        return self._tool.folder

    def list(self, folder: str) -> Sequence[Stored]:
        """See ``Store``."""
        found = list_blobs(self._tool, self._place.below(folder))
        return [Stored(f"{folder}{blob.name}", blob.size, _seconds(blob.last_modified)) for blob in found]

    def put(self, source: str, names: Sequence[str], folder: str, hear: Hear | None = None) -> None:
        """See ``Store``."""

        def tell(progress: Progress) -> None:
            if hear:
                hear(progress.bytes_done)

        upload(self._tool, source, names, self._place.below(folder), on_progress=tell).must()

    def get(self, folder: str, names: Sequence[str], target: str) -> None:
        """See ``Store``."""
        download(self._tool, self._place.below(folder), names, target).must()

    def remove(self, names: Sequence[str]) -> None:
        """See ``Store``."""
        remove(self._tool, self._place, names).must()


def _seconds(stated: str) -> float:
    """Seconds since 1970; now where nothing is stated, so that what has no age is never taken for old."""
    found = _TIME.match(stated)
    if not found:
        return time.time()
    return float(calendar.timegm(time.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S")))
