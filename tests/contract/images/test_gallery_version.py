# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine becomes an image version of a gallery exactly once, and every failure can be repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure import galleries
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from contract.inventory.reading import ansible
from simulator.scenario import LOCATION
from simulator.testing import Simulator, running

from .azure import add_gallery, capture, change_machine, version_id, write_requests

CAPTURE = ["POST deallocate", "POST generalize", "PUT 1.0.0"]


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A machine to capture, another one, and an empty gallery."""
    with running({"virtual_machines": [{"name": "bake"}, {"name": "other"}]}) as simulated:
        add_gallery(simulated)
        yield simulated


def test_a_machine_is_stopped_generalised_captured_and_replicated(simulator: Simulator) -> None:
    result, lines = capture(simulator, regions=["East US", LOCATION], tags={"hpcai_base": "ubuntu 22.04"})

    vm_id = simulator.instance("bake").vm_id
    assert write_requests(simulator) == CAPTURE
    assert (result["changed"], result["action"], result["state"]) == (True, "create", "succeeded")
    assert result["regions"] == [LOCATION, "eastus"]
    made = simulator.model.galleries.version(version_id(simulator))
    assert made is not None
    assert made.tags == {"hpcai_base": "ubuntu 22.04", "hpcai_source_vm_id": vm_id}
    assert made.in_region("East US")
    assert simulator.instance("bake").power_state == "deallocated"
    assert all(line.startswith("bake: repl") for line in lines)


def test_a_second_run_changes_nothing(simulator: Simulator) -> None:
    capture(simulator, tags={"a": "b"})
    simulator.clear()

    result, _lines = capture(simulator)

    assert (result["changed"], result["action"]) == (False, "nothing")
    assert write_requests(simulator) == []
    assert len(simulator.requests()) == 1


def test_a_region_is_added_without_touching_the_machine(simulator: Simulator) -> None:
    capture(simulator, tags={"a": "b"})
    simulator.clear()

    result, _lines = capture(simulator, regions=["eastus"])

    assert (result["changed"], result["action"], result["regions"]) == (True, "change", [LOCATION, "eastus"])
    assert result["tags"]["a"] == "b"
    assert write_requests(simulator) == ["PUT 1.0.0"]


def test_settings_of_regions_that_others_changed_stay(simulator: Simulator) -> None:
    capture(simulator)
    made = simulator.model.galleries.version(version_id(simulator))
    assert made is not None
    made.regions[0] |= {"regionalReplicaCount": 5, "storageAccountType": "Premium_LRS", "excludeFromLatest": True}
    before = dict(made.regions[0])

    capture(simulator, regions=["eastus"])

    kept, added = made.regions
    assert {key: kept.get(key) for key in before} == before
    assert added["name"] == "eastus"


def test_a_version_of_another_machine_is_never_overwritten(simulator: Simulator) -> None:
    capture(simulator)
    other = simulator.instance("other")
    simulator.clear()

    with pytest.raises(InventoryError, match=r"a version is never overwritten. Choose another version"):
        capture(simulator, virtual_machine=other.id, vm_id=other.vm_id)
    assert write_requests(simulator) == []
    assert other.power_state == "running"


def test_check_mode_writes_nothing(simulator: Simulator) -> None:
    result, _lines = capture(simulator, check=True)

    assert (result["changed"], result["state"]) == (True, "absent")
    assert write_requests(simulator) == []


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"osState": "Specialized"}, "osState is Specialized, not Generalized"),
        ({"hyperVGeneration": "V1"}, "its generation is V1, but the machine's is V2"),
    ],
)
def test_an_image_definition_that_does_not_fit_is_refused_before_the_machine_stops(
    simulator: Simulator, properties: dict[str, str], words: str
) -> None:
    add_gallery(simulator, **properties)

    with pytest.raises(InventoryError, match=words):
        capture(simulator)
    assert write_requests(simulator) == []


PLAN = {"publisher": "almalinux", "product": "almalinux-hpc", "name": "8_10-hpc-gen2"}
EPHEMERAL = {"name": "os", "createOption": "FromImage", "diffDiskSettings": {"option": "Local"}}


def security(kind: str) -> list[dict[str, str]]:
    """The features of an image definition for machines with this security type."""
    return [{"name": "SecurityType", "value": kind}]


@pytest.mark.parametrize(
    ("machine", "definition", "words"),
    [
        (
            {"plan": PLAN},
            {},
            r"has no marketplace plan, but the machine has the marketplace plan almalinux:almalinux-hpc:",
        ),
        ({}, {"purchasePlan": PLAN}, r"has the marketplace plan almalinux.*, but the machine has no marketplace plan"),
        ({"securityProfile": {"securityType": "TrustedLaunch"}}, {}, "type is Standard, but the machine's is Trusted"),
        (
            {"securityProfile": {"securityType": "TrustedLaunch"}},
            {"features": security("TrustedLaunchSupported")},
            "type is TrustedLaunchSupported, but the machine's is TrustedLaunch",
        ),
        ({}, {"features": security("TrustedLaunch")}, "type is TrustedLaunch, but the machine's is Standard"),
        ({"storageProfile": {"osDisk": EPHEMERAL, "dataDisks": []}}, {}, "ephemeral system disk"),
    ],
)
def test_a_machine_that_azure_would_not_capture_is_refused_before_it_stops(
    simulator: Simulator, machine: dict[str, Any], definition: dict[str, Any], words: str
) -> None:
    change_machine(simulator, "bake", **machine)
    add_gallery(simulator, **definition)

    with pytest.raises(InventoryError, match=words):
        capture(simulator)
    assert write_requests(simulator) == []
    # Azure refuses it too late.
    bake = simulator.instance("bake")
    bake.generalized, bake.power_state = True, "deallocated"
    body = {"storageProfile": {"source": {"virtualMachineId": bake.id}}}
    regions = {"publishingProfile": {"targetRegions": [{"name": LOCATION}]}}
    answer = simulator.arm("PUT", version_id(simulator), {"location": LOCATION, "properties": {**body, **regions}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidParameter")


def test_a_machine_in_another_region_is_refused_before_it_stops(simulator: Simulator) -> None:
    add_gallery(simulator).location = "East US"

    with pytest.raises(InventoryError, match=f"is in eastus, but the machine is in {LOCATION}"):
        capture(simulator)
    assert write_requests(simulator) == []


@pytest.mark.parametrize(
    ("machine", "definition"),
    [
        ({"plan": PLAN}, {"purchasePlan": PLAN}),
        ({"securityProfile": {"securityType": "TrustedLaunch"}}, {"features": security("TrustedLaunch")}),
        ({"securityProfile": {"securityType": "Standard"}}, {"features": security("Standard")}),
    ],
)
def test_a_machine_that_fits_its_image_definition_is_captured(
    simulator: Simulator, machine: dict[str, Any], definition: dict[str, Any]
) -> None:
    change_machine(simulator, "bake", **machine)
    add_gallery(simulator, **definition)

    assert capture(simulator)[0]["state"] == "succeeded"


def test_another_machine_with_the_name_is_refused(simulator: Simulator) -> None:
    with pytest.raises(InventoryError, match="the id now belongs to another machine"):
        capture(simulator, vm_id="99999999-0000-4000-8000-000000000000")
    assert write_requests(simulator) == []


def test_a_missing_gallery_is_named(simulator: Simulator) -> None:
    simulator.model.galleries.by_id.clear()

    with pytest.raises(InventoryError, match="could not read the image definition node of the gallery hpc: 404"):
        capture(simulator)
    assert write_requests(simulator) == []


def test_a_failed_replication_is_explained_and_the_next_run_tries_again(simulator: Simulator) -> None:
    simulator.model.galleries.failing["eastus"] = "The region has no capacity."

    with pytest.raises(InventoryError, match=r"could not be replicated \(eastus: The region has no capacity.\)"):
        capture(simulator, regions=["eastus"])
    simulator.model.galleries.failing.clear()
    simulator.clear()

    result, _lines = capture(simulator, regions=["eastus"])
    assert (result["action"], result["state"]) == ("retry", "succeeded")
    assert write_requests(simulator) == ["PUT 1.0.0"]


def test_a_slow_replication_is_waited_for_by_the_next_run(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator.model.galleries.stuck.add("eastus")

    with monkeypatch.context() as patched:
        # The next look would be after the timeout.
        patched.setattr(galleries, "_FIRST_POLL_S", 7200.0)
        with pytest.raises(InventoryError, match="Run this again to wait for it"):
            capture(simulator, regions=["eastus"])
    simulator.model.galleries.stuck.clear()
    simulator.clear()

    result, _lines = capture(simulator, regions=["eastus"])
    assert (result["changed"], result["action"], result["state"]) == (False, "wait", "succeeded")
    assert write_requests(simulator) == []


def test_a_run_that_azure_refused_goes_on_where_it_stopped(simulator: Simulator) -> None:
    simulator.add_fault("PUT .*/versions/", status=409, code="QuotaExceeded", message="No quota.", times=1)

    with pytest.raises(InventoryError, match=r"could not create version 1.0.0 .*409 QuotaExceeded: No quota"):
        capture(simulator)
    simulator.clear()

    result, _lines = capture(simulator)
    assert result["state"] == "succeeded"
    assert write_requests(simulator) == ["PUT 1.0.0"]


def test_throttling_is_waited_for(simulator: Simulator) -> None:
    simulator.add_fault("GET .*/versions/", status=429, headers={"Retry-After": "1"}, times=2)

    assert capture(simulator)[0]["state"] == "succeeded"


@pytest.mark.parametrize(
    ("match", "action"),
    [
        ("POST .*/deallocate", "virtualMachines/deallocate/action"),
        ("POST .*/generalize", "virtualMachines/generalize/action"),
        ("PUT .*/versions/", "galleries/images/versions/write"),
        ("GET .*/versions/", "galleries/images/versions/read"),
    ],
)
def test_a_missing_permission_is_named(simulator: Simulator, match: str, action: str) -> None:
    simulator.add_fault(match, status=403, code="AuthorizationFailed")

    with pytest.raises(InventoryError, match=f"Give the identity the action Microsoft.Compute/{action}"):
        capture(simulator)


@pytest.mark.parametrize("tags", [{"a/b": "c"}, {"a": "x" * 257}, {str(number): "" for number in range(50)}])
def test_tags_that_azure_refuses_are_refused_before_the_machine_stops(
    simulator: Simulator, tags: dict[str, str]
) -> None:
    with pytest.raises(InventoryError, match="Azure takes at most 49 tags"):
        capture(simulator, tags=tags)
    assert simulator.requests() == []


@pytest.mark.parametrize("version", ["1.0.0", "/subscriptions/s/resourceGroups/g", "x/versions/latest"])
def test_an_invalid_version_is_refused(simulator: Simulator, version: str) -> None:
    with pytest.raises(InventoryError, match="is not the id of an image version"):
        capture(simulator, version=version)


def test_the_module_runs_in_ansible(simulator: Simulator, tmp_path: Path) -> None:
    machine = simulator.instance("bake")
    arguments = {
        "version": version_id(simulator),
        "virtual_machine": machine.id,
        "vm_id": machine.vm_id,
        "endpoint": simulator.endpoint,
        "token": simulator.token,
    }
    words = ["-i", "localhost,", "-m", "hpcai.azure.azure_gallery_version", "-a", json.dumps(arguments), "--diff"]

    done = ansible("ansible", "localhost", *words, cwd=tmp_path, env={"ANSIBLE_NOCOLOR": "1"})

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"+tag: hpcai_source_vm_id={machine.vm_id}" in done.stdout
    assert '"action": "create"' in done.stdout
