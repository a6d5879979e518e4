# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Decides which checkpoints to keep, and removes the others so that a partly removed one never counts as complete."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .manifest import completed
from .names import ABOUT, CHOICES, COMPLETE, DATA, PRUNED, SHARDS, Id, id_in, line_of
from .store import Store, Stored, write_text

LEFTOVER_HOURS = 24.0


@dataclass(frozen=True)
class Retention:
    """Which checkpoints to keep.

    :ivar last: how many of the newest, at least one. Those of the running attempt are newer than all others, and each
        attempt is newer than the attempts that began before it, whatever their steps are.
    :ivar every: of the older ones, keep those whose step is divisible by this; 0 to keep none of them.
    :ivar leftover_s: an incomplete checkpoint is a leftover if nothing of it was written for this time.
    :ivar attempt: the running attempt; its incomplete checkpoints are never leftovers.
    :ivar resumed: the step that it has restored, if known.
    :ivar branches: whether to keep checkpoints of other branches. They are removed only if the user requests it.
    """

    last: int = 3
    every: int = 0
    leftover_s: float = LEFTOVER_HOURS * 3600
    attempt: str = ""
    resumed: int | None = None
    branches: bool = True


@dataclass(frozen=True)
class Plan:
    """What to remove.

    :ivar complete: complete checkpoints to remove, oldest first.
    :ivar leftovers: incomplete ones that killed attempts left, and partly removed ones.
    :ivar marks: marks to remove, whose checkpoints are completely removed.
    :ivar branches: complete ones that stay although not among the newest: a later attempt went back below them.
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

    :param complete: the complete checkpoints.
    :param stored: all checkpoints with data or manifests, complete or not, and when they were last written to.
    :param marks: all checkpoints marked as pruned, and since when.
    :param unread: checkpoints whose job's manifest could not be read, for example one from a newer hpcnode: they stay.
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
    """Remove what need not be kept, and return the executed plan.

    The order is: write the mark, then remove the job's manifest, the nodes' manifests, the data, lineage and signature.
    From the first step on, the checkpoint is not complete. If this is killed, the next run continues.

    :raises CommandFailed: not all could be removed.
    """
    complete = completed(store)
    manifests, shards, data, about, marked = (store.list(one) for one in (COMPLETE, SHARDS, DATA, ABOUT, PRUNED))
    now = time.time() if now is None else now
    unread = set(_written(manifests)) - set(complete)
    made = plan(complete, _written([*manifests, *shards, *data, *about]), _written(marked), keep, now, unread)
    names = _by_id([*manifests, *shards, *data, *about])
    marks = {blob.name for blob in marked}
    for id_ in (*made.leftovers, *made.complete):
        remove(store, id_, names.get(id_, []), id_.pruned in marks)
    choices = [blob.name for blob in store.list(CHOICES) if now - blob.modified > keep.leftover_s]
    store.remove([*(id_.pruned for id_ in made.marks), *choices])
    return made


def remove(store: Store, id_: Id, names: Iterable[str], marked: bool = False) -> None:
    """Remove a checkpoint that has these blobs."""
    listed = list(names)
    if not marked:
        write_text(store, id_.pruned, "pruned\n")
    for folder in (COMPLETE, SHARDS, DATA, ABOUT):
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
