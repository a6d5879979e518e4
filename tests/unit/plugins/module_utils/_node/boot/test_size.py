# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VM size that a boot step expects, and which machines need none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.size import expected_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize


def settings(root: Path, name: str, **content: Any) -> None:
    """Write a settings file."""
    file = root / f"etc/hpcai/{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"schema": 1, **content}), encoding="ascii")


def test_the_size_comes_from_the_settings(tmp_path: Path) -> None:
    settings(tmp_path, "node", vm_size="nd96asr_v4")
    size = expected_size(Root(str(tmp_path)))
    assert size is not None
    assert (size.name, size.gpu_count) == ("Standard_ND96asr_v4", 8)


@pytest.mark.parametrize(("vm_size", "error"), [("", ConfigError), ("Standard_D4s_v5", UnknownVmSize)])
def test_only_a_compute_node_needs_a_known_size(tmp_path: Path, vm_size: str, error: type[Exception]) -> None:
    settings(tmp_path, "node", vm_size=vm_size)
    root = Root(str(tmp_path))
    settings(tmp_path, "cluster", cluster="a", functions=["compute", "login"], controllers=["10.0.0.4"])
    with pytest.raises(error):
        expected_size(root)
    settings(tmp_path, "cluster", cluster="a", functions=["controller"], controllers=["10.0.0.4"])
    assert expected_size(root) is None


def test_a_machine_that_is_not_configured_yet_needs_no_size(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    assert expected_size(root) is None
    # Configured without the role cluster: slurmd may be the site's own.
    settings(tmp_path, "node", vm_size="Standard_D4s_v5")
    with pytest.raises(UnknownVmSize):
        expected_size(root)
