# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The job's manifest, and which checkpoints are whole.

Who writes it: any node that finds the manifests of all nodes, not rank 0. Each node looks after it has written its own,
so the last one finds all; none has to wait for another, and a rank 0 that is killed after its share, or that is the
fastest, keeps nothing from being whole. Two nodes may find all at once. Both then write the same bytes under the same
name, since the manifest is a function of the nodes' manifests alone, and these are written once: whoever comes second
changes nothing.

A node that was held up may write the manifest of what was pruned meanwhile. So pruning starts with a mark that stays
(``pruned/ID``), and what has one is not whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...machine.run import CommandFailed
from .line import line_of
from .manifest import BadManifest, Whole, whole_from, whole_of, whole_text
from .names import COMPLETE, PRUNED, Id, id_in
from .store import Store, read_texts, write_text


def complete(store: Store, id_: Id) -> Whole | None:
    """Write the job's manifest if those of all nodes are there; return what it says, None if some are missing.

    :raises BadManifest: the nodes' manifests do not make up one checkpoint.
    :raises CommandFailed: it could not be read or written.
    """
    if missing_ranks(store, id_):
        return None
    names = [f"{rank}.json" for rank in range(id_.world)]
    texts = read_texts(store, id_.shards, names)
    made = whole_of([texts[name] for name in names], id_)
    if any(blob.name == id_.pruned for blob in store.list(PRUNED)):
        return None
    if not _is_written(store, made):
        write_text(store, id_.complete, whole_text(made))
    return made


def missing_ranks(store: Store, id_: Id) -> list[int]:
    """Return which nodes have not published their part."""
    there = {blob.name for blob in store.list(id_.shards)}
    return [rank for rank in range(id_.world) if id_.shard(rank) not in there]


def completed(store: Store) -> dict[Id, Whole]:
    """Return the whole checkpoints, the oldest first: those of other branches, then those of the line (see ``line``).

    What was only half written is none. What comes from a newer hpcnode, or is damaged, is left out as well.
    """
    texts = _manifests(store)
    made = {}
    for id_ in texts:
        try:
            made[id_] = whole_from(texts[id_], id_.complete)
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
            left = _listed(store)
            # Where none has gone meanwhile, it is another trouble.
            if set(found) <= set(left):
                raise
            found = left
        else:
            return {id_: texts[name] for id_, name in names.items()}


def _listed(store: Store) -> Sequence[Id]:
    """Which have a manifest and no mark. The marks are asked for last: one that comes meanwhile is seen."""
    manifests = [(id_in(blob.name), blob.modified) for blob in store.list(COMPLETE)]
    marks = {blob.name for blob in store.list(PRUNED)}
    return line_of({id_: modified for id_, modified in manifests if id_ and id_.pruned not in marks}).ordered


def _is_written(store: Store, whole: Whole) -> bool:
    if not any(blob.name == whole.id.complete for blob in store.list(COMPLETE)):
        return False
    name = whole.id.complete[len(COMPLETE) :]
    return read_texts(store, COMPLETE, [name])[name] == whole_text(whole)
