# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node of this scenario. If it is missing, the tests fail, so that an empty inventory cannot pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from testinfra import get_host
from testinfra.host import Host


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Host:
    """The node. Commands run as the admin user with sudo."""
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "--list"]
    source = request.config.getoption("ansible_inventory")
    answer = subprocess.run([*command, "-i", source], capture_output=True, text=True, timeout=60, check=True)
    inventory = json.loads(answer.stdout)
    (name,) = inventory.get("hpcai_compute", {}).get("hosts", [])
    value = inventory["_meta"]["hostvars"][name]["ansible_host"]
    # ansible-inventory wraps values that must not be templated.
    address = value["__ansible_unsafe"] if isinstance(value, dict) else value
    key = Path(os.environ["HPCAI_SIMULATOR_STATE"]) / "id_ed25519"
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return get_host(f"ssh://azureuser@{address}", sudo=True, ssh_identity_file=str(key), ssh_extra_args=options)
