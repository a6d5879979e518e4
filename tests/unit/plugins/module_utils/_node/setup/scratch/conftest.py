# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake node for each test."""

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch import apply

from .node import Node


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with eight blank local disks; the user who runs the test acts as root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_arguments: None)
    made = Node(tmp_path)
    monkeypatch.setattr(apply, "mount_error", made.mount_error)
    return made
