# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a whole data set is there: all shards of one listing, each file as it was staged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .listing import FILE, Listing, read_listing
from .manifest import Header, Staged, read_manifests
from .run import problem_with
from .wanted import selected

_MOST_TOLD = 20


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
    files: dict[str, Staged] = {}
    for _header, staged in manifests:
        files.update(staged)
    pattern = next((header.pattern for header, _staged in manifests if header.digest == listing.digest), "")
    blobs = selected(listing.blobs, pattern)
    problems += [f"{blob.name!r} is not staged" for blob in blobs if blob.name not in files]
    checked = [(blob, files[blob.name]) for blob in blobs if blob.name in files]
    problems += [
        f"{blob.name!r} was staged from another version of it"
        for blob, one in checked
        if (one.stored, one.md5, one.modified) != (blob.size, blob.md5, blob.last_modified)
    ]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        found = pool.map(lambda pair: problem_with(pair[1], target, full), checked)
        problems += [problem for problem in found if problem]
    return Verdict(
        tuple(problems[:_MOST_TOLD]),
        len(problems),
        len(blobs),
        sum(one.size for _blob, one in checked),
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
