# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files under test: those that git tracks or would add."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The root of the working tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def files() -> list[pathlib.PurePosixPath]:
    """All files of the tree that are not ignored, relative to its root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = [pathlib.PurePosixPath(name) for name in listing.split("\0") if name]
    found = [name for name in found if (REPOSITORY / name).is_file()]
    assert len(found) > 50, f"git lists only {len(found)} files; these tests would prove nothing"
    return found
