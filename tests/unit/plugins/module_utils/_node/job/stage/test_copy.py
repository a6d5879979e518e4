# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folders to and from which root copies nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.credential import Credential
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.options import Limits
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.output import Blob, Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage import copy as stage_copy
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.copy import CopyOptions, refuse_user_writable
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.options import STATE

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


def test_root_copies_nothing_through_folders_of_users_below_the_destination(tmp_path: Path) -> None:
    dest = tmp_path / "data"
    (dest / "closed/theirs").mkdir(parents=True)
    os.chown(dest / "closed/theirs", USER, USER)
    (dest / "linked").symlink_to("/etc")
    refuse_user_writable(str(dest), ["file", "closed/file", "new/file"])
    for path, words in (("closed/theirs/x/file", "users can write to .*theirs"), ("linked/file", "linked cannot be")):
        with pytest.raises(ValueError, match=f"{words}.*set become_user"):
            refuse_user_writable(str(dest), [path])


def test_root_copies_nothing_to_a_place_of_users_to_which_the_operators_link_leads(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "inside").mkdir(parents=True)
    os.chown(theirs, USER, USER)
    (tmp_path / "link").symlink_to(theirs / "inside")
    with pytest.raises(ValueError, match=r"users can replace .*inside"):
        refuse_user_writable(str(tmp_path / "link"))


def test_a_missing_destination_is_not_created_when_it_is_only_checked(tmp_path: Path) -> None:
    refuse_user_writable(str(tmp_path / "new/data"), ["a/file"], make=False)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """An empty container, and what is uploaded to it."""
    found: list[tuple[str, ...]] = []

    def upload(_tool: object, folder: str, names: Sequence[str], *_more: object, follow_links: bool) -> Outcome:
        found.append((folder, *names, str(follow_links)))
        return Outcome()

    monkeypatch.setattr(stage_copy, "list_blobs", lambda *_given: [])
    monkeypatch.setattr(stage_copy, "upload", upload)
    return found


def _upload(source: Path, work: Path, apply: bool = True) -> None:
    url = "https://a.blob.core.windows.net/results"
    asked = CopyOptions(str(source), url, "*.json", False, False, Credential("none"), Limits(), "azcopy", str(work))
    stage_copy.copy(asked, apply)


@pytest.mark.parametrize("apply", [True, False])
@pytest.mark.parametrize("where", ["results", "results/job7"])
def test_root_uploads_nothing_to_which_a_users_link_leads(
    tmp_path: Path, carried: list[tuple[str, ...]], where: str, apply: bool
) -> None:
    (tmp_path / "munge.key").write_text("secret", encoding="utf-8")
    (tmp_path / "results/job7").mkdir(parents=True)
    os.chown(tmp_path / where, USER, USER)
    (tmp_path / where / "x.json").symlink_to(tmp_path / "munge.key")
    with pytest.raises(ValueError, match=f"users can write to .*{where}, so root does not upload.*set become_user"):
        _upload(tmp_path / "results", tmp_path, apply)
    assert not carried


def test_root_uploads_its_own_files_but_no_links(tmp_path: Path, carried: list[tuple[str, ...]]) -> None:
    results = tmp_path / "results"
    (results / "job7").mkdir(parents=True)
    (results / "job7/a.json").write_text("1", encoding="utf-8")
    # This file does not match the pattern, so it does not matter.
    (results / "latest").symlink_to("job7/a.json")
    _upload(results, tmp_path)
    assert carried == [(str(results), "job7/a.json", "False")]
    (results / "latest.json").symlink_to("job7/a.json")
    with pytest.raises(ValueError, match=r"latest\.json is a symbolic link"):
        _upload(results, tmp_path)


def test_root_opens_nothing_below_a_destination_of_users(
    tmp_path: Path, carried: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = Blob("a.json", 1)
    monkeypatch.setattr(stage_copy, "list_blobs", lambda *_given: [blob])
    dest = tmp_path / "data"
    (dest / STATE).mkdir(parents=True)
    os.chown(dest / STATE, USER, USER)
    # Reading this would never end.
    os.mkfifo(dest / STATE / "manifest-00000-of-00001.jsonl")
    url = "https://a.blob.core.windows.net/data"
    asked = CopyOptions(url, str(dest), "", False, False, Credential("none"), Limits(), "azcopy", str(tmp_path))
    with pytest.raises(ValueError, match=f"users can write to .*{STATE}"):
        stage_copy.copy(asked, apply=False)
    assert not carried
