# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small texts on their way to the store and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from stand_ins.folder_store import FolderStore

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.store import (
    OnUploaded,
    read_texts,
    write_text,
)


class Watched(FolderStore):
    """Notes where files lie before they are put, and after they were got."""

    def put(self, source: str, names: Sequence[str], folder: str, on_uploaded: OnUploaded | None = None) -> None:
        """Note, then put."""
        self.log.append(source)
        super().put(source, names, folder, on_uploaded)

    def get(self, folder: str, names: Sequence[str], target: str) -> None:
        """Note, then get."""
        self.log.append(target)
        super().get(folder, names, target)


def test_they_lie_in_the_runs_own_folder_where_an_epilog_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    store = Watched(tmp_path / "blobs")
    write_text(store, "complete/1.json", "{}\n")
    assert read_texts(store, "complete/", ["1.json"]) == {"1.json": "{}\n"}
    folders = [Path(line).parent for line in store.log if line.startswith("/")]
    assert folders == [Path(store.work), Path(store.work)]
    assert list(Path(store.work).iterdir()) == []
