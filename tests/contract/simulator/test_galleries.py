# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator refuses what Azure refuses of galleries and images, and replicates versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from simulator.scenario import LOCATION, RESOURCE_GROUP, SUBSCRIPTION
from simulator.testing import Simulator, running

WHERE = {"location": LOCATION}
VERSION = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/galleries/hpc"
    "/images/node/versions/{}"
)
DEFINITION = {
    "osType": "Linux",
    "osState": "Generalized",
    "hyperVGeneration": "V2",
    "identifier": {"publisher": "p", "offer": "o", "sku": "s"},
}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A machine, a scale set, and a gallery with an image definition that the SDK has created."""
    of_gallery = {"id": VERSION.format("0.9.0")}
    scenario = {
        "virtual_machines": [{"name": "bake"}],
        "scale_sets": [
            {"name": "compute", "capacity": 1, "image": of_gallery},
            {"name": "market", "capacity": 1, "image": {"version": "22.04.2025041101"}},
        ],
    }
    with running(scenario) as simulated:
        sdk = simulated.compute()
        sdk.galleries.begin_create_or_update(RESOURCE_GROUP, "hpc", json.dumps(WHERE).encode()).result()
        body = json.dumps({**WHERE, "properties": DEFINITION}).encode()
        sdk.gallery_images.begin_create_or_update(RESOURCE_GROUP, "hpc", "node", body).result()
        yield simulated


def put(simulator: Simulator, name: str = "1.0.0", source: Any = None, regions: tuple[str, ...] = (LOCATION,)) -> Any:
    """Create or change a version with the SDK, and wait for the end of the operation."""
    source = source or {"virtualMachineId": simulator.instance("bake").id}
    properties = {
        "storageProfile": {"source": source},
        "publishingProfile": {"targetRegions": [{"name": region} for region in regions]},
    }
    body = json.dumps({**WHERE, "properties": properties}).encode()
    calls = simulator.compute().gallery_image_versions
    return calls.begin_create_or_update(RESOURCE_GROUP, "hpc", "node", name, body).result()


def generalise(simulator: Simulator) -> None:
    """Stop and generalise the machine."""
    machines = simulator.compute().virtual_machines
    machines.begin_deallocate(RESOURCE_GROUP, "bake").result()
    machines.generalize(RESOURCE_GROUP, "bake")


def test_a_generalised_machine_is_captured_and_listed(simulator: Simulator) -> None:
    generalise(simulator)

    made = put(simulator, regions=(LOCATION, "East US"))

    assert (made.provisioning_state, made.storage_profile.source.virtual_machine_id) == (
        "Succeeded",
        simulator.instance("bake").id,
    )
    calls = simulator.compute().gallery_image_versions
    assert [item.name for item in calls.list_by_gallery_image(RESOURCE_GROUP, "hpc", "node")] == ["1.0.0"]
    status = calls.get(RESOURCE_GROUP, "hpc", "node", "1.0.0", expand="ReplicationStatus").replication_status
    assert [(item.region, item.progress) for item in status.summary] == [(LOCATION, 100), ("East US", 100)]
    view = simulator.compute().virtual_machines.instance_view(RESOURCE_GROUP, "bake")
    assert "OSState/generalized" in [item.code for item in view.statuses]


def test_what_azure_refuses_is_refused(simulator: Simulator) -> None:
    machines = simulator.compute().virtual_machines
    with pytest.raises(HttpResponseError, match="since the VM is running"):
        machines.generalize(RESOURCE_GROUP, "bake")
    with pytest.raises(HttpResponseError, match="is not generalized"):
        put(simulator)
    generalise(simulator)
    with pytest.raises(HttpResponseError, match="is not of the form"):
        put(simulator, "latest")
    with pytest.raises(HttpResponseError, match="must be one of the target regions"):
        put(simulator, regions=("eastus",))
    put(simulator)
    with pytest.raises(HttpResponseError, match="PropertyChangeNotAllowed"):
        put(simulator, source={"id": "/subscriptions/s/other"})


def test_a_failed_replication_fails_the_operation(simulator: Simulator) -> None:
    generalise(simulator)
    simulator.model.galleries.failing["eastus"] = "no capacity"

    with pytest.raises(HttpResponseError, match="no capacity"):
        put(simulator, regions=(LOCATION, "eastus"))
    simulator.model.galleries.failing.clear()
    assert put(simulator, regions=(LOCATION, "eastus")).provisioning_state == "Succeeded"


def test_a_slow_replication_is_not_usable_yet(simulator: Simulator) -> None:
    generalise(simulator)
    simulator.model.galleries.stuck.add(LOCATION)
    calls = simulator.compute().gallery_image_versions
    properties = {
        "storageProfile": {"source": {"virtualMachineId": simulator.instance("bake").id}},
        "publishingProfile": {"targetRegions": [{"name": LOCATION}]},
    }
    body = json.dumps({**WHERE, "properties": properties}).encode()
    poller = calls.begin_create_or_update(RESOURCE_GROUP, "hpc", "node", "1.0.0", body)
    version = next(iter(simulator.model.galleries.by_id.values())).definitions["node"].versions["1.0.0"]

    with pytest.raises(HttpResponseError, match="GalleryImageNotFound"):
        patch(simulator, {"id": version.id})
    simulator.model.galleries.stuck.clear()
    poller.result()
    patch(simulator, {"id": version.id})


def patch(simulator: Simulator, reference: dict[str, str], name: str = "compute") -> None:
    """Change the image of a scale set's model."""
    profile = {"storageProfile": {"imageReference": reference}}
    body = json.dumps({"properties": {"virtualMachineProfile": profile}}).encode()
    simulator.compute().virtual_machine_scale_sets.begin_update(RESOURCE_GROUP, name, body).result()


def test_an_instance_keeps_its_image_until_it_is_updated(simulator: Simulator) -> None:
    generalise(simulator)
    version = put(simulator)
    sets = simulator.compute().virtual_machine_scale_sets
    instances = simulator.compute().virtual_machine_scale_set_vms

    def image() -> tuple[str | None, bool]:
        (found,) = instances.list(RESOURCE_GROUP, "compute")
        return found.storage_profile.image_reference.id, found.latest_model_applied

    old = VERSION.format("0.9.0")
    patch(simulator, {"id": version.id})
    assert image() == (old, False)
    sets.begin_reimage(RESOURCE_GROUP, "compute").result()
    assert image() == (old, False)
    sets.begin_update_instances(RESOURCE_GROUP, "compute", json.dumps({"instanceIds": ["0"]}).encode()).result()
    assert image() == (version.id, True)


def test_a_set_keeps_the_kind_of_its_image(simulator: Simulator) -> None:
    generalise(simulator)
    version = put(simulator)
    market = {"publisher": "p", "offer": "o", "sku": "s", "version": "1"}

    for name, reference in (("market", {"id": version.id}), ("compute", market)):
        with pytest.raises(HttpResponseError, match=r"\(OperationNotAllowed\) The Image type for a Virtual Machine"):
            patch(simulator, reference, name)
    patch(simulator, {"sku": "2404", "version": "24.04.2025091101"}, "market")
    simulator.scale_set("market").sent = {"properties": {}, "plan": {"name": "2404"}}
    with pytest.raises(HttpResponseError, match=r"\(PropertyChangeNotAllowed\) Changing property 'imageReference.sku'"):
        patch(simulator, {"sku": "2204", "version": "22.04.2025091101"}, "market")
