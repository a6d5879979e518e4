# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where checkpoints are kept: four verbs on blobs, and small texts by them; and the same in Blob storage, by azcopy.

Nothing here is asked for that Blob storage does not promise: a blob is there whole or not at all, and there is neither
a lock nor a rename.
"""

from __future__ import annotations

import calendar
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Protocol

from ...machine.root import Root
from ..azcopy.credential import SAS, credential_of
from ..azcopy.location import BlobLocation, parse_location
from ..azcopy.options import Limits, cap_of, read_settings
from ..azcopy.tool import Azcopy, Progress
from ..azcopy.transfer import download, list_blobs, remove, upload
from ..azcopy.work import new_folder, parent_of

OnUploaded = Callable[[int], None]
"""Told how many bytes are carried; what it raises ends the work."""


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
    """The blobs of a series. Each verb raises ``CommandFailed`` where it could not be done, or not wholly."""

    @property
    def work(self) -> str:
        """Folder of this run for what is on its way. Whoever removes what a killed run has left finds it."""

    def list(self, folder: str) -> Sequence[Stored]:
        """Return the blobs below ``folder``, which ends with a slash; their names start with it."""

    def put(self, source: str, names: Sequence[str], folder: str, on_uploaded: OnUploaded | None = None) -> None:
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

    def list(self, folder: str) -> Sequence[Stored]:
        """See ``Store``."""
        found = list_blobs(self._tool, self._location.below(folder))
        return [Stored(f"{folder}{blob.name}", blob.size, _seconds(blob.last_modified)) for blob in found]

    def put(self, source: str, names: Sequence[str], folder: str, on_uploaded: OnUploaded | None = None) -> None:
        """See ``Store``."""

        def report(progress: Progress) -> None:
            if on_uploaded:
                on_uploaded(progress.bytes_done)

        upload(self._tool, source, names, self._location.below(folder), on_progress=report).must()

    def get(self, folder: str, names: Sequence[str], target: str) -> None:
        """See ``Store``."""
        download(self._tool, self._location.below(folder), names, target).must()

    def remove(self, names: Sequence[str]) -> None:
        """See ``Store``."""
        remove(self._tool, self._location, names).must()


def _seconds(stated: str) -> float:
    """Seconds since 1970; now where nothing is stated, so that what has no age is never taken for old."""
    found = _TIME.match(stated)
    if not found:
        return time.time()
    return float(calendar.timegm(time.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S")))


@dataclass(frozen=True)
class StoreOptions:
    """What the caller wants otherwise than /etc/hpcai/blob.json has it; None and empty texts want nothing."""

    credential: str | None = None
    client_id: str | None = None
    sas_file: str = ""
    account_gbps: float | None = None
    cap_mbps: float | None = None
    azcopy: str | None = None
    work: str | None = None


def open_store(root: Root, url: str, wish: StoreOptions, nodes: int) -> tuple[AzcopyStore, str]:
    """Return the store at ``url``, and the folder of azcopy's logs, which the caller removes.

    :param nodes: how many share the account's limit.
    :raises ConfigError: the settings or the credential cannot be used.
    :raises ValueError: the URL is none, the cap makes no sense, or the folder for logs that is wished for is not there.
    """
    settings = read_settings(root)
    location = parse_location(url)
    account = settings.account_gbps if wish.account_gbps is None else wish.account_gbps
    limits = Limits(cap_of(wish.cap_mbps, account, nodes), settings.connections)
    kind = wish.credential or (SAS if wish.sas_file else settings.credential)
    credential = credential_of(kind, wish.client_id or settings.client_id, wish.sas_file)
    folder = new_folder("checkpoint", parent_of(wish.work or "", settings.work_folder))
    return AzcopyStore(Azcopy(folder, credential, limits, wish.azcopy or settings.azcopy), location), folder
