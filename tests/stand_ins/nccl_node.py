# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module nccl_topology on a machine's tree, with output in the test's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.modules import nccl_topology

RunModule = Callable[..., dict[str, Any]]


class Node:
    """A machine's tree and the files that the module writes from it."""

    def __init__(
        self, folder: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch, size: str = "nd96asr_v4"
    ) -> None:
        self.size = size
        self.tree = SizedMachine.of_size(folder / "root", size)
        self.topology = folder / "out" / "topo.xml"
        self.conf = folder / "out" / "nccl.conf"
        self.enroot = folder / "out" / "enroot"
        self.mounts = self.enroot / "mounts.d/60-hpcai-nccl.fstab"
        self.environment = self.enroot / "environ.d/60-hpcai-nccl.env"
        self.run_module = run_module
        self.conf.parent.mkdir()
        self.warned: list[str] = []
        # A module's result lacks its warnings when it runs in the process of a test, so record them here.
        monkeypatch.setattr(nccl_topology.AnsibleModule, "warn", lambda _module, warning: self.warned.append(warning))

    def run(self, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        """Run the module; ``_warned`` in the result has its warnings."""
        given = {
            "vm_size": self.size,
            "root": str(self.tree.path),
            "topology_path": str(self.topology),
            "conf_path": str(self.conf),
            "enroot_dir": str(self.enroot),
        }
        self.warned.clear()
        answer = self.run_module(nccl_topology.main, check_mode=check_mode, **{**given, **options})
        return {**answer, "_warned": "\n".join(self.warned)}

    def files(self) -> dict[str, bytes]:
        """Return all files that the module wrote, with their contents."""
        below = self.conf.parent
        return {str(file.relative_to(below)): file.read_bytes() for file in below.rglob("*") if file.is_file()}
