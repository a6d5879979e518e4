# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight against a simulated subscription, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.clients import Clients
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.credentials import (
    Identity,
    find_cloud,
    make_credential,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import apply, preflight
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.arm import Arm
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.cost import cost_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.deployments import Deployments
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.model import Stack
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.parse import stack_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_ask import ask_azure
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_facts import Verdict
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_needs import needs_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.resource import GROUP
from simulator.limits import Limits
from simulator.testing import Simulator, running

IMAGE = "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025041101"
LOCATION = "southcentralus"
STACK: dict[str, Any] = {
    "name": "hpc",
    "location": LOCATION,
    "ssh_public_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA operator@example"],
    "network": {"ssh_from": ["192.0.2.0/24"]},
    "scale_sets": [{"vm_size": "Standard_ND96asr_v4", "max": 4, "zone": "1", "image": IMAGE}],
}
_PATIENT_S = 600
"""No test depends on the speed of the machine."""
GIVEN = "given"
"""A resource group that exists before the stack, without a resource."""


class Subscription:
    """A simulated subscription.

    :ivar requests: number of requests of the last preflight.
    """

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.requests = 0
        self.send("PUT", self.group["adopt"], GROUP, {"location": LOCATION})

    @property
    def group(self) -> dict[str, str]:
        """The key of hpcai_stack that adopts the existing group."""
        return {"adopt": f"/subscriptions/{self.simulator.subscription_id}/resourceGroups/{GIVEN}"}

    def limit(self, **limits: Any) -> None:
        """Set limits of the subscription: quota, images, rights and more (simulator.limits)."""
        self.simulator.model.limits.change(limits)

    def send(self, method: str, resource_id: str, kind: str, body: dict[str, Any] | None = None) -> None:
        """Make or delete a resource."""
        with self.clients() as clients:
            Arm(clients, Deadline(_PATIENT_S)).begin(method, resource_id, kind, body)()

    def stack(self, **changes: Any) -> Stack:
        """The stack with some keys changed."""
        return stack_of({**STACK, **changes}, self.simulator.subscription_id)

    def provision(self, **changes: Any) -> None:
        """Make the stack."""
        stack = self.stack(**changes)
        with self.clients() as clients:
            arm = Arm(clients, Deadline(_PATIENT_S))
            deployments = Deployments(
                clients, stack.subscription, stack.group.name, Deadline(_PATIENT_S), lambda line: None
            )
            apply.Apply(stack, arm, deployments, lambda line: None).run(apply.look(stack, arm))

    def preflight(self, timeout: float = _PATIENT_S, **changes: Any) -> list[Verdict]:
        """All verdicts on the stack, the worst first."""
        stack = self.stack(**changes)
        needs = needs_of(stack)
        deadline = Deadline(timeout)
        with self.clients(deadline) as clients:
            facts = ask_azure(clients, deadline, stack, needs)
        self.requests = facts.requests
        verdicts = preflight.judge(needs, facts, None, Verdict(preflight.COST, "per day", "pass", "not asked here"))
        # The report must be possible with every answer.
        assert preflight.table(preflight.document(needs, stack.name, verdicts, cost_of(needs, None)))
        return verdicts

    def bad(self, **changes: Any) -> dict[str, Verdict]:
        """The verdicts that are not a pass, by check, of which each must have only one."""
        found: dict[str, Verdict] = {}
        for one in self.preflight(**changes):
            if one.verdict != "pass":
                assert one.check not in found, (found[one.check], one)
                found[one.check] = one
        return found

    @contextmanager
    def clients(self, deadline: Deadline | None = None) -> Iterator[Clients]:
        """Clients of the SDK."""
        cloud = find_cloud("AzureCloud", self.simulator.endpoint)
        credential = make_credential(Identity("token", token=self.simulator.token), cloud)
        made = Clients(cloud, credential, deadline or Deadline(_PATIENT_S), only_lists=False)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def _module_subscription() -> Iterator[Subscription]:
    with running({"name": "empty"}) as simulator:
        yield Subscription(simulator)


@pytest.fixture
def azure(_module_subscription: Subscription) -> Iterator[Subscription]:
    """A subscription without limits, in which nothing exists but one empty resource group."""
    yield _module_subscription
    _module_subscription.simulator.clear()
    _module_subscription.simulator.model.limits = Limits()


@pytest.fixture
def azure_with() -> Iterator[Callable[[dict[str, Any]], Subscription]]:
    """Start a subscription of a test's own, in which something exists."""
    with ExitStack() as stack:
        yield lambda scenario: Subscription(stack.enter_context(running({"name": "used", **scenario})))
