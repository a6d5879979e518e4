# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The manifests: what a node gave, that all nodes gave it, and so which checkpoints are whole.

Both are a function of what was saved alone, without a time or the writer's name: whoever writes one writes the same.

The job's manifest is written by any node that finds the manifests of all nodes, not by rank 0. Each node looks after it
has written its own, so the last one finds all; none has to wait for another, and a rank 0 that is killed after its
share, or that is the fastest, keeps nothing from being whole. Two nodes may find all at once. Both then write the same
bytes under the same name, since the nodes' manifests are written once: whoever comes second changes nothing.

A node that was held up may write the manifest of what was pruned meanwhile. So pruning starts with a mark that stays
(``pruned/ID``), and what has one is not whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.run import CommandFailed
from ..azcopy.location import trouble_with
from .directory import digest
from .names import COMPLETE, PRUNED, Id, id_in, id_of, line_of
from .store import Store, read_texts, write_text

SCHEMA = 1


class BadManifest(CommandFailed):
    """A manifest that cannot be used; the message names it."""


@dataclass(frozen=True)
class File:
    """A file of a shard: path below the checkpoint's folder, size, SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Shard:
    """What a node gave.

    :ivar rank: the node's number in the job, from 0.
    :ivar folder: what the checkpoint's folder is called.
    :ivar outline: of a folder that all nodes see, what stands for all its files; else empty.
    :ivar latest: name and text of the file beside the folder that names it; both empty where none does.
    """

    id: Id
    rank: int
    folder: str
    files: tuple[File, ...]
    outline: str = ""
    latest: tuple[str, str] = ("", "")

    @property
    def digest(self) -> str:
        """What stands for names, sizes and hashes."""
        return digest(f"{one.sha256} {one.size} {one.path}" for one in self.files)

    @property
    def data(self) -> str:
        """Where its data lies."""
        return self.id.data(self.rank, self.digest)

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(one.size for one in self.files)

    @property
    def contents(self) -> dict[str, tuple[int, str]]:
        """Size and hash by path."""
        return {one.path: (one.size, one.sha256) for one in self.files}


@dataclass(frozen=True)
class ShardSummary:
    """What the job's manifest says of a node's: the hash of its text, how many files and bytes it names."""

    rank: int
    sha256: str
    files: int
    size: int


@dataclass(frozen=True)
class JobManifest:
    """A whole checkpoint."""

    id: Id
    folder: str
    shared: bool
    shards: tuple[ShardSummary, ...]

    @property
    def size(self) -> int:
        """Bytes of all nodes."""
        return sum(shard.size for shard in self.shards)


def shard_text(shard: Shard) -> str:
    """Return a node's manifest."""
    return _text(
        {
            "id": shard.id.text,
            "rank": shard.rank,
            "folder": shard.folder,
            "outline": shard.outline,
            "latest": list(shard.latest),
            "files": [[one.path, one.size, one.sha256] for one in shard.files],
        }
    )


def shard_of(text: str, where: str) -> Shard:
    """Return what a node's manifest says.

    :raises BadManifest: it is none, or names a path outside its folder.
    """
    given = _read(text, where)
    try:
        made = Shard(
            id=_id(given["id"]),
            rank=_number(given["rank"]),
            folder=_name(given["folder"]),
            files=tuple(File(_path(path), _number(size), _sha(sha)) for path, size, sha in given["files"]),
            outline=str(given["outline"]),
            latest=(_name(given["latest"][0]) if given["latest"][0] else "", str(given["latest"][1])),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise BadManifest(f"{where} is no manifest of a shard ({error}).") from None
    if len({one.path for one in made.files}) != len(made.files):
        raise BadManifest(f"{where} names a file twice.")
    return made


def job_manifest_of(shards: Sequence[str], id_: Id) -> JobManifest:
    """Return the checkpoint that these manifests, one of each node, make up.

    :raises BadManifest: they do not: one is of another checkpoint, or they were made of different folders.
    """
    read = [shard_of(text, id_.shard(rank)) for rank, text in enumerate(shards)]
    for rank, shard in enumerate(read):
        if (shard.id, shard.rank) != (id_, rank):
            raise BadManifest(f"{id_.shard(rank)} is that of shard {shard.rank} of {shard.id.text}.")
        for what in ("folder", "outline", "latest"):
            if getattr(shard, what) != getattr(read[0], what):
                raise BadManifest(
                    f"the nodes do not agree on {id_.text}: {what} of node {rank} is {getattr(shard, what)!r}, that of "
                    f"node 0 {getattr(read[0], what)!r}: give all nodes the same options, and --shared where they see "
                    "one folder."
                )
    if not any(shard.files for shard in read):
        raise BadManifest(f"{id_.text} has no files.")
    summaries = tuple(
        ShardSummary(rank, hashlib.sha256(text.encode()).hexdigest(), len(shard.files), shard.size)
        for rank, (text, shard) in enumerate(zip(shards, read))
    )
    return JobManifest(id_, read[0].folder, bool(read[0].outline), summaries)


def job_manifest_text(manifest: JobManifest) -> str:
    """Return the job's manifest."""
    return _text(
        {
            "id": manifest.id.text,
            "folder": manifest.folder,
            "shared": manifest.shared,
            "shards": [[shard.rank, shard.sha256, shard.files, shard.size] for shard in manifest.shards],
        }
    )


def job_manifest_from(text: str, where: str) -> JobManifest:
    """Return what the job's manifest says.

    :raises BadManifest: it is none, or not one of as many nodes as its name says.
    """
    given = _read(text, where)
    try:
        made = JobManifest(
            id=_id(given["id"]),
            folder=_name(given["folder"]),
            shared=bool(given["shared"]),
            shards=tuple(
                ShardSummary(_number(rank), _sha(sha), _number(files), _number(size))
                for rank, sha, files, size in given["shards"]
            ),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise BadManifest(f"{where} is no manifest of a checkpoint ({error}).") from None
    if made.id.complete != where or [shard.rank for shard in made.shards] != list(range(made.id.world)):
        raise BadManifest(f"{where} is not the manifest that its name says.")
    return made


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **content}, indent=1, sort_keys=True) + "\n"


def _read(text: str, where: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    schema = given.get("schema") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(schema, int):
        raise BadManifest(f"{where} is no manifest.")
    if schema > SCHEMA:
        raise BadManifest(
            f"{where} has schema {schema}, and this hpcnode knows {SCHEMA} at most: install the hpcnode of the "
            "collection that wrote it (role hpcai.azure.node_tools)."
        )
    return given


def _id(given: Any) -> Id:
    made = id_of(given) if isinstance(given, str) else None
    if made is None:
        raise ValueError(f"{given!r} names no checkpoint")
    return made


def _number(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ValueError(f"{given!r} is no number")
    return given


def _name(given: Any) -> str:
    if not isinstance(given, str) or "/" in given or given.startswith(".") or trouble_with(given):
        raise ValueError(f"{given!r} is no name of a folder")
    return given


def _path(given: Any) -> str:
    if not isinstance(given, str) or trouble_with(given):
        raise ValueError(f"{given!r} is no path")
    return given


def _sha(given: Any) -> str:
    if not isinstance(given, str) or len(given) != 64:
        raise ValueError(f"{given!r} is no hash")
    return given


def complete(store: Store, id_: Id) -> JobManifest | None:
    """Write the job's manifest if those of all nodes are there; return what it says, None if some are missing.

    :raises BadManifest: the nodes' manifests do not make up one checkpoint.
    :raises CommandFailed: it could not be read or written.
    """
    if missing_ranks(store, id_):
        return None
    names = [f"{rank}.json" for rank in range(id_.world)]
    texts = read_texts(store, id_.shards, names)
    made = job_manifest_of([texts[name] for name in names], id_)
    if any(blob.name == id_.pruned for blob in store.list(PRUNED)):
        return None
    if not _is_written(store, made):
        write_text(store, id_.complete, job_manifest_text(made))
    return made


def missing_ranks(store: Store, id_: Id) -> list[int]:
    """Return which nodes have not published their part."""
    published = {blob.name for blob in store.list(id_.shards)}
    return [rank for rank in range(id_.world) if id_.shard(rank) not in published]


def completed(store: Store) -> dict[Id, JobManifest]:
    """Return the whole checkpoints, the oldest first: those of other branches, then the line (see ``line_of``).

    What was only half written is none. What comes from a newer hpcnode, or is damaged, is left out as well.
    """
    texts = _manifests(store)
    made = {}
    for id_ in texts:
        try:
            made[id_] = job_manifest_from(texts[id_], id_.complete)
        except BadManifest:
            continue
    return made


def _manifests(store: Store) -> dict[Id, str]:
    """Return the manifests, the oldest first. One that is pruned between the listing and the reading is left out."""
    found = _listed(store)
    while True:
        names = {id_: id_.complete[len(COMPLETE) :] for id_ in found}
        try:
            texts = read_texts(store, COMPLETE, list(names.values()))
        except CommandFailed:
            relisted = _listed(store)
            # Where none has gone meanwhile, it is another trouble.
            if set(found) <= set(relisted):
                raise
            found = relisted
        else:
            return {id_: texts[name] for id_, name in names.items()}


def _listed(store: Store) -> Sequence[Id]:
    """Which have a manifest and no mark. The marks are asked for last: one that comes meanwhile is seen."""
    manifests = [(id_in(blob.name), blob.modified) for blob in store.list(COMPLETE)]
    marks = {blob.name for blob in store.list(PRUNED)}
    return line_of({id_: modified for id_, modified in manifests if id_ and id_.pruned not in marks}).ordered


def _is_written(store: Store, manifest: JobManifest) -> bool:
    if not any(blob.name == manifest.id.complete for blob in store.list(COMPLETE)):
        return False
    name = manifest.id.complete[len(COMPLETE) :]
    return read_texts(store, COMPLETE, [name])[name] == job_manifest_text(manifest)
