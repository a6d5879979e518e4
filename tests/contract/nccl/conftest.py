# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node with eight GPUs, simulated on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_ins.played_node import PlayedNode

SIZE = "Standard_ND96asr_v4"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[PlayedNode]:
    """The node, without any file of the collection."""
    if os.geteuid():
        pytest.skip("only root can play a node in namespaces")
    played = PlayedNode(tmp_path, SIZE, "nccl")
    yield played
    played.end()
