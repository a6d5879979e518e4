# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Publishes a node's part: its data, then its manifest. ``manifest.complete`` writes the job's manifest.

The data's path is unique to this step, attempt, number of nodes, save, rank, and content, so nothing else writes to it.
A blob there with the right name and size is that file, so an upload that was killed can continue.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from ...machine.run import CommandFailed
from .directory import Entry, Refused, hashes, outline, scan, share
from .manifest import File, Shard, shard_text
from .names import Id
from .store import OnUploaded, Store, read_texts, sizes, write_text


@dataclass(frozen=True)
class Local:
    """A finished checkpoint on this node.

    :ivar parent: the watched folder.
    :ivar folder: the checkpoint's folder in it.
    :ivar rank: of this node.
    :ivar shared: whether all nodes see the same folder, and each publishes a share of it.
    :ivar latest: see ``Shard``.
    """

    id: Id
    parent: str
    folder: str
    rank: int
    shared: bool = False
    latest: tuple[str, str] = ("", "")

    @property
    def path(self) -> str:
        """The path of its folder."""
        return os.path.join(self.parent, self.folder)


@dataclass(frozen=True)
class Published:
    """The result of publishing.

    :ivar carried: bytes uploaded now; the rest was there already.
    :ivar seconds: how long the upload took, without the hashing.
    """

    shard: Shard
    carried: int = 0
    seconds: float = 0.0


def publish(store: Store, local: Local, on_uploaded: OnUploaded | None = None) -> Published:
    """Upload the missing files of this node's part, then its manifest, unless it exists.

    :raises Refused: it was pruned, was published with other content, or changed during the upload.
    :raises CommandFailed: the upload failed or is incomplete; another call continues.
    :raises OSError: it cannot be read.
    """
    shard, entries = read_shard(local, on_uploaded)
    text, name = shard_text(shard), local.id.shard(local.rank)
    if _exists(store, local.id.pruned):
        raise Refused(f"{local.id.text} was pruned: newer checkpoints are complete.")
    if _exists(store, name):
        published = read_texts(store, local.id.shards, [f"{local.rank}.json"])[f"{local.rank}.json"]
        if published == text:
            return Published(shard)
        if published.endswith("}\n"):
            raise Refused(
                f"step {local.id.step} of attempt {local.id.attempt} was published, but {local.path} now has other "
                "content: a step that is saved again needs another save id (the marker's text, or --save-id)."
            )
    stored = sizes(store.list(shard.data), shard.data)
    missing = [one for one in shard.files if stored.get(one.path) != one.size]
    began = time.monotonic()
    if missing:
        store.put(local.path, [one.path for one in missing], shard.data, on_uploaded)
    seconds = time.monotonic() - began
    if scan(local.path) != entries:
        raise Refused(f"{local.path} changed during the upload, so it was not finished; it is not published.")
    stored = sizes(store.list(shard.data), shard.data)
    lacking = [one.path for one in shard.files if stored.get(one.path) != one.size]
    if lacking:
        raise CommandFailed(f"{len(lacking)} files of {local.id.text} are missing after the upload: {lacking[0]}.")
    write_text(store, name, text)
    return Published(shard, sum(one.size for one in missing), seconds)


def read_shard(local: Local, on_uploaded: OnUploaded | None = None) -> tuple[Shard, tuple[Entry, ...]]:
    """Return this node's part with its hashes, and all files of the folder.

    :raises Refused: the folder is empty.
    """
    entries = scan(local.path)
    if not entries:
        raise Refused(f"{local.path} is empty, so it is not a checkpoint.")
    mine = share(entries, local.rank, local.id.world) if local.shared else entries
    found = hashes(local.path, [entry.path for entry in mine], lambda: on_uploaded(0) if on_uploaded else None)
    files = tuple(File(entry.path, entry.size, found[entry.path]) for entry in mine)
    return Shard(
        local.id, local.rank, local.folder, files, outline(entries) if local.shared else "", local.latest
    ), entries


def _exists(store: Store, name: str) -> bool:
    folder = name.rpartition("/")[0] + "/"
    return any(blob.name == name for blob in store.list(folder))
