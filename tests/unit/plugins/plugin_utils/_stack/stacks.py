# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stacks for the tests: the smallest that a user can write, and larger ones."""

from __future__ import annotations

from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.parse import stack_of

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
IMAGE = "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025010101"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA operator@example"
GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hpc"


def smallest(**more: Any) -> dict[str, Any]:
    """The least that a user writes: location, ssh key, one set."""
    return {
        "location": "swedencentral",
        "ssh_public_keys": [KEY],
        "scale_sets": [{"vm_size": "Standard_ND96asr_v4", "max": 16, "image": IMAGE}],
        **more,
    }


def stack(**more: Any) -> Stack:
    """The smallest stack, with some keys changed."""
    return stack_of(smallest(**more), SUBSCRIPTION)


def sets(count: int, **more: Any) -> list[dict[str, Any]]:
    """Several scale sets."""
    return [
        {"name": f"compute{number}", "vm_size": "Standard_ND96asr_v4", "max": 4, "image": IMAGE, **more}
        for number in range(count)
    ]
