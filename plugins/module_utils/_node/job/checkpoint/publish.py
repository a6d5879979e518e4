# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A node's part of publishing: its data, then its manifest. The job's manifest is ``whole``'s.

The data goes to a path that nobody else writes to: of this step, attempt, number of nodes, save, rank, and content.
What lies there under a name and in its size is that file: an uploader that was killed goes on where it was.
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

    :ivar parent: the folder that is watched.
    :ivar folder: the checkpoint's, in it.
    :ivar rank: this node's.
    :ivar shared: whether all nodes see one folder, of which each gives a share.
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
        """Where it is."""
        return os.path.join(self.parent, self.folder)


@dataclass(frozen=True)
class Published:
    """What was done.

    :ivar carried: bytes that were uploaded now; the rest was there.
    :ivar seconds: how long that took, the reading for the hashes left out.
    """

    shard: Shard
    carried: int = 0
    seconds: float = 0.0


def publish(store: Store, local: Local, on_uploaded: OnUploaded | None = None) -> Published:
    """Upload what is missing of this node's part, then its manifest, if that is not there.

    :raises Refused: it was pruned, published with other contents, or written to meanwhile.
    :raises CommandFailed: it could not be uploaded, or not wholly; another call goes on.
    :raises OSError: it cannot be read.
    """
    shard, entries = read_shard(local, on_uploaded)
    text, name = shard_text(shard), local.id.shard(local.rank)
    if _exists(store, local.id.pruned):
        raise Refused(f"{local.id.text} was pruned: newer ones are whole.")
    if _exists(store, name):
        published = read_texts(store, local.id.shards, [f"{local.rank}.json"])[f"{local.rank}.json"]
        if published == text:
            return Published(shard)
        if published.endswith("}\n"):
            raise Refused(
                f"step {local.id.step} of attempt {local.id.attempt} was published with other contents than "
                f"{local.path} has now: a step that is saved again needs another save (the marker's text, --save-id)."
            )
    stored = sizes(store.list(shard.data), shard.data)
    missing = [one for one in shard.files if stored.get(one.path) != one.size]
    began = time.monotonic()
    if missing:
        store.put(local.path, [one.path for one in missing], shard.data, on_uploaded)
    seconds = time.monotonic() - began
    if scan(local.path) != entries:
        raise Refused(f"{local.path} was written to while it was uploaded: it was not finished, and is not published.")
    stored = sizes(store.list(shard.data), shard.data)
    lacking = [one.path for one in shard.files if stored.get(one.path) != one.size]
    if lacking:
        raise CommandFailed(f"{len(lacking)} files of {local.id.text} are not there after the upload: {lacking[0]}.")
    write_text(store, name, text)
    return Published(shard, sum(one.size for one in missing), seconds)


def read_shard(local: Local, on_uploaded: OnUploaded | None = None) -> tuple[Shard, tuple[Entry, ...]]:
    """Return this node's part with its hashes, and all files of the folder.

    :raises Refused: there is nothing in it.
    """
    entries = scan(local.path)
    if not entries:
        raise Refused(f"{local.path} is empty: that is no checkpoint.")
    mine = share(entries, local.rank, local.id.world) if local.shared else entries
    found = hashes(local.path, [entry.path for entry in mine], lambda: on_uploaded(0) if on_uploaded else None)
    files = tuple(File(entry.path, entry.size, found[entry.path]) for entry in mine)
    return Shard(
        local.id, local.rank, local.folder, files, outline(entries) if local.shared else "", local.latest
    ), entries


def _exists(store: Store, name: str) -> bool:
    folder = name.rpartition("/")[0] + "/"
    return any(blob.name == name for blob in store.list(folder))
