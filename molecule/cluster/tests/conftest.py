# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts by role. A role without hosts is an error: its tests would otherwise be skipped, and pass for nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from testinfra import get_host
from testinfra.host import Host


@pytest.fixture(scope="session")
def inventory(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the inventory plugin gives."""
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "--list"]
    source = request.config.getoption("ansible_inventory")
    answer = subprocess.run([*command, "-i", source], capture_output=True, text=True, timeout=60, check=True)
    return dict(json.loads(answer.stdout))


def by_role(inventory: dict[str, Any], role: str) -> list[Host]:
    """The hosts of the group hpcai_ROLE, as the admin user with root's rights, over one ssh connection."""
    names = inventory.get(f"hpcai_{role}", {}).get("hosts", [])
    if not names:
        pytest.fail(f"no host is in the group hpcai_{role}")
    addresses = [_plain(inventory["_meta"]["hostvars"][name]["ansible_host"]) for name in names]
    key = Path(os.environ["HPCAI_SIMULATOR_STATE"]) / "id_ed25519"
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return [
        get_host(f"ssh://azureuser@{address}", sudo=True, ssh_identity_file=str(key), ssh_extra_args=options)
        for address in addresses
    ]


def _plain(value: Any) -> str:
    """ansible-inventory marks what must not be templated."""
    return str(value["__ansible_unsafe"] if isinstance(value, dict) else value)


@pytest.fixture(scope="session")
def controller(inventory: dict[str, Any]) -> Host:
    """The controller, which is the login node too."""
    (host,) = by_role(inventory, "controller")
    return host


@pytest.fixture(scope="session")
def computes(inventory: dict[str, Any]) -> list[Host]:
    """The compute nodes."""
    return by_role(inventory, "compute")
