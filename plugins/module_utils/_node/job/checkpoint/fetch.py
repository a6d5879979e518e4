# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Fetching a whole checkpoint: into a folder of its own, verified by hash, and then into place by a rename."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass

from ...machine.atomic import write_file
from ...machine.run import CommandFailed
from .files import differences
from .manifest import Shard, Whole, shard_of
from .record import FOLDER
from .store import Store, read_texts, sizes


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


def fetch(store: Store, whole: Whole, ranks: Iterable[int], directory: str, host: str) -> Fetched:
    """Bring the parts of these nodes to ``directory``, into a folder of the checkpoint's name.

    What lies there and is the same, by hash, is left; anything else is moved aside, since it may be half of one.

    :raises Damaged: something is gone, or is not what was saved. The directory is as it was.
    :raises CommandFailed: it could not be fetched.
    :raises OSError: it cannot be written.
    """
    began = time.monotonic()
    shards = read_shards(store, whole, sorted(set(ranks)))
    wanted = _together(shards)
    target = os.path.join(directory, whole.folder)
    size = sum(size for size, _sha in wanted.values())
    if os.path.isdir(target) and not differences(target, wanted):
        _name_latest(directory, shards)
        return Fetched(target, len(wanted), size, 0, time.monotonic() - began)
    _all_there(store, whole, shards)
    made = os.path.join(directory, FOLDER, f"fetch-{host}")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(made)
    os.makedirs(made)
    taken: set[str] = set()
    for shard in shards:
        names = [one.path for one in shard.files if one.path not in taken]
        taken.update(names)
        store.get(shard.data, names, made)
    wrong = differences(made, wanted)
    if wrong:
        shutil.rmtree(made, ignore_errors=True)
        raise Damaged(
            f"{whole.id.text} is damaged: {len(wrong)} files are not what was saved, the first is {wrong[0]}."
        )
    aside = _place(made, target, directory)
    _name_latest(directory, shards)
    return Fetched(target, len(wanted), size, size, time.monotonic() - began, aside)


def read_shards(store: Store, whole: Whole, ranks: list[int]) -> list[Shard]:
    """Return the nodes' manifests, verified by what the job's says of them.

    :raises Damaged: one is gone or another.
    """
    there = {blob.name for blob in store.list(whole.id.shards)}
    gone = [whole.id.shard(rank) for rank in ranks if whole.id.shard(rank) not in there]
    if gone:
        raise Damaged(f"{whole.id.text} is damaged or was pruned meanwhile: {gone[0]} is not there.")
    texts = read_texts(store, whole.id.shards, [f"{rank}.json" for rank in ranks])
    made = []
    for rank in ranks:
        text, where = texts[f"{rank}.json"], whole.id.shard(rank)
        if hashlib.sha256(text.encode()).hexdigest() != whole.parts[rank].sha256:
            raise Damaged(f"{whole.id.text} is damaged: {where} is not the one that the job's manifest names.")
        shard = shard_of(text, where)
        if (shard.id, shard.rank) != (whole.id, rank):
            raise Damaged(f"{whole.id.text} is damaged: {where} is of {shard.id.text}, node {shard.rank}.")
        made.append(shard)
    return made


def _all_there(store: Store, whole: Whole, shards: list[Shard]) -> None:
    """Look before anything is carried: names and sizes cost one question a shard."""
    for shard in shards:
        stored = sizes(store.list(shard.data), shard.data)
        lacking = [one.path for one in shard.files if stored.get(one.path) != one.size]
        if lacking:
            raise Damaged(
                f"{whole.id.text} is damaged or was pruned meanwhile: {shard.data}{lacking[0]} is not there, or has "
                f"another size ({len(lacking)} files in all)."
            )


def _together(shards: list[Shard]) -> dict[str, tuple[int, str]]:
    wanted: dict[str, tuple[int, str]] = {}
    for shard in shards:
        for path, what in shard.wanted.items():
            if wanted.setdefault(path, what) != what:
                raise CommandFailed(
                    f"{shard.id.text}: {path} of node {shard.rank} is another one than that of a node before: they "
                    "cannot lie in one folder. Restore each node's part on a node of its own, without --all."
                )
    return wanted


def _place(made: str, target: str, directory: str) -> str:
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
