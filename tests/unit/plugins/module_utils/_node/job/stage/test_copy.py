# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folders to which root copies nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.copy import refuse_user_writable

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root is refused")
USER = 54321


def test_root_copies_nothing_to_folders_that_users_can_write_or_replace(tmp_path: Path) -> None:
    scratch, theirs = tmp_path / "scratch", tmp_path / "scratch/theirs"
    theirs.mkdir(parents=True)
    scratch.chmod(0o1777)
    os.chown(theirs, USER, USER)
    for path, words in ((scratch, f"users can write to {scratch}"), (theirs / "data", f"belongs to user {USER}")):
        with pytest.raises(ValueError, match=f"{words}.*set become_user"):
            refuse_user_writable(str(path))
    assert list(theirs.iterdir()) == []
    refuse_user_writable(str(scratch / "own/data"))
    assert (scratch / "own/data").stat().st_uid == 0


def test_users_may_copy_to_folders_that_others_can_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(os, "geteuid", lambda: USER)
    refuse_user_writable(str(tmp_path))
