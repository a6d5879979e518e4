# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The other way: files below a folder to a container, those that it lacks or has otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..azcopy.output import Blob
from ..hashes import md5_of
from .naming import STATE
from .pattern import groups_of, matching


@dataclass(frozen=True)
class Lacking:
    """What a container lacks.

    :ivar names: of files to upload, relative to the folder.
    :ivar same: how many are there as they are.
    :ivar size: bytes of those to upload.
    """

    names: tuple[str, ...]
    same: int
    size: int


def lacking(folder: str, pattern: str, blobs: Sequence[Blob]) -> Lacking:
    """Return what a container lacks of a folder.

    Of blobs without an MD5 nobody knows what they hold: they count as other ones.

    :raises FileNotFoundError: there is no such folder.
    """
    stored: Mapping[str, Blob] = {blob.name: blob for blob in blobs}
    names = _files_below(folder)
    chosen = matching(names, groups_of(pattern)) if pattern else names
    wanted, size = [], 0
    for name in chosen:
        path = os.path.join(folder, name)
        found, length = stored.get(name), os.path.getsize(path)
        if found is None or found.size != length or found.md5 != md5_of(path):
            wanted.append(name)
            size += length
    return Lacking(tuple(wanted), len(chosen) - len(wanted), size)


def _files_below(folder: str) -> list[str]:
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "there is no such folder", folder)
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != STATE]
        found += [os.path.relpath(os.path.join(parent, file), folder) for file in files]
    return sorted(found)
