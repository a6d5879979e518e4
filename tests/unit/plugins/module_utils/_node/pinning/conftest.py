# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ND A100 v4 in a folder, and an inspection of its processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, nd_a100_v4

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.check import Inspection, inspect
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.layout import read_layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.rank import GpuUse
from ansible_collections.hpcai.azure.plugins.module_utils._node.pinning.select import Selection

Look = Callable[..., Inspection]


@pytest.fixture
def nd(tmp_path: Path) -> MachineTree:
    """A Standard_ND96asr_v4 without processes."""
    return nd_a100_v4(tmp_path)


@pytest.fixture
def look() -> Look:
    """Return a function that inspects the processes of a tree, by default those called xhpl."""

    def inspected(
        tree: MachineTree,
        gpu_use: GpuUse | None = None,
        selection: Selection = Selection("xhpl"),  # noqa: B008 - immutable
        with_memory: bool = False,
    ) -> Inspection:
        root = Root(str(tree.path))
        return inspect(root, read_layout(root), selection, gpu_use, with_memory)

    return inspected
