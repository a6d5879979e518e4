# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing small texts to the store, and reading them."""

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


class LoggedStore(FolderStore):
    """Logs the local paths of uploads and downloads."""

    def put(self, source: str, names: Sequence[str], folder: str, on_uploaded: OnUploaded | None = None) -> None:
        """Log the source, then upload."""
        self.log.append(source)
        super().put(source, names, folder, on_uploaded)

    def get(self, folder: str, names: Sequence[str], target: str, most: int = 0) -> None:
        """Log the target, then download."""
        self.log.append(target)
        super().get(folder, names, target, most)


def test_temporary_files_are_in_the_runs_folder_that_the_epilog_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    store = LoggedStore(tmp_path / "blobs")
    write_text(store, "complete/1.json", "{}\n")
    assert read_texts(store, "complete/", ["1.json"]) == {"1.json": "{}\n"}
    folders = [Path(line).parent for line in store.log if line.startswith("/")]
    assert folders == [Path(store.work), Path(store.work)]
    assert list(Path(store.work).iterdir()) == []
