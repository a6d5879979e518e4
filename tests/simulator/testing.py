# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulator in the process of a test, without machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from requests import Response

from simulator import TOKEN, admin, clients
from simulator import scenario as scenarios
from simulator.arm import versions
from simulator.arm.context import Options
from simulator.backends import Backend
from simulator.backends.none import NoneBackend
from simulator.faults import Faults
from simulator.limits import Limits
from simulator.model import Model
from simulator.operations import Operation
from simulator.resources import Instance, ScaleSet
from simulator.server import Server

TEST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA test"


class Simulator:
    """The interface of a running simulator for tests."""

    token = TOKEN

    def __init__(self, server: Server) -> None:
        self._server = server
        self.endpoint = server.endpoint
        self.imds_endpoint = server.imds_endpoint
        self.subscription_id = server.model.subscription
        self.model: Model = server.model
        self.options = server.options
        """Options such as page sizes. They can be changed while the simulator runs."""

    @property
    def authority(self) -> bytes:
        """The certificate of the key vaults' authority, in PEM."""
        return self._server.authority.certificate

    @property
    def tls_port(self) -> int:
        """The port of the key vaults on loopback. The host name selects the vault."""
        return self._server.tls_port

    def add_fault(self, match: str, action: str = "status", **rule: Any) -> int:
        """Add a fault rule. simulator.faults.Fault documents its keys."""
        return self._server.faults.add(match=match, action=action, **rule)

    def serve_tls(self) -> tuple[str, bytes]:
        """Serve Resource Manager over TLS too. Returns its URL, and the certificate to trust, in PEM."""
        return self._server.serve_tls()

    @property
    def faults(self) -> Faults:
        """The active fault rules."""
        return self._server.faults

    def clear(self) -> None:
        """Delete all faults and clear the request logs."""
        self._server.faults.clear()
        for log in self._server.requests.values():
            log.clear()

    def requests(self, service: str = "arm") -> list[dict[str, Any]]:
        """All requests in order: method, path, query, status (0 for a dropped one)."""
        return list(self._server.requests[service].document()["requests"])

    def request_counts(self) -> dict[str, int]:
        """The number of requests per ``METHOD path``."""
        return dict(self._server.requests["arm"].document()["counts"])

    def latency(self, milliseconds: float) -> None:
        """Delay every answer."""
        self._server.options.latency_ms = milliseconds

    def edit(self, azure_id: str, **changes: Any) -> None:
        """Change what Resource Manager returns for a machine. simulator.admin.EDITS lists the keys."""
        admin.edit(self.instance(azure_id), changes)

    def instance(self, wanted: str) -> Instance:
        """The machine with this Azure id, vmId, name or computer name."""
        found = self.model.find_caller(wanted)
        if found is None:
            raise KeyError(f"no instance {wanted}")
        return found

    def scale_set(self, name: str) -> ScaleSet:
        """The scale set of this name."""
        for item in self.model.scale_sets.values():
            if item.name.lower() == name.lower():
                return item
        raise KeyError(f"no scale set {name}")

    def warm(self) -> None:
        """Encode every answer once, so that a benchmark measures the set latency and not the simulator's work."""
        compute, network = self.compute(), self.network()
        list(compute.virtual_machines.list_all())
        list(compute.virtual_machines.list_all(status_only="true"))
        list(network.network_interfaces.list_all())
        for item in list(self.model.scale_sets.values()):
            group, name = item.resource_group, item.name
            if item.flexible:
                chosen = f"'virtualMachineScaleSet/id' eq '{item.id}'"
                list(compute.virtual_machines.list(group, filter=chosen, expand="instanceView"))
                continue
            list(compute.virtual_machine_scale_set_vms.list(group, name, expand="instanceView"))
            list(network.network_interfaces.list_virtual_machine_scale_set_network_interfaces(group, name))
        self._server.requests["arm"].clear()

    def compute(self, **options: Any) -> Any:
        """The SDK's compute client (untyped, because in the SDK's types every field of an answer may be None)."""
        return clients.compute(self.endpoint, self.subscription_id, **options)

    def network(self, **options: Any) -> Any:
        """The SDK's network client."""
        return clients.network(self.endpoint, self.subscription_id, **options)

    def deployments(self, **options: Any) -> Any:
        """The SDK's deployments client."""
        return clients.deployments(self.endpoint, self.subscription_id, **options)

    @property
    def limits(self) -> Limits:
        """The quotas, restrictions, images, rights and policies of the subscription, which a test can change."""
        return self.model.limits

    def operations(self) -> list[Operation]:
        """The operations that are running."""
        return self._server.operations.running()

    def wait(self, timeout: float = 30) -> None:
        """Wait until no operation is running."""
        assert self._server.operations.wait(timeout)

    def arm(self, method: str, path: str, body: Any = None, version: str = "", token: str = TOKEN) -> Response:
        """Send a request to Resource Manager, by default in the newest version of the type.

        A path without a subscription is below the subscription.
        """
        if not path.startswith("/subscriptions/"):
            path = f"/subscriptions/{self.subscription_id}{path}"
        separator = "&" if "?" in path else "?"
        version = version or versions.newest(versions.type_of(method, path.partition("?")[0]))
        return requests.request(
            method,
            f"{self.endpoint}{path}{separator}api-version={version}",
            json=body,
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
        )


@contextmanager
def running(
    scenario: Mapping[str, Any] | Path | scenarios.Scenario,
    *,
    backend: Backend | None = None,
    seed: int | None = 1,
    boot_timeout: float = 10,
    **options: Any,
) -> Iterator[Simulator]:
    """A simulator on a free port, with all machines running.

    ``options`` are those of simulator.arm.context.Options (page sizes, latency_ms, only_published ...). The same
    scenario and seed give the same identifiers.
    """
    if isinstance(scenario, Path):
        scenario = scenarios.load(scenario)
    elif not isinstance(scenario, scenarios.Scenario):
        scenario = scenarios.parse(scenario)
    server = Server(
        scenario,
        backend or NoneBackend(),
        port=0,
        ssh_public_keys=(TEST_KEY,),
        options=Options(**{"poll_ms": 20, **options}),
        seed=seed,
        boot_timeout=boot_timeout,
    )
    server.start().finished.wait()
    try:
        yield Simulator(server)
    finally:
        server.stop()
