# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each type of resource has versions of its interface, and Azure refuses others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulator import sample_stack as stack
from simulator.testing import Simulator, running


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """An empty subscription with one resource group."""
    with running(stack.EMPTY) as simulated:
        simulated.arm("PUT", f"/resourceGroups/{stack.GROUP}", {"location": stack.LOCATION})
        yield simulated


@pytest.mark.parametrize(
    ("method", "path", "version", "known"),
    [
        ("PUT", stack.VAULT, "2023-07-01", True),
        ("PUT", stack.VAULT, "2024-05-01", False),
        ("GET", stack.VAULT, "2024-05-01", False),
        ("GET", stack.VNET, "2024-05-01", True),
        ("GET", stack.SUBNET, "2024-05-02", False),
        ("GET", stack.GROUP_ID, "2022-09-01", True),
        ("GET", stack.GROUP_ID, "2022-09-02", False),
        ("POST", f"{stack.COMPUTE}/start", "2024-07-01", True),
        ("POST", f"{stack.COMPUTE}/start", "2024-07-02", False),
        # The SDK asks here for the operations of a deployment.
        ("GET", f"{stack.GROUP_ID}/deployments/x/operations", "2026-06-01", True),
        # Microsoft.Network answers for this list.
        ("GET", f"{stack.COMPUTE}/networkInterfaces", "2024-05-01", True),
    ],
)
def test_each_type_has_its_own_versions(
    simulator: Simulator, method: str, path: str, version: str, known: bool
) -> None:
    error = simulator.arm(method, path, {}, version=version).json().get("error", {})
    assert (error.get("code") != "NoRegisteredProviderFound") is known
    assert known or f"API version '{version}' for type" in error["message"]


def test_the_version_of_a_resource_in_a_template_must_exist(simulator: Simulator) -> None:
    body = stack.template([stack.resource("Microsoft.Network/natGateways", "nat") | {"apiVersion": "2024-05-02"}])
    answer = simulator.arm("POST", f"{stack.GROUP_ID}/providers/Microsoft.Resources/deployments/x/validate", body)
    assert [one["code"] for one in answer.json()["error"]["details"]] == ["NoRegisteredProviderFound"]
