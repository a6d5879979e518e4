# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many local NVMe disks there must be: the order of the sources."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disk_count import DiskCount, stated_count
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.options import parse

from .node import Node

NAMED = ["/dev/nvme0n1", "/dev/nvme1n1"]


@pytest.mark.parametrize(
    ("options", "nvme_count", "stated"),
    [
        ({"expected_count": 0, "devices": NAMED}, 8, DiskCount(0, "expected_count")),
        ({"devices": NAMED}, 8, DiskCount(2, "devices")),
        ({}, 8, DiskCount(8, "Standard_ND96asr_v4")),
        ({}, 0, DiskCount(0, "Standard_ND96asr_v4")),
        ({}, None, None),
    ],
)
def test_the_options_come_before_the_vm_size(
    options: dict[str, Any], nvme_count: int | None, stated: DiskCount | None
) -> None:
    assert stated_count(parse(options), nvme_count, "Standard_ND96asr_v4") == stated


@pytest.mark.parametrize("again", ["/dev/nvme1n1", "/dev/disk/by-id/nvme-1"])
def test_a_disk_that_is_named_twice_is_refused(node: Node, again: str) -> None:
    # The number of disks that the boot and the health checks expect is the number of names.
    node.links = {"by-id/nvme-1": "nvme1n1"}
    node.write()
    assert node.refusal(devices=["/dev/nvme1n1", "/dev/nvme2n1", again]) == (
        f"devices names a disk twice (/dev/nvme1n1 /dev/nvme2n1 {again}). Name each disk once."
    )
