# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Restores a checkpoint: chooses the same one on all nodes, and downloads it completely.

Node 0 chooses, and the others read its choice from the store. If each node searched for the newest checkpoint, they
could choose different ones, because one may be published or pruned in the meantime. The choice is stored under an id of
this srun, so that an earlier choice is never used. Within an srun the choice is made once: if it restores twice, all
nodes use the same checkpoint both times.

Files are downloaded to a separate folder, verified by hash, and moved to the final path by a rename.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Callable

from ...machine.atomic import write_file
from ...machine.run import CommandFailed, wait_until
from .directory import differences, hashes, scan
from .manifest import JobManifest, Shard, shard_of
from .names import CHOICES, Id, Member, id_of
from .state import FOLDER
from .store import Store, read_texts, sizes, write_text


class Damaged(CommandFailed):
    """The store's content does not match its manifests; the message names the checkpoint and the file."""


@dataclass(frozen=True)
class Fetched:
    """The result of a restore.

    :ivar path: of the checkpoint's folder.
    :ivar carried: bytes downloaded; 0 if it was there already.
    :ivar aside: new path of what was at ``path`` before; empty if there was nothing.
    """

    path: str
    files: int
    size: int
    carried: int = 0
    seconds: float = 0.0
    aside: str = ""


def fetch(store: Store, manifest: JobManifest, ranks: Iterable[int], directory: str, host: str) -> Fetched:
    """Download the parts of these nodes to ``directory``, into a folder with the checkpoint's name.

    An existing folder with the same files, by hash, is kept. Anything else there is moved aside, because it may be
    incomplete.

    :raises Damaged: a file is missing or differs from what was saved. The directory is unchanged.
    :raises CommandFailed: the download failed.
    :raises OSError: it cannot be written.
    """
    began = time.monotonic()
    shards = read_shards(store, manifest, sorted(set(ranks)))
    expected = _merged(shards)
    target = os.path.join(directory, manifest.folder)
    size = sum(size for size, _sha in expected.values())
    if os.path.isdir(target) and not differences(target, expected):
        _name_latest(directory, shards)
        return Fetched(target, len(expected), size, 0, time.monotonic() - began)
    _check_blobs(store, manifest, shards)
    made = os.path.join(directory, FOLDER, f"fetch-{host}")
    # The name of what an earlier call, which was cut, has begun; it did not name the checkpoint in earlier versions.
    begun = f"{made}.{manifest.id.text}"
    for path in (made, *glob.glob(f"{glob.escape(made)}.*")):
        if path != begun:
            shutil.rmtree(path, ignore_errors=True)
    made = begun
    os.makedirs(made, exist_ok=True)
    fetched = _fetched(made, expected)
    carried = size - sum(expected[path][0] for path in fetched)
    for shard in shards:
        names = [one.path for one in shard.files if one.path not in fetched]
        fetched.update(names)
        store.get(shard.data, names, made)
    wrong = differences(made, expected)
    if wrong:
        shutil.rmtree(made, ignore_errors=True)
        raise Damaged(
            f"{manifest.id.text} is damaged: {len(wrong)} files differ from what was saved, the first is {wrong[0]}."
        )
    aside = _move_into_place(made, target, directory)
    _name_latest(directory, shards)
    return Fetched(target, len(expected), size, carried, time.monotonic() - began, aside)


def _fetched(made: str, expected: Mapping[str, tuple[int, str]]) -> set[str]:
    """Return the files that are in this folder already, by size and hash, and remove all others."""
    try:
        entries = scan(made)
    except CommandFailed:
        shutil.rmtree(made)
        os.makedirs(made)
        return set()
    found = hashes(made, [one.path for one in entries if expected.get(one.path, (-1, ""))[0] == one.size])
    good = {path for path, sha in found.items() if sha == expected[path][1]}
    for one in entries:
        if one.path not in good:
            os.unlink(os.path.join(made, one.path))
    return good


def read_shards(store: Store, manifest: JobManifest, ranks: list[int]) -> list[Shard]:
    """Return the nodes' manifests, verified with the job's manifest.

    :raises Damaged: one is missing or does not match.
    """
    present = {blob.name for blob in store.list(manifest.id.shards)}
    gone = [manifest.id.shard(rank) for rank in ranks if manifest.id.shard(rank) not in present]
    if gone:
        raise Damaged(f"{manifest.id.text} is damaged, or was pruned in the meantime: {gone[0]} is missing.")
    texts = read_texts(store, manifest.id.shards, [f"{rank}.json" for rank in ranks])
    made = []
    for rank in ranks:
        text, where = texts[f"{rank}.json"], manifest.id.shard(rank)
        if hashlib.sha256(text.encode()).hexdigest() != manifest.shards[rank].sha256:
            raise Damaged(f"{manifest.id.text} is damaged: {where} does not match the job's manifest.")
        shard = shard_of(text, where)
        if (shard.id, shard.rank) != (manifest.id, rank):
            raise Damaged(f"{manifest.id.text} is damaged: {where} belongs to {shard.id.text}, node {shard.rank}.")
        made.append(shard)
    return made


def _check_blobs(store: Store, manifest: JobManifest, shards: list[Shard]) -> None:
    """Check names and sizes before any download; this costs one request per shard."""
    for shard in shards:
        stored = sizes(store.list(shard.data), shard.data)
        lacking = [one.path for one in shard.files if stored.get(one.path) != one.size]
        if lacking:
            raise Damaged(
                f"{manifest.id.text} is damaged, or was pruned in the meantime: {shard.data}{lacking[0]} is missing or "
                f"has the wrong size ({len(lacking)} files in total)."
            )


def _merged(shards: list[Shard]) -> dict[str, tuple[int, str]]:
    expected: dict[str, tuple[int, str]] = {}
    for shard in shards:
        for path, what in shard.contents.items():
            if expected.setdefault(path, what) != what:
                raise CommandFailed(
                    f"{shard.id.text}: {path} of node {shard.rank} differs from the same file of another node, so they "
                    "cannot be in one folder. Restore each node's part on its own node, without --all."
                )
    return expected


_ASIDE = re.compile(r".*/(?!fetch-)[^/]*\.[1-9][0-9]*", re.DOTALL)


def _move_into_place(made: str, target: str, directory: str) -> str:
    """Return where the previous content is now, empty if there was none. Only the last one is kept: it is large."""
    aside = ""
    older = [one for one in glob.glob(f"{glob.escape(directory)}/{FOLDER}/*.*") if _ASIDE.fullmatch(one)]
    if os.path.lexists(target):
        number = 1
        while os.path.lexists(aside := os.path.join(directory, FOLDER, f"{os.path.basename(target)}.{number}")):
            number += 1
        os.rename(target, aside)
    os.rename(made, target)
    for one in older if aside else ():
        if os.path.isdir(one):
            shutil.rmtree(one, ignore_errors=True)
    for folder in (target, directory):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return aside


def _name_latest(directory: str, shards: list[Shard]) -> None:
    name, text = shards[0].latest
    if name:
        write_file(os.path.join(directory, name), text)


_PAUSE_S = 2.0


def broadcast_choice(
    store: Store, member: Member, choose: Callable[[], Id | None], wait_s: float, pause_s: float = _PAUSE_S
) -> Id | None:
    """Return the checkpoint that node 0 has chosen; None if there is nothing to restore.

    :raises CommandFailed: node 0 has not chosen in time.
    """
    name = f"{member.call}.json"
    choices: list[Id | None] = []
    if member.rank == 0:
        if _is_chosen(store, name, choices):
            return choices[0]
        chosen = choose()
        write_text(store, f"{CHOICES}{name}", json.dumps({"schema": 1, "id": chosen.text if chosen else None}) + "\n")
        return chosen
    if not wait_until(lambda: _is_chosen(store, name, choices), wait_s, pause_s):
        raise CommandFailed(
            f"node 0 did not choose a checkpoint within {wait_s:g} s: run this command on all nodes with one srun, or "
            "choose a checkpoint with --id."
        )
    return choices[0]


def _is_chosen(store: Store, name: str, choices: list[Id | None]) -> bool:
    """Return whether node 0 has chosen, and append its choice to ``choices``."""
    if not any(blob.name == f"{CHOICES}{name}" for blob in store.list(CHOICES)):
        return False
    try:
        given = json.loads(read_texts(store, CHOICES, [name])[name])["id"]
    except (ValueError, LookupError, TypeError):
        return False
    id_ = id_of(given) if isinstance(given, str) else None
    if id_ is None and given is not None:
        return False
    choices.append(id_)
    return True
