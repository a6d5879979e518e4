# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two nodes that save checkpoints, and what a restore then finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.folder_store import Faults, FolderStore

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.manifest import complete, completed
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.names import Id
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.publish import Local, publish
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.restore import fetch

WORLD = 2


class Job:
    """A job of two nodes, each with its own scratch, and a store that outlives the job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = folder / "blobs"

    def store(self, faults: Faults | None = None) -> FolderStore:
        """Open the store, as a process does."""
        return FolderStore(self.blobs, faults or Faults())

    def save(self, step: int, rank: int, text: str, attempt: str = "7.0", save: str = "") -> Local:
        """Write a node's part of a step: two files that contain the text and the node."""
        parent = self.folder / f"node{rank}-{attempt}"
        made = parent / f"step{step}"
        (made / "optim").mkdir(parents=True, exist_ok=True)
        (made / f"rank{rank}.pt").write_text(f"{text} of node {rank} " * 3)
        (made / "optim" / f"state{rank}.pt").write_text(f"{text} state of node {rank}")
        return Local(Id(step, attempt, WORLD, save), str(parent), f"step{step}", rank)

    def publish(self, local: Local, faults: Faults | None = None) -> list[str]:
        """Publish a node's part as a watcher does, and return the operations it took."""
        store = self.store(faults)
        publish(store, local)
        complete(store, local.id)
        return store.log

    def restored(self, name: str = "restored") -> str:
        """Restore the newest complete checkpoint on both nodes; return its text, or 'nothing' if there is none."""
        store = self.store()
        found = completed(store)
        if not found:
            return "nothing"
        manifest = list(found.values())[-1]
        texts = set()
        for rank in range(WORLD):
            target = self.folder / name / str(rank)
            target.mkdir(parents=True, exist_ok=True)
            done = fetch(store, manifest, [rank], str(target), "host")
            texts.add((Path(done.path) / f"rank{rank}.pt").read_text().partition(" of node")[0])
            texts.add((Path(done.path) / "optim" / f"state{rank}.pt").read_text().partition(" state")[0])
        assert len(texts) == 1, f"a mix of {sorted(texts)} was restored"
        return texts.pop()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job of two nodes."""
    return Job(tmp_path)
