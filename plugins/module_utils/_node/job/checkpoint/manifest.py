# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The manifests of nodes and of jobs. A checkpoint is complete if its job's manifest exists.

Both kinds depend only on what was saved, not on a time or the writer, so all writers write the same bytes.

Any node that finds the manifests of all nodes writes the job's manifest, not only rank 0. Each node checks this after
it has written its own, so the last one finds all. No node waits for another, and the checkpoint becomes complete even
if rank 0 is the fastest, or is killed after its part. Two nodes may find all manifests at the same time. Then both
write the same bytes to the same name, because the nodes' manifests are written only once.

A delayed node may write the job's manifest of a checkpoint that was pruned in the meantime. So pruning first writes a
permanent mark (``pruned/ID``), and a checkpoint with a mark is not complete.
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
    """The manifest is invalid; the message names it."""


class NewerManifest(BadManifest):
    """A newer hpcnode wrote the manifest; the message says what to do."""


@dataclass(frozen=True)
class File:
    """A file of a shard: path below the checkpoint's folder, size, SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Shard:
    """A node's part of a checkpoint.

    :ivar rank: the node's number in the job, from 0.
    :ivar folder: name of the checkpoint's folder.
    :ivar outline: for a folder that all nodes see, the digest of names and sizes of all its files; else empty.
    :ivar latest: name and text of the file next to the folder that names it; both empty if there is none.
    """

    id: Id
    rank: int
    folder: str
    files: tuple[File, ...]
    outline: str = ""
    latest: tuple[str, str] = ("", "")

    @property
    def digest(self) -> str:
        """A digest of names, sizes and hashes."""
        return digest(f"{one.sha256} {one.size} {one.path}" for one in self.files)

    @property
    def data(self) -> str:
        """The folder of its data in the store."""
        return self.id.data(self.rank, self.digest)

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(one.size for one in self.files)

    @property
    def contents(self) -> dict[str, tuple[int, str]]:
        """Size and hash by path."""
        return {one.path: (one.size, one.sha256) for one in self.files}


@dataclass(frozen=True)
class ShardSummary:
    """An entry of the job's manifest about a node's manifest: the hash of its text, its number of files and bytes."""

    rank: int
    sha256: str
    files: int
    size: int


@dataclass(frozen=True)
class JobManifest:
    """A complete checkpoint."""

    id: Id
    folder: str
    shared: bool
    shards: tuple[ShardSummary, ...]

    @property
    def size(self) -> int:
        """The size of all nodes' parts in bytes."""
        return sum(shard.size for shard in self.shards)


def shard_text(shard: Shard) -> str:
    """Return the text of a node's manifest."""
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
    """Parse a node's manifest.

    :raises BadManifest: it is invalid, or names a path outside its folder.
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
        raise BadManifest(f"{where} is not a valid manifest of a shard ({error}).") from None
    if len({one.path for one in made.files}) != len(made.files):
        raise BadManifest(f"{where} names a file twice.")
    return made


def job_manifest_of(shards: Sequence[str], id_: Id) -> JobManifest:
    """Return the checkpoint that consists of these manifests, one of each node.

    :raises BadManifest: one belongs to another checkpoint, or they describe different folders.
    """
    read = [shard_of(text, id_.shard(rank)) for rank, text in enumerate(shards)]
    for rank, shard in enumerate(read):
        if (shard.id, shard.rank) != (id_, rank):
            raise BadManifest(f"{id_.shard(rank)} is the manifest of shard {shard.rank} of {shard.id.text}.")
        for what in ("folder", "outline", "latest"):
            if getattr(shard, what) != getattr(read[0], what):
                raise BadManifest(
                    f"the nodes' manifests of {id_.text} do not match: {what} of node {rank} is "
                    f"{getattr(shard, what)!r}, of node 0 {getattr(read[0], what)!r}. Use the same options on all "
                    "nodes, and --shared if they see the same folder."
                )
    if not any(shard.files for shard in read):
        raise BadManifest(f"{id_.text} has no files.")
    summaries = tuple(
        ShardSummary(rank, hashlib.sha256(text.encode()).hexdigest(), len(shard.files), shard.size)
        for rank, (text, shard) in enumerate(zip(shards, read))
    )
    return JobManifest(id_, read[0].folder, bool(read[0].outline), summaries)


def job_manifest_text(manifest: JobManifest) -> str:
    """Return the text of the job's manifest."""
    return _text(
        {
            "id": manifest.id.text,
            "folder": manifest.folder,
            "shared": manifest.shared,
            "shards": [[shard.rank, shard.sha256, shard.files, shard.size] for shard in manifest.shards],
        }
    )


def job_manifest_from(text: str, where: str) -> JobManifest:
    """Parse the job's manifest.

    :raises BadManifest: it is invalid, or does not match its name or its number of nodes.
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
        raise BadManifest(f"{where} is not a valid manifest of a checkpoint ({error}).") from None
    if made.id.complete != where or [shard.rank for shard in made.shards] != list(range(made.id.world)):
        raise BadManifest(f"{where}: the content does not match the file's name.")
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
        raise BadManifest(f"{where} is not a valid manifest.")
    if schema > SCHEMA:
        raise NewerManifest(
            f"{where} has schema {schema}, but this hpcnode supports at most {SCHEMA}: install the hpcnode of the "
            "collection that wrote it (role hpcai.azure.node_tools)."
        )
    return given


def _id(given: Any) -> Id:
    made = id_of(given) if isinstance(given, str) else None
    if made is None:
        raise ValueError(f"{given!r} is not a checkpoint id")
    return made


def _number(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ValueError(f"{given!r} is not a valid number")
    return given


def _name(given: Any) -> str:
    if not isinstance(given, str) or "/" in given or given.startswith(".") or trouble_with(given):
        raise ValueError(f"{given!r} is not a valid folder name")
    return given


def _path(given: Any) -> str:
    if not isinstance(given, str) or trouble_with(given):
        raise ValueError(f"{given!r} is not a valid path")
    return given


def _sha(given: Any) -> str:
    if not isinstance(given, str) or len(given) != 64:
        raise ValueError(f"{given!r} is not a valid hash")
    return given


def complete(store: Store, id_: Id) -> JobManifest | None:
    """Write the job's manifest if all nodes' manifests exist, and return it; return None if some are missing.

    :raises BadManifest: the nodes' manifests do not match.
    :raises CommandFailed: a manifest cannot be read or written.
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
    """Return the ranks of the nodes that have not published their part."""
    published = {blob.name for blob in store.list(id_.shards)}
    return [rank for rank in range(id_.world) if id_.shard(rank) not in published]


def completed(store: Store) -> dict[Id, JobManifest]:
    """Return the complete checkpoints, oldest first: those of other branches, then the line (see ``line_of``).

    Manifests that are damaged or from a newer hpcnode are left out.
    """
    return {id_: found for id_, found in all_completed(store).items() if isinstance(found, JobManifest)}


def all_completed(store: Store) -> dict[Id, JobManifest | BadManifest]:
    """Return the complete checkpoints like ``completed``, also those whose manifest is invalid, with the reason."""
    made: dict[Id, JobManifest | BadManifest] = {}
    for id_, text in _manifests(store).items():
        try:
            made[id_] = job_manifest_from(text, id_.complete)
        except BadManifest as error:
            made[id_] = error
    return made


def _manifests(store: Store) -> dict[Id, str]:
    """Return the manifests, oldest first. One that is pruned between the listing and the reading is left out."""
    found = _listed(store)
    while True:
        names = {id_: id_.complete[len(COMPLETE) :] for id_ in found}
        try:
            texts = read_texts(store, COMPLETE, list(names.values()))
        except CommandFailed:
            relisted = _listed(store)
            # If none was removed in the meantime, the error has another cause.
            if set(found) <= set(relisted):
                raise
            found = relisted
        else:
            return {id_: texts[name] for id_, name in names.items()}


def _listed(store: Store) -> Sequence[Id]:
    """Return the ids with a manifest and without a mark. Marks are listed last, so that a new one is not missed."""
    manifests = [(id_in(blob.name), blob.modified) for blob in store.list(COMPLETE)]
    marks = {blob.name for blob in store.list(PRUNED)}
    return line_of({id_: modified for id_, modified in manifests if id_ and id_.pruned not in marks}).ordered


def _is_written(store: Store, manifest: JobManifest) -> bool:
    if not any(blob.name == manifest.id.complete for blob in store.list(COMPLETE)):
        return False
    name = manifest.id.complete[len(COMPLETE) :]
    return read_texts(store, COMPLETE, [name])[name] == job_manifest_text(manifest)
