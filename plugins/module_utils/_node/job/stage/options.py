# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What to stage and how: this node's shard, the blobs in it, and their paths on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..azcopy.location import BlobLocation, NameRefused
from ..azcopy.output import Blob
from .plan import groups_for, groups_of, matching, shards_of

_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")


class StageOptionsError(ValueError):
    """The options are invalid; the message says why."""


@dataclass(frozen=True)
class StageOptions:
    """What to stage.

    :ivar location: the source.
    :ivar target: the folder to stage to.
    :ivar number: of this shard, from 0.
    :ivar count: number of shards.
    :ivar everything: each node copies all blobs, to its own disk.
    :ivar pattern: divide by names instead of bytes, and leave out blobs whose names do not match.
    :ivar decompress: decompress blobs with the Content-Encoding gzip.
    :ivar full: read existing files and compare their hashes instead of their sizes.
    :ivar processes: how many azcopies run at a time.
    :ivar workers: how many files are verified and decompressed at a time.
    :ivar sums: the expected SHA-256 of each file by its path; None to accept what the account has.
    """

    location: BlobLocation
    target: str
    number: int = 0
    count: int = 1
    everything: bool = False
    pattern: str = ""
    decompress: bool = False
    full: bool = False
    processes: int = 1
    workers: int = 4
    sums: Mapping[str, str] | None = None

    @property
    def state(self) -> str:
        """The folder of the listing and the manifests."""
        return os.path.join(self.target, STATE)

    @property
    def shard(self) -> tuple[int, int]:
        """Number and count of the target's shards: (0, 1) if each node copies all blobs."""
        return (0, 1) if self.everything else (self.number, self.count)

    @property
    def word(self) -> str:
        """The shard in words."""
        return f"shard {self.shard[0]} of {self.shard[1]}"


def shard_of(stated: str, variables: Mapping[str, str], planning: bool = False) -> tuple[int, int]:
    """Return the number of this shard and the number of shards: from ``I/N``, else from the job step.

    :param planning: nothing is staged, so the job's script may call this too.
    :raises StageOptionsError: neither defines the shard.
    """
    if stated:
        found = _SHARD.fullmatch(stated)
        if not found or int(found[1]) >= int(found[2]):
            raise StageOptionsError(f"--shard {stated}: expected I/N with I from 0 to N - 1, such as 0/4.")
        return int(found[1]), int(found[2])
    node, count = variables.get("SLURM_NODEID", ""), _nodes(variables)
    if not count:
        return 0, 1
    if count > 1 and not planning and not variables.get("SLURM_STEP_ID", "").isdecimal():
        # In the job's script SLURM_NODEID is 0: only the first shard would be staged, without an error.
        raise StageOptionsError(
            f"this job has {count} nodes, but its script runs on one of them: start this command with "
            "'srun --ntasks-per-node=1', or set --shard I/N."
        )
    if not node.isdecimal() or int(node) >= count:
        raise StageOptionsError(
            "SLURM_NODEID is not valid: start this command with 'srun --ntasks-per-node=1', or set --shard I/N."
        )
    if variables.get("SLURM_LOCALID", "0") != "0":
        raise StageOptionsError("several tasks run on this node, but one is enough: use 'srun --ntasks-per-node=1'.")
    return int(node), count


def _nodes(variables: Mapping[str, str]) -> int:
    # A step may have fewer nodes than its job.
    for name in ("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"):
        if variables.get(name, "").isdecimal():
            return int(variables[name])
    return 0


def selected(blobs: Sequence[Blob], pattern: str) -> list[Blob]:
    """Return the blobs to stage.

    :raises StageOptionsError: there are none.
    """
    if not pattern:
        chosen = list(blobs)
    else:
        names = set(matching([blob.name for blob in blobs], groups_of(pattern)))
        chosen = [blob for blob in blobs if blob.name in names]
    if not chosen:
        raise StageOptionsError(
            "there is no blob below the source" + (f" with a name that matches {pattern!r}." if pattern else ".")
        )
    return chosen


def check_sums(paths: Iterable[str], options: StageOptions) -> None:
    """Compare the paths of the data set with those of the expected sums. A pattern may select some of them.

    :raises StageOptionsError: there are others.
    """
    sums = options.sums
    if sums is None:
        return
    found = set(paths)
    lacking = set() if options.pattern else sums.keys() - found
    for names, words in ((found - sums.keys(), "no sum"), (lacking, "a sum, but no blob")):
        if names:
            raise StageOptionsError(
                f"{len(names)} of {len(found | sums.keys())} files have {words}, such as {min(names)!r}: the source is "
                "another data set than that of --sums."
            )


def names_for(blobs: Sequence[Blob], options: StageOptions) -> tuple[list[str], list[str]]:
    """Return the names of this shard's blobs, and patterns that match exactly these if there are any."""
    number, count = options.shard
    if not options.pattern:
        return shards_of(blobs, count)[number], []
    groups = groups_for(groups_of(options.pattern), number, count)
    return sorted(matching([blob.name for blob in blobs], groups)), groups


_COMPRESSED = (".gz", ".gzip")
GZIP = "gzip"
STATE = ".hpcai-stage"
"""The folder in the target that contains the listing and the manifests."""


def is_unpacked(blob: Blob, decompress: bool) -> bool:
    """Whether a blob is decompressed: its Content-Encoding is gzip, and decompression is enabled."""
    return decompress and blob.encoding == GZIP


def path_of(blob: Blob, decompress: bool) -> str:
    """Return the path of a blob's file below the target: without ``.gz`` if it is decompressed."""
    if is_unpacked(blob, decompress):
        for ending in _COMPRESSED:
            if blob.name.endswith(ending) and not blob.name.endswith(f"/{ending}") and blob.name != ending:
                return blob.name[: -len(ending)]
    return blob.name


def paths_of(blobs: Iterable[Blob], decompress: bool) -> dict[str, str]:
    """Return the path of each blob, by name.

    :raises NameRefused: two blobs would have the same path, or one would be the parent folder of another.
    """
    paths: dict[str, str] = {}
    owners: dict[str, str] = {}
    for blob in blobs:
        path = path_of(blob, decompress)
        if path in owners:
            raise NameRefused(f"{blob.name!r} and {owners[path]!r} would both become {path!r}: leave one of them out.")
        if path.partition("/")[0] == STATE:
            raise NameRefused(f"{blob.name!r} would be in {STATE}, the folder of the manifests: rename or omit it.")
        owners[path] = blob.name
        paths[blob.name] = path
    for path, name in owners.items():
        folders = path.split("/")
        for end in range(1, len(folders)):
            folder = "/".join(folders[:end])
            if folder in owners:
                raise NameRefused(f"{owners[folder]!r} would be a file and the parent folder of {name!r}: rename one.")
    return paths
