# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a blob is called on disk."""

from __future__ import annotations

from collections.abc import Iterable

from ..azcopy.output import Blob
from ..azcopy.place import NameRefused

_COMPRESSED = (".gz", ".gzip")
GZIP = "gzip"
STATE = ".hpcai-stage"
"""The folder beside the data that holds listings and manifests."""


def is_unpacked(blob: Blob, decompress: bool) -> bool:
    """Whether a blob is decompressed on the way: its Content-Encoding says gzip, and it was asked for."""
    return decompress and blob.encoding == GZIP


def path_of(blob: Blob, decompress: bool) -> str:
    """Return the path of a blob's file below the target: without ``.gz`` where it is decompressed."""
    if is_unpacked(blob, decompress):
        for ending in _COMPRESSED:
            if blob.name.endswith(ending) and not blob.name.endswith(f"/{ending}") and blob.name != ending:
                return blob.name[: -len(ending)]
    return blob.name


def paths_of(blobs: Iterable[Blob], decompress: bool) -> dict[str, str]:
    """Return the path of each blob, by name.

    :raises NameRefused: two would be one, or one would be a folder that another one is in.
    """
    paths: dict[str, str] = {}
    owners: dict[str, str] = {}
    for blob in blobs:
        path = path_of(blob, decompress)
        if path in owners:
            raise NameRefused(f"{blob.name!r} and {owners[path]!r} would both become {path!r}: leave one of them out.")
        if path.partition("/")[0] == STATE:
            raise NameRefused(f"{blob.name!r} would lie in {STATE}, where the manifests are: rename or leave it out.")
        owners[path] = blob.name
        paths[blob.name] = path
    for path, name in owners.items():
        parts = path.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            if folder in owners:
                raise NameRefused(f"{owners[folder]!r} would be the folder of {name!r}: a file cannot be both.")
    return paths
