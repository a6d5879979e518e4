# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate cluster, and a clone of the previous release."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    """A clone of the previous release: the commit in HPCAI_PREVIOUS, or the newest tag, or the last release notes."""
    commit = os.environ.get("HPCAI_PREVIOUS") or git("describe", "--tags", "--abbrev=0", check=False)
    commit = commit or git("log", "--max-count=1", "--format=%H", "--", "changelogs/changelog.yaml")
    folder = tmp_path_factory.mktemp("previous") / "clone"
    git("clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(folder))
    git("-C", str(folder), "checkout", "--quiet", commit)
    print(f"upgrading from {git('-C', str(folder), 'log', '--max-count=1', '--format=%h of %as')}")
    return folder


def git(*words: str, check: bool = True) -> str:
    """Run git in this clone."""
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()
