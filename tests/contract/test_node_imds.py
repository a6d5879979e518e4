# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node core's client of the metadata service, against the simulated service."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests

from simulator import imds as simulated
from simulator.testing import Simulator, running

MODULE_UTILS = Path(__file__).resolve().parents[2] / "plugins" / "module_utils"
SCENARIO: dict[str, Any] = {
    "scale_sets": [
        {"name": "uni", "capacity": 2, "instance_ids": [0, 17], "vm_size": "Standard_ND96isr_H100_v5"},
    ],
}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator without machines: clients name their instance in a header."""
    with running(SCENARIO) as started:
        yield started


@pytest.fixture(scope="module")
def node() -> ModuleType:
    """The node core as hpcnode imports it on a node: as a separate package, without Ansible."""
    folder = MODULE_UTILS / "_node"
    spec = importlib.util.spec_from_file_location(
        "hpcai_node", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["hpcai_node"] = package
    spec.loader.exec_module(package)
    return package


def module(name: str) -> Any:
    """A module of the node core."""
    return importlib.import_module(f"hpcai_node.{name}")


@pytest.mark.usefixtures("node")
def test_the_client_reads_its_own_instance(simulator: Simulator) -> None:
    read_compute = module("machine.imds").read_compute
    found = read_compute(10, simulator.imds_endpoint, {simulated.INSTANCE_HEADER: "uni_17"})
    assert (found["name"], found["vmSize"]) == ("uni_17", "Standard_ND96isr_H100_v5")
    assert found["vmId"] == simulator.instance("uni_17").vm_id


@pytest.mark.usefixtures("node")
def test_the_client_waits_for_an_instance_that_is_not_known_yet(simulator: Simulator) -> None:
    imds = module("machine.imds")
    paused: list[float] = []
    with pytest.raises(imds.ImdsError, match="HTTP status 404"):
        imds.read_compute(2, simulator.imds_endpoint, {simulated.INSTANCE_HEADER: "uni_99"}, sleep=paused.append)
    assert paused[:3] == [0.2, 0.5, 1.0]


@pytest.mark.usefixtures("node")
def test_the_vm_size_is_stored_and_its_topology_found(simulator: Simulator, tmp_path: Path) -> None:
    vm_size, root = module("machine.vm_size"), module("machine.root").Root(str(tmp_path))
    headers = {simulated.INSTANCE_HEADER: "uni_0"}
    compute = module("machine.imds").read_compute(10, simulator.imds_endpoint, headers)
    vm_size.remember(root, compute)
    size, name = vm_size.size_facts(root)
    assert (size.name, name.origin) == ("Standard_ND96isr_H100_v5", "remembered")
    assert module("setup.nccl.topology").topology_of(size).family.name == "ndv5"


@pytest.mark.usefixtures("node")
def test_a_node_gets_only_its_events_and_can_start_them(simulator: Simulator, tmp_path: Path) -> None:
    """root's service writes only the events of its own machine for a watcher of checkpoints."""
    service, exchange, root = module("job.events.service"), module("job.events.exchange"), module("machine.root").Root
    services, roots = {}, {name: root(str(tmp_path / name)) for name in ("uni_0", "uni_17")}
    for name, place in roots.items():
        header = {simulated.INSTANCE_HEADER: name}
        services[name] = service.Service(place, simulator.imds_endpoint, header, jobs=lambda: {17: {4001}})

    def read_events(name: str) -> list[Any]:
        services[name].look()
        return list(exchange.read_events_file(roots[name]))

    assert [read_events(name) for name in roots] == [[], []]
    admin = f"{simulator.endpoint}/_simulator/events"
    own = {"EventType": "Preempt", "NotBefore": "Mon, 19 Sep 2026 18:29:47 GMT"}
    others = {"EventType": "Terminate", "Resources": ["uni_0"]}
    for event in (own, others):
        requests.post(f"{admin}{simulator.instance('uni_17').id}", json=event, timeout=10)
    (found,) = read_events("uni_17")
    assert (found.kind, found.status, found.not_before, found.is_ending) == ("Preempt", "Scheduled", 1789842587.0, True)
    assert read_events("uni_0") == []
    assert services["uni_17"].accept_ready("another", 4001) == "it is not waiting to start"
    assert services["uni_17"].accept_ready(found.id, 4002) == "other users have jobs on this node"
    assert services["uni_17"].accept_ready(found.id, 4001) == ""
    (started,) = read_events("uni_17")
    assert (started.status, started.not_before) == ("Started", None)
    with pytest.raises(module("machine.imds").ImdsError, match="HTTP status 400"):
        module("machine.imds").start_event("another", 2, simulator.imds_endpoint, {simulated.INSTANCE_HEADER: "uni_17"})
