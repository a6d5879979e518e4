# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is to be staged, and how: the shard of this node, the blobs in it, and what they are called on disk."""

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
    """What was asked for makes no sense; the message says why."""


@dataclass(frozen=True)
class StageOptions:
    """What is to be staged.

    :ivar location: where from.
    :ivar target: the folder to stage to.
    :ivar number: which shard this is, from 0.
    :ivar count: of how many.
    :ivar everything: each node copies all, to a disk of its own.
    :ivar pattern: divide by names in place of bytes, and leave out what has no such name.
    :ivar decompress: decompress what has the Content-Encoding gzip.
    :ivar full: read what is there and compare its hash, in place of its size.
    :ivar processes: how many azcopies at a time.
    :ivar workers: how many files are verified and decompressed at a time.
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

    @property
    def state(self) -> str:
        """The folder of listing and manifests."""
        return os.path.join(self.target, STATE)

    @property
    def shard(self) -> tuple[int, int]:
        """Number and count of the shards of the target: one where each node has all."""
        return (0, 1) if self.everything else (self.number, self.count)

    @property
    def word(self) -> str:
        """The shard in words."""
        return f"shard {self.shard[0]} of {self.shard[1]}"


def shard_of(stated: str, variables: Mapping[str, str], planning: bool = False) -> tuple[int, int]:
    """Return which shard this is and of how many: as stated by ``I/N``, else by the step of the job.

    :param planning: nothing is staged, and the job's script may ask too.
    :raises StageOptionsError: neither tells.
    """
    if stated:
        found = _SHARD.fullmatch(stated)
        if not found or int(found[1]) >= int(found[2]):
            raise StageOptionsError(f"--shard {stated}: it is I/N, I from 0 to N - 1, such as 0/4.")
        return int(found[1]), int(found[2])
    node, count = variables.get("SLURM_NODEID", ""), _nodes(variables)
    if not count:
        return 0, 1
    if count > 1 and not planning and not variables.get("SLURM_STEP_ID", "").isdecimal():
        # Its node's number is 0 there: it would stage the first shard alone, and all would look well.
        raise StageOptionsError(
            f"this job has {count} nodes, and this is its script, which runs on one: run it by "
            "'srun --ntasks-per-node=1', or state --shard I/N."
        )
    if not node.isdecimal() or int(node) >= count:
        raise StageOptionsError(
            "SLURM_NODEID does not tell which node this is: run it by 'srun --ntasks-per-node=1', or state --shard I/N."
        )
    if variables.get("SLURM_LOCALID", "0") != "0":
        raise StageOptionsError("several tasks run on this node, one is enough: use 'srun --ntasks-per-node=1'.")
    return int(node), count


def _nodes(variables: Mapping[str, str]) -> int:
    # A step may be on fewer nodes than its job.
    for name in ("SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"):
        if variables.get(name, "").isdecimal():
            return int(variables[name])
    return 0


def selected(blobs: Sequence[Blob], pattern: str) -> list[Blob]:
    """Return the blobs that are staged at all.

    :raises StageOptionsError: none is.
    """
    if not pattern:
        chosen = list(blobs)
    else:
        names = set(matching([blob.name for blob in blobs], groups_of(pattern)))
        chosen = [blob for blob in blobs if blob.name in names]
    if not chosen:
        raise StageOptionsError(
            "there is no blob below the source" + (f" whose name is of {pattern!r}." if pattern else ".")
        )
    return chosen


def names_for(blobs: Sequence[Blob], options: StageOptions) -> tuple[list[str], list[str]]:
    """Return the names of this shard's blobs, and the patterns that stand for exactly these, where there are such."""
    number, count = options.shard
    if not options.pattern:
        return shards_of(blobs, count)[number], []
    groups = groups_for(groups_of(options.pattern), number, count)
    return sorted(matching([blob.name for blob in blobs], groups)), groups


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
        folders = path.split("/")
        for end in range(1, len(folders)):
            folder = "/".join(folders[:end])
            if folder in owners:
                raise NameRefused(f"{owners[folder]!r} would be the folder of {name!r}: a file cannot be both.")
    return paths
