# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stack on a simulated, empty subscription: runs of azure_stack as the action plugin makes them."""

from __future__ import annotations

from typing import Any

from ansible_collections.hpcai.azure.plugins.action import azure_stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.names import Names
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.parse import stack_of
from simulator.testing import Simulator

EMPTY: dict[str, Any] = {"virtual_networks": []}
"""The scenario of a subscription without resources."""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA operator"
IMAGE = "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025041101"
DEFAULTS: dict[str, Any] = {
    "state": "present",
    "cloud": "AzureCloud",
    "auth_source": "token",
    "tenant_id": None,
    "client_id": None,
    "client_secret": None,
    "certificate_path": None,
    "sources": [],
    "timeout": 60,
    "export_to": None,
    "inventory_to": None,
    "data": [],
    "purge_vault": False,
}


def smallest(**more: Any) -> dict[str, Any]:
    """The least that a user writes, with some keys changed."""
    return {
        "location": "southcentralus",
        "ssh_public_keys": [KEY],
        "scale_sets": [{"vm_size": "Standard_ND96asr_v4", "max": 4, "image": IMAGE}],
        **more,
    }


class Azure:
    """An empty subscription, and runs of the module on it."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    def run(self, stated: dict[str, Any] | None = None, *, check: bool = False, **options: Any) -> dict[str, Any]:
        """Run the module, and return its result."""
        given = {
            **DEFAULTS,
            "endpoint": self.simulator.endpoint,
            "token": self.simulator.token,
            "subscription_id": self.simulator.subscription_id,
            "stack": stated or smallest(),
            **options,
        }
        return azure_stack.perform(given, check, None, "localhost")

    def names(self, stated: dict[str, Any] | None = None) -> Names:
        """The ids of a stack's resources."""
        return Names(stack_of(stated or smallest(), self.simulator.subscription_id))

    def get(self, resource_id: str, version: str = "") -> dict[str, Any]:
        """A resource, which must exist."""
        answer = self.simulator.arm("GET", resource_id, version=version)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def exists(self, resource_id: str) -> bool:
        """Whether a resource exists."""
        return self.simulator.arm("GET", resource_id).status_code == 200

    def put(self, resource_id: str, body: dict[str, Any]) -> None:
        """Make or change a resource by hand, as somebody else."""
        answer = self.simulator.arm("PUT", resource_id, body)
        assert answer.status_code < 300, answer.text

    def sent(self) -> list[tuple[str, str]]:
        """Method and path of all requests so far that could change something."""
        return [
            (item["method"], item["path"])
            for item in self.simulator.requests()
            if item["method"] != "GET"
            and not item["path"].lower().endswith(("/validate", "/whatif", "/checknameavailability"))
        ]
