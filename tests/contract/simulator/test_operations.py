# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long-running operations through the real SDK, and their effects on machines, names, keys and addresses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from simulator import scenario
from simulator.backends import BackendError
from simulator.backends.recording import RecordingBackend
from simulator.server import Server
from simulator.testing import Simulator, running

GROUP = "hpcai-sim"
SCENARIO: dict[str, Any] = {
    "virtual_machines": [{"name": "ctl"}],
    "scale_sets": [
        {"name": "uni", "capacity": 2, "instance_ids": [0, 3, 17], "hardware": {"local_disks": True}},
        {"name": "flex", "capacity": 2, "orchestration_mode": "Flexible"},
    ],
}


@pytest.fixture
def backend() -> RecordingBackend:
    """A backend that records the operations on machines."""
    return RecordingBackend()


@pytest.fixture
def simulator(backend: RecordingBackend) -> Iterator[Simulator]:
    """A simulator with that backend."""
    with running(SCENARIO, backend=backend) as simulated:
        yield simulated


def names(simulator: Simulator, scale_set: str = "uni") -> list[str]:
    """The instances of a scale set."""
    return [item.name for item in simulator.compute().virtual_machine_scale_set_vms.list(GROUP, scale_set)]


def resize(simulator: Simulator, capacity: int, scale_set: str = "uni") -> Any:
    """Start a change of the capacity."""
    return simulator.compute().virtual_machine_scale_sets.begin_update(
        GROUP, scale_set, {"sku": {"capacity": capacity}}
    )


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true that another thread changes."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def test_growing_creates_a_machine_with_a_new_identity(simulator: Simulator, backend: RecordingBackend) -> None:
    before = {item.vm_id for item in simulator.model.instances()}
    result = resize(simulator, 3).result()
    assert (result.sku.capacity, result.provisioning_state) == (3, "Succeeded")
    assert names(simulator) == ["uni_0", "uni_3", "uni_17"]
    new = simulator.instance("uni_17")
    assert new.vm_id not in before
    assert new.computer_name == "uni00000H"
    spec = backend.specs[new.vm_id]
    assert (spec.name, spec.private_ipv4, spec.local_disks) == ("uni-17", new.private_ipv4, True)
    assert spec.azure_id == new.id
    assert backend.of(new.vm_id) == ["create"]


def test_growing_ends_only_when_the_machine_is_ready(simulator: Simulator, backend: RecordingBackend) -> None:
    backend.gate.clear()
    begun = time.monotonic()
    poller = resize(simulator, 3)
    assert time.monotonic() - begun < 2, "the answer must not wait for the machine"
    shown = simulator.compute().virtual_machine_scale_set_vms.get(GROUP, "uni", "17", expand="instanceView")
    assert shown.provisioning_state == "Creating"
    assert shown.instance_view.statuses[1].code == "PowerState/starting"
    assert simulator.compute().virtual_machine_scale_sets.get(GROUP, "uni").provisioning_state == "Updating"
    assert not poller.done()
    backend.gate.set()
    assert poller.result().provisioning_state == "Succeeded"
    assert simulator.instance("uni_17").power_state == "running"


def test_shrinking_deletes_the_newest_instance(simulator: Simulator, backend: RecordingBackend) -> None:
    victim = simulator.instance("uni_3").vm_id
    resize(simulator, 1).result()
    assert names(simulator) == ["uni_0"]
    assert backend.of(victim) == ["create", "delete"]


def test_deleting_by_id_reduces_the_capacity(simulator: Simulator, backend: RecordingBackend) -> None:
    backend.gate.clear()
    sets = simulator.compute().virtual_machine_scale_sets
    poller = sets.begin_delete_instances(GROUP, "uni", {"instanceIds": ["0"]})
    assert sets.get(GROUP, "uni").sku.capacity == 1
    instances = simulator.compute().virtual_machine_scale_set_vms
    assert instances.get(GROUP, "uni", "0").provisioning_state == "Deleting"
    backend.gate.set()
    poller.result()
    assert names(simulator) == ["uni_3"]
    with pytest.raises(ResourceNotFoundError):
        instances.get(GROUP, "uni", "0")


def test_an_instance_that_is_still_starting_can_be_deleted(simulator: Simulator, backend: RecordingBackend) -> None:
    backend.gate.clear()
    growing = resize(simulator, 3)
    new = simulator.instance("uni_17")
    wait_until(lambda: ("create", new.vm_id) in backend.calls)
    deleting = simulator.compute().virtual_machine_scale_set_vms.begin_delete(GROUP, "uni", "17")
    assert new.provisioning_state == "Deleting"
    backend.gate.set()
    growing.result()
    deleting.result()
    assert new.provisioning_state == "Deleting"
    assert backend.of(new.vm_id) == ["create", "delete"]
    assert names(simulator) == ["uni_0", "uni_3"]


def test_a_new_instance_reuses_only_the_address_of_a_deleted_one(simulator: Simulator) -> None:
    old = simulator.instance("uni_0")
    simulator.compute().virtual_machine_scale_set_vms.begin_delete(GROUP, "uni", "0").result()
    resize(simulator, 2).result()
    new = simulator.instance("uni_17")
    assert new.private_ipv4 == old.private_ipv4
    assert {new.vm_id, new.name, new.computer_name}.isdisjoint({old.vm_id, old.name, old.computer_name})


def test_instance_ids_are_never_reused(simulator: Simulator) -> None:
    resize(simulator, 0).result()
    resize(simulator, 2).result()
    assert names(simulator) == ["uni_17", "uni_19"]


ACTIONS = {
    "restart": (["restart"], "running"),
    "power_off": (["stop"], "stopped"),
    "deallocate": (["stop", "blank_disks"], "deallocated"),
    "redeploy": (["stop", "blank_disks", "start"], "running"),
    "reimage": (["replace"], "running"),
    "start": ([], "running"),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_has_azures_effect_on_a_uniform_instance(
    simulator: Simulator, backend: RecordingBackend, action: str
) -> None:
    calls, power = ACTIONS[action]
    target, other = simulator.instance("uni_3"), simulator.instance("uni_0")
    identity = (target.vm_id, target.name, target.computer_name, target.private_ipv4)
    client = simulator.compute().virtual_machine_scale_set_vms
    getattr(client, f"begin_{action}")(GROUP, "uni", "3").result()
    assert backend.of(target.vm_id) == ["create", *calls]
    assert backend.of(other.vm_id) == ["create"]
    shown = client.get(GROUP, "uni", "3", expand="instanceView")
    assert shown.instance_view.statuses[1].code == f"PowerState/{power}"
    assert shown.provisioning_state == "Succeeded"
    assert (target.vm_id, target.name, target.computer_name, target.private_ipv4) == identity


@pytest.mark.parametrize("action", [name for name in ACTIONS if name != "start"])
def test_each_action_can_affect_given_instances_of_a_scale_set(
    simulator: Simulator, backend: RecordingBackend, action: str
) -> None:
    calls, power = ACTIONS[action]
    target, other = simulator.instance("uni_3"), simulator.instance("uni_0")
    begin = getattr(simulator.compute().virtual_machine_scale_sets, f"begin_{action}")
    body = "vm_scale_set_reimage_input" if action == "reimage" else "vm_instance_i_ds"
    begin(GROUP, "uni", **{body: {"instanceIds": ["3"]}}).result()
    assert backend.of(target.vm_id) == ["create", *calls]
    assert backend.of(other.vm_id) == ["create"]
    assert target.power_state == power


@pytest.mark.parametrize("action", [name for name in ACTIONS if name not in ("start", "reimage")])
def test_each_action_can_affect_virtual_machines(simulator: Simulator, backend: RecordingBackend, action: str) -> None:
    calls, power = ACTIONS[action]
    flexible = names(simulator, "flex")[0]
    for name in ("ctl", flexible):
        getattr(simulator.compute().virtual_machines, f"begin_{action}")(GROUP, name).result()
        assert backend.of(simulator.instance(name).vm_id) == ["create", *calls]
        assert simulator.instance(name).power_state == power


def test_a_deallocated_machine_keeps_its_identity_and_gets_blank_disks(
    simulator: Simulator, backend: RecordingBackend
) -> None:
    machine = simulator.instance("ctl")
    machines = simulator.compute().virtual_machines
    machines.begin_deallocate(GROUP, "ctl").result()
    with pytest.raises(HttpResponseError, match="start it instead"):
        machines.begin_restart(GROUP, "ctl").result()
    machines.begin_start(GROUP, "ctl").result()
    assert backend.of(machine.vm_id) == ["create", "stop", "blank_disks", "start"]


def test_a_state_in_transition_is_shown(simulator: Simulator, backend: RecordingBackend) -> None:
    backend.gate.clear()
    client = simulator.compute().virtual_machine_scale_set_vms
    poller = client.begin_deallocate(GROUP, "uni", "0")
    shown = client.get(GROUP, "uni", "0", expand="instanceView")
    assert shown.provisioning_state == "Updating"
    assert [item.code for item in shown.instance_view.statuses] == [
        "ProvisioningState/updating",
        "PowerState/deallocating",
    ]
    backend.gate.set()
    poller.result()


def test_virtual_machines_and_flexible_instances_can_be_deleted(simulator: Simulator) -> None:
    compute = simulator.compute()
    first, second = names(simulator, "flex")
    compute.virtual_machines.begin_delete(GROUP, "ctl").result()
    compute.virtual_machines.begin_delete(GROUP, first).result()
    assert [item.name for item in compute.virtual_machines.list_all()] == [second]
    assert compute.virtual_machine_scale_sets.get(GROUP, "flex").sku.capacity == 1
    compute.virtual_machine_scale_sets.begin_delete_instances(GROUP, "flex", {"instanceIds": [second]}).result()
    assert list(compute.virtual_machines.list_all()) == []


def test_a_changed_model_outdates_instances_until_they_are_upgraded(
    simulator: Simulator, backend: RecordingBackend
) -> None:
    compute = simulator.compute()
    image = {"storageProfile": {"imageReference": {"version": "22.04.2026010101"}}}
    compute.virtual_machine_scale_sets.begin_update(
        GROUP, "uni", {"properties": {"virtualMachineProfile": image}}
    ).result()
    resize(simulator, 3).result()

    def latest() -> dict[str, bool]:
        found = compute.virtual_machine_scale_set_vms.list(GROUP, "uni")
        return {item.instance_id: item.latest_model_applied for item in found}

    assert latest() == {"0": False, "3": False, "17": True}
    compute.virtual_machine_scale_sets.begin_update_instances(GROUP, "uni", {"instanceIds": ["3"]}).result()
    assert latest() == {"0": False, "3": True, "17": True}
    upgraded = compute.virtual_machine_scale_set_vms.get(GROUP, "uni", "3")
    assert upgraded.storage_profile.image_reference.exact_version == "22.04.2026010101"
    assert backend.copies[upgraded.vm_id] == 2
    assert backend.copies[simulator.instance("uni_0").vm_id] == 1


def test_a_change_of_tags_does_not_outdate_instances(simulator: Simulator) -> None:
    sets = simulator.compute().virtual_machine_scale_sets
    sets.begin_update(GROUP, "uni", {"tags": {"hpcai_role": "compute"}}).result()
    assert sets.get(GROUP, "uni").tags == {"hpcai_role": "compute"}
    assert all(item.latest_model for item in simulator.scale_set("uni").members.values())


def test_a_machine_that_does_not_start_fails_its_operation(simulator: Simulator, backend: RecordingBackend) -> None:
    backend.broken.add("wait_ready")
    with pytest.raises(HttpResponseError, match="OSProvisioningTimedOut"):
        resize(simulator, 3).result()
    shown = simulator.compute().virtual_machine_scale_set_vms.get(GROUP, "uni", "17")
    assert shown.provisioning_state == "Failed"
    assert simulator.compute().virtual_machine_scale_sets.get(GROUP, "uni").provisioning_state == "Failed"


def test_a_failed_machine_does_not_stop_the_action_on_others(simulator: Simulator, backend: RecordingBackend) -> None:
    simulator.edit("uni_0", power_state="stopped")
    with pytest.raises(HttpResponseError, match="uni_0 is not running"):
        simulator.compute().virtual_machine_scale_sets.begin_restart(GROUP, "uni").result()
    assert backend.of(simulator.instance("uni_3").vm_id) == ["create", "restart"]
    assert backend.of(simulator.instance("uni_0").vm_id) == ["create"]


def test_invalid_capacities_are_refused_and_change_nothing(simulator: Simulator) -> None:
    for capacity, why in ((-1, "is not a capacity"), (101, "single placement group")):
        with pytest.raises(HttpResponseError, match=why):
            resize(simulator, capacity)
    with pytest.raises(HttpResponseError, match="SubnetIsFull"):
        resize(simulator, 250, "flex")
    assert len(simulator.model.instances()) == 5
    assert resize(simulator, 3).result().sku.capacity == 3


def test_unknown_instances_are_refused(simulator: Simulator) -> None:
    sets = simulator.compute().virtual_machine_scale_sets
    with pytest.raises(HttpResponseError, match="not an active"):
        sets.begin_delete_instances(GROUP, "uni", {"instanceIds": ["0", "99"]})
    with pytest.raises(HttpResponseError, match="instanceIds"):
        sets.begin_delete_instances(GROUP, "uni", {"instanceIds": []})
    assert len(names(simulator)) == 2


def test_deleting_a_scale_set_removes_its_machines(simulator: Simulator, backend: RecordingBackend) -> None:
    compute = simulator.compute()
    compute.virtual_machine_scale_sets.begin_delete(GROUP, "flex").result()
    assert [item.name for item in compute.virtual_machine_scale_sets.list_all()] == ["uni"]
    wait_until(lambda: len(backend.specs) == 3)


def test_a_stopping_simulator_closes_its_backend() -> None:
    backend = RecordingBackend()
    with running(SCENARIO, backend=backend):
        assert not backend.closed
    assert backend.closed


def test_a_backend_that_could_not_open_is_not_closed(backend: RecordingBackend) -> None:
    """For example, if another site uses the network. The user must see that error, not one from the close."""
    backend.broken.add("open")
    server = Server(scenario.parse(SCENARIO), backend, port=0)
    with pytest.raises(BackendError, match="open failed on purpose"):
        server.start()
    server.stop()
    assert not backend.closed
