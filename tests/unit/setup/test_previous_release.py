# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make release-check` upgrades from the previous version, not from an earlier commit of the same version."""

from __future__ import annotations

from pathlib import Path

import pytest

from release.previous import NoPrevious, git, previous_commit


def commit(repository: Path, **files: str) -> str:
    """Write files, commit them, and return the commit."""
    for name, text in files.items():
        (repository / f"{name}.yml").write_text(text, encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--message=x")
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose first commit has no galaxy.yml."""
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, readme="1")
    return tmp_path


def test_the_last_commit_with_another_version_is_taken(repository: Path) -> None:
    commit(repository, galaxy="version: 0.1.0\n")
    last = commit(repository, readme="2")
    commit(repository, galaxy="version: 0.2.0\n")
    # Other changes of galaxy.yml and other files have no part in it.
    commit(repository, galaxy="version: 0.2.0\nreadme: y\n", readme="3")
    commit(repository, changelog="0.2.0")
    assert previous_commit(repository) == last


def test_a_version_that_is_not_committed_is_another_one(repository: Path) -> None:
    commit(repository, galaxy="version: 0.2.0\n")
    last = commit(repository, readme="2")
    (repository / "galaxy.yml").write_text("version: 0.3.0\n", encoding="utf-8")
    assert previous_commit(repository) == last


def test_a_history_with_one_version_is_an_error_with_advice(repository: Path) -> None:
    commit(repository, galaxy="version: 0.1.0\n")
    commit(repository, galaxy="version: 0.1.0\nreadme: y\n")
    with pytest.raises(NoPrevious, match=r"another version than 0\.1\.0.*--unshallow.*HPCAI_PREVIOUS"):
        previous_commit(repository)
