# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Manifests of staged and verified files: a line for each file, written when it is complete at its final path.

A killed run may leave an incomplete last line, which is ignored.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from ...machine.config import SCHEMA, ConfigError
from ..azcopy.output import Blob
from ..hashes import sha256_of
from .listing import FILE, Listing, read_listing
from .options import selected

_ENDING = ".jsonl"


@dataclass(frozen=True)
class Staged:
    """A staged file.

    :ivar name: of the blob, relative to the location.
    :ivar path: of the file, relative to the target; without ``.gz`` if it was decompressed.
    :ivar stored: size of the blob in bytes.
    :ivar md5: the blob's stored MD5; empty if there is none.
    :ivar modified: when the blob was written.
    :ivar size: size of the file in bytes.
    :ivar sha256: of the file.
    :ivar unpacked: whether it was decompressed.
    """

    name: str
    path: str
    stored: int
    md5: str
    modified: str
    size: int
    sha256: str
    unpacked: bool = False

    def is_of(self, blob: Blob) -> bool:
        """Whether it was copied from exactly this version of the blob."""
        mine = (self.name, self.stored, self.md5, self.modified)
        return mine == (blob.name, blob.size, blob.md5, blob.last_modified)


@dataclass(frozen=True)
class Header:
    """The header of a manifest.

    :ivar digest: of the listing from which the shard was planned.
    :ivar number: of the shard, from 0.
    :ivar count: number of shards.
    :ivar pattern: by which the shards were planned; empty if they were planned by bytes.
    :ivar decompress: whether compressed blobs were decompressed.
    """

    digest: str
    number: int
    count: int
    pattern: str = ""
    decompress: bool = False


def file_name(number: int, count: int) -> str:
    """Return the name of a shard's manifest."""
    return f"manifest-{number:05d}-of-{count:05d}{_ENDING}"


class Journal:
    """A manifest that is being written; several threads may add to it.

    :param path: of the manifest; an existing one is replaced.
    :raises OSError: it cannot be written.
    """

    def __init__(self, path: str, header: Header, known: Mapping[str, Staged]) -> None:
        self._lock = threading.Lock()
        temporary = f"{path}.new"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(_line({"schema": SCHEMA, **asdict(header)}))
            for staged in known.values():
                file.write(_line(asdict(staged)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        # Stays open until the run ends.
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # pylint: disable=consider-using-with

    def add(self, staged: Staged) -> None:
        """Record a file. The line is passed to the kernel, but not yet synced to the disk."""
        with self._lock:
            self._file.write(_line(asdict(staged)))
            self._file.flush()

    def close(self) -> None:
        """Sync the manifest to the disk, and close it."""
        with self._lock:
            os.fsync(self._file.fileno())
            self._file.close()


def read_manifests(folder: str) -> Iterator[tuple[Header, dict[str, Staged]]]:
    """Yield all manifests of a folder: the header, and the files by their blobs' names.

    :raises ConfigError: a manifest has a newer schema.
    """
    for name in _names(folder):
        found = _read(os.path.join(folder, name))
        if found:
            yield found


def entries_of(folder: str) -> dict[str, list[Staged]]:
    """Return the files of all manifests of a folder, by the blobs' names, those of the newest manifest first.

    After a change of the number of shards, older manifests may list an older version of a blob.
    """
    found: dict[str, list[Staged]] = {}
    for name in sorted(_names(folder), key=lambda name: -os.stat(os.path.join(folder, name)).st_mtime_ns):
        _header, files = _read(os.path.join(folder, name)) or (None, {})
        for staged in files.values():
            found.setdefault(staged.name, []).append(staged)
    return found


def problem_with(staged: Staged, target: str, full: bool) -> str:
    """Return what is wrong with a staged file; an empty text if it is unchanged.

    :param full: read it and compare its hash, not only its size.
    """
    path = os.path.join(target, staged.path)
    try:
        found = os.stat(path).st_size
        if found != staged.size:
            return f"{staged.path} has {found} bytes, not {staged.size}"
        if full and sha256_of(path) != staged.sha256:
            return f"{staged.path} has changed since it was staged"
    except OSError as error:
        return f"{staged.path} cannot be read: {error.strerror}"
    return ""


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith("manifest-") and name.endswith(_ENDING))
    except FileNotFoundError:
        return []


def _read(path: str) -> tuple[Header, dict[str, Staged]] | None:
    header: Header | None = None
    files: dict[str, Staged] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                break
            try:
                stated = json.loads(line)
                if header is None:
                    if stated.pop("schema") > SCHEMA:
                        raise ConfigError(f"{path} has a newer schema: update hpcnode, or remove the state folder.")
                    header = Header(**stated)
                else:
                    staged = Staged(**stated)
                    files[staged.name] = staged
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                if isinstance(error, ConfigError):
                    raise
                break
    return (header, files) if header else None


def _line(stated: Mapping[str, Any]) -> str:
    return json.dumps(stated, separators=(",", ":")) + "\n"


_MOST_REPORTED = 20


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    :ivar problems: messages, at most 20.
    :ivar count: how many problems there are.
    :ivar files: how many files were staged.
    :ivar size: bytes of the files on disk.
    """

    problems: tuple[str, ...]
    count: int
    files: int
    size: int
    digest: str


def verify(target: str, state: str, full: bool, workers: int) -> Verification:
    """Compare the files below a target with the manifests, and these with the listing. Changes nothing.

    :param full: read all files and compare their hashes, not only their sizes.
    :raises FileNotFoundError: nothing was staged there.
    :raises ConfigError: the listing is invalid.
    """
    listing, checked, problems = current_files(state)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        found = pool.map(lambda one: problem_with(one, target, full), checked)
        problems += [problem for problem in found if problem]
    return Verification(
        tuple(problems[:_MOST_REPORTED]),
        len(problems),
        len(checked),
        sum(one.size for one in checked),
        listing.digest,
    )


def current_files(state: str) -> tuple[Listing, list[Staged], list[str]]:
    """Return the listing, the files that were staged from it, and messages about those that were not.

    :raises FileNotFoundError: nothing was staged there.
    :raises ConfigError: the listing is invalid.
    """
    listing = read_listing(os.path.join(state, FILE))
    manifests = list(read_manifests(state))
    problems = [*_mixed(manifests, listing)]
    entries = entries_of(state)
    pattern = next((header.pattern for header, _staged in manifests if header.digest == listing.digest), "")
    blobs = selected(listing.blobs, pattern)
    problems += [f"{blob.name!r} is not staged" for blob in blobs if blob.name not in entries]
    of_blobs = {blob.name: [one for one in entries.get(blob.name, ()) if one.is_of(blob)] for blob in blobs}
    problems += [
        f"{name!r} was staged from another version of the blob"
        for name, of_blob in of_blobs.items()
        if name in entries and not of_blob
    ]
    return listing, [of_blob[0] for of_blob in of_blobs.values() if of_blob], problems


def _mixed(manifests: Sequence[tuple[Header, dict[str, Staged]]], listing: Listing) -> list[str]:
    """Return messages about shards of the same count that were staged from different listings."""
    current = [header for header, _staged in manifests if header.digest == listing.digest]
    problems = []
    for count in sorted({header.count for header in current}):
        other = [header for header, _staged in manifests if header.count == count and header.digest != listing.digest]
        problems += [
            f"shard {header.number} of {count} was staged from listing {header.digest}, the others from "
            f"{listing.digest}: stage this shard again"
            for header in other
        ]
    return problems
