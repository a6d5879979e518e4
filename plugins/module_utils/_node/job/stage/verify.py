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
from .manifest import Header, Staged, entries_of, problem_with, read_manifests
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
        tuple(problems[:_MOST_TOLD]),
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
