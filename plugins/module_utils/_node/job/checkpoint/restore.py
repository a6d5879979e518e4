# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Restoring a checkpoint: which one, the same on all nodes, and fetching all of it.

Node 0 chooses, and the others read its choice in the store. Each would find the newest by itself, but not each the
same: one may look before something is published or pruned, and another after. The choice is kept under what one call
of srun has alone, so that it is never an earlier one's. Within that call it is made once: of two restores in one srun,
a node in its first and another in its second come to the same.

Files come into a folder of its own, are verified by hash, and then get into place by a rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Callable

from ...machine.atomic import write_file
from ...machine.run import CommandFailed, wait_until
from .directory import differences
from .manifest import JobManifest, Shard, shard_of
from .names import CHOICES, Id, Member, id_of
from .state import FOLDER
from .store import Store, read_texts, sizes, write_text


class Damaged(CommandFailed):
    """What the store holds is not what its manifests say; the message names it."""


@dataclass(frozen=True)
class Fetched:
    """What came of it.

    :ivar path: where it is.
    :ivar carried: bytes that were downloaded; 0 where it was there already.
    :ivar aside: where what was in its place before is now; empty if nothing was.
    """

    path: str
    files: int
    size: int
    carried: int = 0
    seconds: float = 0.0
    aside: str = ""


def fetch(store: Store, manifest: JobManifest, ranks: Iterable[int], directory: str, host: str) -> Fetched:
    """Bring the parts of these nodes to ``directory``, into a folder of the checkpoint's name.

    What lies there and is the same, by hash, is left; anything else is moved aside, since it may be half of one.

    :raises Damaged: something is gone, or is not what was saved. The directory is as it was.
    :raises CommandFailed: it could not be fetched.
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
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(made)
    os.makedirs(made)
    fetched: set[str] = set()
    for shard in shards:
        names = [one.path for one in shard.files if one.path not in fetched]
        fetched.update(names)
        store.get(shard.data, names, made)
    wrong = differences(made, expected)
    if wrong:
        shutil.rmtree(made, ignore_errors=True)
        raise Damaged(
            f"{manifest.id.text} is damaged: {len(wrong)} files are not what was saved, the first is {wrong[0]}."
        )
    aside = _move_into_place(made, target, directory)
    _name_latest(directory, shards)
    return Fetched(target, len(expected), size, size, time.monotonic() - began, aside)


def read_shards(store: Store, manifest: JobManifest, ranks: list[int]) -> list[Shard]:
    """Return the nodes' manifests, verified by what the job's says of them.

    :raises Damaged: one is gone or another.
    """
    present = {blob.name for blob in store.list(manifest.id.shards)}
    gone = [manifest.id.shard(rank) for rank in ranks if manifest.id.shard(rank) not in present]
    if gone:
        raise Damaged(f"{manifest.id.text} is damaged or was pruned meanwhile: {gone[0]} is not there.")
    texts = read_texts(store, manifest.id.shards, [f"{rank}.json" for rank in ranks])
    made = []
    for rank in ranks:
        text, where = texts[f"{rank}.json"], manifest.id.shard(rank)
        if hashlib.sha256(text.encode()).hexdigest() != manifest.shards[rank].sha256:
            raise Damaged(f"{manifest.id.text} is damaged: {where} is not the one that the job's manifest names.")
        shard = shard_of(text, where)
        if (shard.id, shard.rank) != (manifest.id, rank):
            raise Damaged(f"{manifest.id.text} is damaged: {where} is of {shard.id.text}, node {shard.rank}.")
        made.append(shard)
    return made


def _check_blobs(store: Store, manifest: JobManifest, shards: list[Shard]) -> None:
    """Look before anything is carried: names and sizes cost one question a shard."""
    for shard in shards:
        stored = sizes(store.list(shard.data), shard.data)
        lacking = [one.path for one in shard.files if stored.get(one.path) != one.size]
        if lacking:
            raise Damaged(
                f"{manifest.id.text} is damaged or was pruned meanwhile: {shard.data}{lacking[0]} is not there, or has "
                f"another size ({len(lacking)} files in all)."
            )


def _merged(shards: list[Shard]) -> dict[str, tuple[int, str]]:
    expected: dict[str, tuple[int, str]] = {}
    for shard in shards:
        for path, what in shard.contents.items():
            if expected.setdefault(path, what) != what:
                raise CommandFailed(
                    f"{shard.id.text}: {path} of node {shard.rank} is another one than that of a node before: they "
                    "cannot lie in one folder. Restore each node's part on a node of its own, without --all."
                )
    return expected


def _move_into_place(made: str, target: str, directory: str) -> str:
    aside = ""
    if os.path.lexists(target):
        number = 1
        while os.path.lexists(aside := os.path.join(directory, FOLDER, f"{os.path.basename(target)}.{number}")):
            number += 1
        os.rename(target, aside)
    os.rename(made, target)
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
    """Return what node 0 has chosen; None where there is nothing to restore.

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
            f"node 0 has not said within {wait_s:g} s which checkpoint is restored: call it on all nodes by one srun, "
            "or name one (--id)."
        )
    return choices[0]


def _is_chosen(store: Store, name: str, choices: list[Id | None]) -> bool:
    """Whether node 0 has chosen; what, is put into ``choices``."""
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
