# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts by role. A role without hosts is an error: its tests would otherwise be skipped, and pass for nothing."""

from __future__ import annotations

import pytest
from testinfra import get_hosts
from testinfra.host import Host


def by_role(role: str) -> list[Host]:
    """The hosts of the group hpcai_ROLE, as the admin user with root's rights."""
    hosts = get_hosts([f"ansible://hpcai_{role}?force_ansible=True&sudo=True"])
    if not hosts:
        pytest.fail(f"no host is in the group hpcai_{role}")
    return list(hosts)


@pytest.fixture(scope="session")
def controller() -> Host:
    """The controller, which is the login node too."""
    (host,) = by_role("controller")
    return host


@pytest.fixture(scope="session")
def computes() -> list[Host]:
    """The compute nodes."""
    return by_role("compute")
