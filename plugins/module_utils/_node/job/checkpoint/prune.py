# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which checkpoints stay, and removing the others so that none of them is taken for whole on the way."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .manifest import completed
from .names import CHOICES, COMPLETE, DATA, PRUNED, SHARDS, Id, id_in, line_of
from .store import Store, Stored, write_text

LEFTOVER_HOURS = 24.0


@dataclass(frozen=True)
class Retention:
    """What stays.

    :ivar last: how many of the newest, one at least. Those of the running attempt are newer than all others, and each
        attempt is newer than the ones that were begun before it, whatever their steps.
    :ivar every: of the older ones, those whose step can be divided by this; 0 for none of them.
    :ivar leftover_s: what is not whole is nobody's any more when nothing of it was written for so long.
    :ivar attempt: the running one; nothing of it is a leftover, however old.
    :ivar resumed: the step that it has restored, if that is known.
    :ivar branches: whether checkpoints of other branches stay. They are removed only where somebody asks for that.
    """

    last: int = 3
    every: int = 0
    leftover_s: float = LEFTOVER_HOURS * 3600
    attempt: str = ""
    resumed: int | None = None
    branches: bool = True


@dataclass(frozen=True)
class Plan:
    """What to do.

    :ivar complete: whole ones to remove, the oldest first.
    :ivar leftovers: what killed attempts have left, and what is half removed.
    :ivar marks: marks to remove, of which nothing else is there any more.
    :ivar branches: whole ones that stay although they are not among the newest: a later attempt went back below them.
    """

    complete: tuple[Id, ...] = ()
    leftovers: tuple[Id, ...] = ()
    marks: tuple[Id, ...] = ()
    branches: tuple[Id, ...] = ()


def plan(
    complete: Iterable[Id],
    stored: Mapping[Id, float],
    marks: Mapping[Id, float],
    keep: Retention,
    now: float,
    unread: Collection[Id] = (),
) -> Plan:
    """Return what to remove.

    :param complete: the whole ones.
    :param stored: everything of which data or manifests are there, whole or not, and when the last of it was written.
    :param marks: everything that is marked as pruned, and since when.
    :param unread: what has a job's manifest that could not be read, as a newer hpcnode writes: not ours to remove.
    """
    sorted_ = line_of({one: stored.get(one, 0.0) for one in complete}, keep.attempt, keep.resumed)
    ordered, branches = sorted_.ordered, sorted_.branches
    older = (*(() if keep.branches else branches), *sorted_.line[: -max(1, keep.last)])
    going = tuple(one for one in older if not keep.every or one.step % keep.every)
    old = {one for one, written in stored.items() if now - written > keep.leftover_s and one.attempt != keep.attempt}
    leftover_ids = [one for one in stored if one in marks or (one in old and one not in ordered and one not in unread)]
    done = [
        one
        for one, since in marks.items()
        if one not in stored and one.attempt != keep.attempt and now - since > keep.leftover_s
    ]
    leftovers, marked = (tuple(sorted(found, key=lambda one: one.order)) for found in (leftover_ids, done))
    return Plan(going, leftovers, marked, branches if keep.branches else ())


def prune(store: Store, keep: Retention, now: float | None = None) -> Plan:
    """Remove what need not stay, and return what that was.

    A mark first, then the job's manifest, then those of the nodes, then the data: killed anywhere, it is not whole from
    the first step on, and the next run goes on.

    :raises CommandFailed: not all could be removed.
    """
    complete = completed(store)
    manifests, shards, data, marked = (store.list(folder) for folder in (COMPLETE, SHARDS, DATA, PRUNED))
    now = time.time() if now is None else now
    unread = set(_written(manifests)) - set(complete)
    made = plan(complete, _written([*manifests, *shards, *data]), _written(marked), keep, now, unread)
    names = _by_id([*manifests, *shards, *data])
    marks = {blob.name for blob in marked}
    for id_ in (*made.leftovers, *made.complete):
        remove(store, id_, names.get(id_, []), id_.pruned in marks)
    choices = [blob.name for blob in store.list(CHOICES) if now - blob.modified > keep.leftover_s]
    store.remove([*(id_.pruned for id_ in made.marks), *choices])
    return made


def remove(store: Store, id_: Id, names: Iterable[str], marked: bool = False) -> None:
    """Remove a checkpoint, of which these blobs are there."""
    listed = list(names)
    if not marked:
        write_text(store, id_.pruned, "pruned\n")
    for folder in (COMPLETE, SHARDS, DATA):
        found = [name for name in listed if name.startswith(folder)]
        if found:
            store.remove(found)


def _written(blobs: Iterable[Stored]) -> dict[Id, float]:
    found: dict[Id, float] = {}
    for blob in blobs:
        id_ = id_in(blob.name)
        if id_:
            found[id_] = max(found.get(id_, 0.0), blob.modified)
    return found


def _by_id(blobs: Iterable[Stored]) -> dict[Id, list[str]]:
    found: dict[Id, list[str]] = {}
    for blob in blobs:
        id_ = id_in(blob.name)
        if id_:
            found.setdefault(id_, []).append(blob.name)
    return found
