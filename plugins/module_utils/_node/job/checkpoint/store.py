# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a checkpoint needs of the place where it is kept: four verbs on blobs, and small texts by them.

``azcopy_store`` is the real one. Nothing here is asked for that Blob storage does not promise: a blob is there whole or
not at all, and there is neither a lock nor a rename.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Protocol

Hear = Callable[[int], None]
"""Told how many bytes are carried; what it raises ends the work."""


@dataclass(frozen=True)
class Stored:
    """A blob.

    :ivar name: below the place of the series.
    :ivar size: in bytes.
    :ivar modified: when it was written, in seconds since 1970.
    """

    name: str
    size: int
    modified: float


class Store(Protocol):
    """The blobs of a series. Each verb raises ``CommandFailed`` where it could not be done, or not wholly."""

    @property
    def work(self) -> str:
        """Folder of this run for what is on its way. Whoever removes what a killed run has left finds it."""

    def list(self, folder: str) -> Sequence[Stored]:
        """Return the blobs below ``folder``, which ends with a slash; their names start with it."""

    def put(self, source: str, names: Sequence[str], folder: str, hear: Hear | None = None) -> None:
        """Write files, by their names below ``source``, to the same names below ``folder``."""

    def get(self, folder: str, names: Sequence[str], target: str) -> None:
        """Read blobs, by their names below ``folder``, into the same names below ``target``."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove blobs. One that is gone is no failure."""


def read_texts(store: Store, folder: str, names: Sequence[str]) -> Mapping[str, str]:
    """Return what the blobs hold, by their names below ``folder``; one that is no text has a text that is no JSON."""
    if not names:
        return {}
    with tempfile.TemporaryDirectory(prefix="texts-", dir=store.work) as made:
        store.get(folder, names, made)
        found = {}
        for name in names:
            with open(os.path.join(made, name), encoding="utf-8", errors="replace") as file:
                found[name] = file.read()
        return found


def write_text(store: Store, name: str, text: str) -> None:
    """Write a small blob."""
    folder, _slash, last = name.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="texts-", dir=store.work) as made:
        with open(os.path.join(made, last), "w", encoding="utf-8") as file:
            file.write(text)
        store.put(made, [last], f"{folder}/")


def sizes(stored: Iterable[Stored], folder: str) -> dict[str, int]:
    """Return the sizes of blobs by their names below ``folder``."""
    return {blob.name[len(folder) :]: blob.size for blob in stored if blob.name.startswith(folder)}
