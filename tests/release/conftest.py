# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate cluster, and a clone of the previous release."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.previous import git, previous_commit, version_in
from simulated.cluster import REPOSITORY, Cluster
from simulated.own_cluster import simulated

NAME, PORT, NETWORK = "release", 8510, "10.81.0.0/24"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A separate cluster, not yet configured."""
    with simulated(NAME, PORT, NETWORK) as made:
        yield made


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the previous release: the commit in HPCAI_PREVIOUS, or the last one with another version."""
    commit = os.environ.get("HPCAI_PREVIOUS") or previous_commit(REPOSITORY)
    folder = tmp_path_factory.mktemp("previous") / "clone"
    git(REPOSITORY, "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(folder))
    git(folder, "checkout", "--quiet", commit)
    before, now = version_in(folder), version_in(REPOSITORY)
    assert before != now, f"{commit} has version {before} too, so this would test no upgrade"
    print(f"upgrading from {before}, {git(folder, 'log', '--max-count=1', '--format=%h of %as')}, to {now}")
    return folder
