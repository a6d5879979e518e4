# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What has been staged and verified: a line for each file, written when it is complete and at its place.

A run that is killed leaves all lines but perhaps a part of the last one, which is not read.
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
    """A file that was staged.

    :ivar name: the blob's, relative to the location.
    :ivar path: the file's, relative to the target; without ``.gz`` where it was decompressed.
    :ivar stored: bytes as the blob is stored.
    :ivar md5: the stored MD5; empty where there is none.
    :ivar modified: when the blob was written.
    :ivar size: bytes on disk.
    :ivar sha256: of what is on disk.
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
        """Whether it was made of this very blob."""
        mine = (self.name, self.stored, self.md5, self.modified)
        return mine == (blob.name, blob.size, blob.md5, blob.last_modified)


@dataclass(frozen=True)
class Header:
    """What a manifest is about.

    :ivar digest: of the listing it was planned from.
    :ivar number: which shard, from 0.
    :ivar count: of how many.
    :ivar pattern: how the shards were planned; empty for by bytes.
    :ivar decompress: whether what is stored compressed was decompressed.
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
    """A manifest while it is written; several threads may add to it.

    :param path: where; what another run left is replaced.
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
        # Open as long as the run goes on.
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # pylint: disable=consider-using-with

    def add(self, staged: Staged) -> None:
        """Note a file. It is on its way to the disk when this returns."""
        with self._lock:
            self._file.write(_line(asdict(staged)))
            self._file.flush()

    def close(self) -> None:
        """Bring all to the disk."""
        with self._lock:
            os.fsync(self._file.fileno())
            self._file.close()


def read_manifests(folder: str) -> Iterator[tuple[Header, dict[str, Staged]]]:
    """Yield all manifests of a folder: what they are about, and what they hold, by the blobs' names.

    :raises ConfigError: one is of a newer schema.
    """
    for name in _names(folder):
        found = _read(os.path.join(folder, name))
        if found:
            yield found


def entries_of(folder: str) -> dict[str, list[Staged]]:
    """Return what all manifests of a folder hold, by the blobs' names, of the latest manifest first.

    The number of shards may have been another, then other manifests may know an older version of a blob.
    """
    found: dict[str, list[Staged]] = {}
    for name in sorted(_names(folder), key=lambda name: -os.stat(os.path.join(folder, name)).st_mtime_ns):
        _header, files = _read(os.path.join(folder, name)) or (None, {})
        for staged in files.values():
            found.setdefault(staged.name, []).append(staged)
    return found


def problem_with(staged: Staged, target: str, full: bool) -> str:
    """Return what is wrong with a file that was staged; nothing if it is as it was.

    :param full: read it and compare its hash.
    """
    path = os.path.join(target, staged.path)
    try:
        found = os.stat(path).st_size
        if found != staged.size:
            return f"{staged.path} has {found} bytes, not {staged.size}"
        if full and sha256_of(path) != staged.sha256:
            return f"{staged.path} has other content than when it was staged"
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
                        raise ConfigError(f"{path} is of a newer schema: update hpcnode, or remove the state folder.")
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
class Verdict:
    """What was found.

    :ivar problems: in words; the first of them where there are many.
    :ivar count: how many problems there are.
    :ivar files: how many files there should be.
    :ivar size: bytes of those on disk.
    """

    problems: tuple[str, ...]
    count: int
    files: int
    size: int
    digest: str


def verify(target: str, state: str, full: bool, workers: int) -> Verdict:
    """Compare what lies below a target with its manifests, and these with the listing. Changes nothing.

    :param full: read all files and compare their hashes; else their sizes.
    :raises FileNotFoundError: nothing was staged there.
    :raises ConfigError: the listing is none.
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
        f"{name!r} was staged from another version of it"
        for name, of_blob in of_blobs.items()
        if name in entries and not of_blob
    ]
    checked = [of_blob[0] for of_blob in of_blobs.values() if of_blob]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        found = pool.map(lambda one: problem_with(one, target, full), checked)
        problems += [problem for problem in found if problem]
    return Verdict(
        tuple(problems[:_MOST_REPORTED]),
        len(problems),
        len(blobs),
        sum(one.size for one in checked),
        listing.digest,
    )


def _mixed(manifests: Sequence[tuple[Header, dict[str, Staged]]], listing: Listing) -> list[str]:
    """What is wrong with the manifests together: shards of the same count from different listings."""
    current = [header for header, _staged in manifests if header.digest == listing.digest]
    problems = []
    for count in sorted({header.count for header in current}):
        other = [header for header, _staged in manifests if header.count == count and header.digest != listing.digest]
        problems += [
            f"shard {header.number} of {count} was staged from listing {header.digest}, the others from "
            f"{listing.digest}: run it again"
            for header in other
        ]
    return problems
