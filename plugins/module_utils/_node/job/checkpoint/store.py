# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The store of checkpoints: an interface with four operations on blobs, and its implementation with azcopy.

The interface requires only what Blob storage guarantees: a blob is complete or does not exist. It has no locks and no
renames.
"""

from __future__ import annotations

import calendar
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Protocol

from ...machine.root import Root
from ...machine.run import CommandFailed
from ..azcopy.credential import SAS, credential_of
from ..azcopy.location import BlobLocation, parse_location
from ..azcopy.options import Limits, cap_of, read_settings
from ..azcopy.tool import Azcopy, Progress
from ..azcopy.transfer import download, list_blobs, remove, upload
from ..azcopy.work import new_folder, parent_of

OnUploaded = Callable[[int], None]
"""Gets the number of uploaded bytes; an exception that it raises stops the work."""


@dataclass(frozen=True)
class Stored:
    """A blob.

    :ivar name: below the location of the series.
    :ivar size: in bytes.
    :ivar modified: when it was written, in seconds since 1970.
    """

    name: str
    size: int
    modified: float


class Store(Protocol):
    """The blobs of a series. Each operation raises ``CommandFailed`` if it fails or is incomplete."""

    @property
    def work(self) -> str:
        """This run's folder for temporary files. The cleanup after a killed run removes it."""

    @property
    def most_text(self) -> int:
        """How many bytes of texts ``read_texts`` may read at once."""

    def list(self, folder: str, most: int = 0) -> Sequence[Stored]:
        """Return the blobs below ``folder``, which ends with a slash; their names start with it.

        :param most: fail if there are more; 0 for any number.
        """

    def put(self, source: str, names: Sequence[str], folder: str, on_uploaded: OnUploaded | None = None) -> None:
        """Write files, by their names below ``source``, to the same names below ``folder``."""

    def get(self, folder: str, names: Sequence[str], target: str, most: int = 0) -> None:
        """Read blobs, by their names below ``folder``, into the same names below ``target``.

        :param most: fail when more bytes than these arrive; 0 for any number.
        """

    def remove(self, names: Sequence[str]) -> None:
        """Remove blobs. A blob that does not exist is not a failure."""


_LONGEST_TEXT = 1 << 26
"""Bytes of a manifest with more than 300,000 files. Whoever may write to the store chooses the size, and a parsed text
takes up to 20 times its size in memory."""


def read_texts(store: Store, folder: str, names: Sequence[str], longest: int = _LONGEST_TEXT) -> Mapping[str, str]:
    """Return the texts of blobs by their names below ``folder``; bytes that are not UTF-8 are replaced.

    :param longest: the most bytes of each.
    :raises CommandFailed: one cannot be read, or is longer.
    """
    if not names:
        return {}
    with tempfile.TemporaryDirectory(prefix="texts-", dir=store.work) as made:
        store.get(folder, names, made)
        total = sum(os.path.getsize(os.path.join(made, name)) for name in names)
        if total > store.most_text:
            raise CommandFailed(f"the {len(names)} texts in {folder} have {total} bytes, more than {store.most_text}.")
        found = {}
        for name in names:
            path = os.path.join(made, name)
            if os.path.getsize(path) > longest:
                raise CommandFailed(f"{folder}{name} has more than {longest} bytes, so it is no text of hpcnode.")
            with open(path, encoding="utf-8", errors="replace") as file:
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


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")


class AzcopyStore:
    """The blobs of a series below ``location``."""

    def __init__(self, tool: Azcopy, location: BlobLocation) -> None:
        self._tool = tool
        self._location = location

    @property
    def work(self) -> str:
        """See ``Store``."""
        return self._tool.folder

    @property
    def most_text(self) -> int:
        """See ``Store``."""
        return sys.maxsize

    def list(self, folder: str, most: int = 0) -> Sequence[Stored]:
        """See ``Store``."""
        found = list_blobs(self._tool, self._location.below(folder), most)
        return [Stored(f"{folder}{blob.name}", blob.size, _seconds(blob.last_modified)) for blob in found]

    def put(self, source: str, names: Sequence[str], folder: str, on_uploaded: OnUploaded | None = None) -> None:
        """See ``Store``."""

        def report(progress: Progress) -> None:
            if on_uploaded:
                on_uploaded(progress.bytes_done)

        upload(self._tool, source, names, self._location.below(folder), on_progress=report).must()

    def get(self, folder: str, names: Sequence[str], target: str, most: int = 0) -> None:
        """See ``Store``."""

        def check(progress: Progress) -> None:
            if most and max(progress.bytes_done, progress.bytes_expected) > most:
                raise CommandFailed(f"{folder} has more than the {most} bytes that were listed: it changed meanwhile.")

        download(self._tool, self._location.below(folder), names, target, check).must()

    def remove(self, names: Sequence[str]) -> None:
        """See ``Store``."""
        remove(self._tool, self._location, names).must()


def _seconds(stated: str) -> float:
    """Return seconds since 1970; the current time if there is none, so that a blob without a time is never old."""
    found = _TIME.match(stated)
    if not found:
        return time.time()
    return float(calendar.timegm(time.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S")))


@dataclass(frozen=True)
class StoreOptions:
    """Options that override /etc/hpcai/blob.json; None and empty texts override nothing."""

    credential: str | None = None
    client_id: str | None = None
    sas_file: str = ""
    account_gbps: float | None = None
    cap_mbps: float | None = None
    azcopy: str | None = None
    work: str | None = None


def open_store(root: Root, url: str, options: StoreOptions, nodes: int) -> tuple[AzcopyStore, str]:
    """Return the store at ``url``, and the folder of azcopy's logs, which the caller must remove.

    :param nodes: how many nodes share the account's limit.
    :raises ConfigError: the settings or the credential are invalid.
    :raises ValueError: the URL or the cap is invalid, or the given folder for logs does not exist.
    """
    settings = read_settings(root)
    location = parse_location(url)
    account = settings.account_gbps if options.account_gbps is None else options.account_gbps
    limits = Limits(cap_of(options.cap_mbps, account, nodes), settings.connections)
    kind = options.credential or (SAS if options.sas_file else settings.credential)
    credential = credential_of(kind, options.client_id or settings.client_id, options.sas_file)
    folder = new_folder("checkpoint", parent_of(options.work or "", settings.work_folder))
    return AzcopyStore(Azcopy(folder, credential, limits, options.azcopy or settings.azcopy), location), folder
