# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node for the tests of NCCL's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.nccl_node import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """An ND A100 v4 without any of our files."""
    return Node(tmp_path)
