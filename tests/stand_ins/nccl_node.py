# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine's tree, and NCCL's files that are written from it to the test's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl import ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.options import options_of


class Node:
    """An ND A100 v4.

    :ivar tree: its hardware.
    :ivar given: the options that a test needs: the VM size, and all paths in the test's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.tree = SizedMachine.of_size(folder / "root", "nd96asr_v4")
        self.topology = folder / "out" / "topo.xml"
        self.conf = folder / "out" / "nccl.conf"
        self.enroot = folder / "out" / "enroot"
        self.mounts = self.enroot / "mounts.d/60-hpcai-nccl.fstab"
        self.environment = self.enroot / "environ.d/60-hpcai-nccl.env"
        self.conf.parent.mkdir()
        self.given = {
            "vm_size": "nd96asr_v4",
            "root": str(self.tree.path),
            "topology_path": str(self.topology),
            "conf_path": str(self.conf),
            "enroot_dir": str(self.enroot),
        }

    def ensure(self, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        """Bring the files to the state in the options."""
        return ensure.ensure(options_of({**self.given, **options}), check_mode)

    def files(self) -> dict[str, bytes]:
        """Return all files that were written, with their contents."""
        below = self.conf.parent
        return {str(file.relative_to(below)): file.read_bytes() for file in below.rglob("*") if file.is_file()}
