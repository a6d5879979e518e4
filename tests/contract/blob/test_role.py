# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role blob_staging on a simulated node, with a release file that contains the real azcopy."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_ins.blob.release import ARCHIVE, pack
from stand_ins.played_node import PlayedNode

# The namespaces have no network. This machine has the library that azcopy needs.
NO_PACKAGES = ("-e", '{"__blob_staging_packages": []}')
PROGRAM = "/opt/hpcai/azcopy/10.32.2/azcopy"


@pytest.fixture(scope="module")
def release(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release file that is packed like Microsoft's."""
    return pack(programs, tmp_path_factory.mktemp("release")).parent


@pytest.fixture
def node(tmp_path: Path) -> Iterator[PlayedNode]:
    """The node, without any file of the collection."""
    if os.geteuid():
        pytest.skip("only root can play a node in namespaces")
    played = PlayedNode(tmp_path, "Standard_ND96asr_v4", "blob_staging")
    played.minimal_facts = True
    yield played
    played.end()


@pytest.mark.thorough
def test_azcopy_with_the_right_digest_is_installed_once_and_configured(node: PlayedNode, release: Path) -> None:
    digest = hashlib.sha256((release / ARCHIVE).read_bytes()).hexdigest()
    options = {
        "blob_staging_source": "files",
        "blob_staging_files": str(release),
        "blob_staging_sha256": {ARCHIVE: digest},
        "blob_staging_processes": 8,
    }
    node.play("main", *NO_PACKAGES, "--check", **options)
    assert node.text(PROGRAM) is None
    assert node.play("main", *NO_PACKAGES, **options)["changed"] > 0
    assert node.text("/etc/hpcai/blob.json")
    again = node.play("main", *NO_PACKAGES, **options)
    # Skipped: the installation, the schedule of the verification and its removal, and the socket of the grants.
    assert (again["changed"], again["skipped"]) == (0, 4)
    assert json.loads(node.text("/etc/hpcai/grants.json") or "")["grants"] == []
    settings = json.loads(node.text("/etc/hpcai/blob.json") or "")
    assert (settings["azcopy"], settings["processes"], settings["schema"]) == (PROGRAM, 8, 1)
    # hpcnode reads the settings and finds azcopy; only the account is missing.
    status, answer = node.hpcnode(
        "stage", "plan", "--source", "https://a.blob.core.windows.net/data", "--credential", "none"
    )
    assert (status, "a.blob.core.windows.net: the account's name cannot be resolved" in answer["error"]) == (1, True)


def test_a_file_with_a_wrong_digest_is_not_unpacked(node: PlayedNode, release: Path) -> None:
    with pytest.raises(AssertionError, match="has the SHA-256 digest"):
        node.play(
            "main",
            *NO_PACKAGES,
            blob_staging_source="files",
            blob_staging_files=str(release),
            blob_staging_sha256={ARCHIVE: "a" * 64},
        )
    assert node.text(PROGRAM) is None
