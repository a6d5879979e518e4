# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines and scale sets that requests make: what the backend gets, what is refused, what identities may do."""

from __future__ import annotations

import base64
import copy
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from simulator import sample_stack as stack
from simulator.backends.containers import machine as container
from simulator.backends.recording import RecordingBackend
from simulator.testing import TEST_KEY, Simulator, running

COMPUTE = "Microsoft.Compute/virtualMachineScaleSets"
USER = "hpc"
RESERVATION = {"capacityReservationGroup": {"id": stack.rid("Microsoft.Compute/capacityReservationGroups", "ours")}}
KEY_FILE = f"/home/{USER}/.ssh/authorized_keys"
OWN_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB own"


class Connection(http.client.HTTPSConnection):
    """A connection to the vaults on loopback that presents and checks the vault's name."""

    def connect(self) -> None:
        """Connect to loopback."""
        self.sock = self._context.wrap_socket(  # type: ignore[attr-defined]
            socket.create_connection(("127.0.0.1", self.port), self.timeout), server_hostname=self.host
        )


@pytest.fixture
def backend() -> RecordingBackend:
    """Records what machines are made."""
    return RecordingBackend()


@pytest.fixture
def simulator(backend: RecordingBackend) -> Iterator[Simulator]:
    """A subscription with everything but machines."""
    scenario = {**stack.EMPTY, "hardware": {"cpus": 2, "memory_mib": 3000}}
    with running(scenario, backend=backend) as simulated:
        simulated.arm("PUT", f"/resourceGroups/{stack.GROUP}", {"location": stack.LOCATION})
        deploy(simulated, [*stack.network(), *stack.services(), *stack.machine()[:2]])
        yield simulated


def deploy(simulator: Simulator, resources: list[dict[str, Any]]) -> None:
    """Deploy resources whose dependencies exist or are among them."""
    known = {item["name"].rpartition("/")[2] for item in resources}
    for item in resources:
        item["dependsOn"] = [other for other in item.get("dependsOn", []) if other.rpartition("/")[2] in known]
    client = simulator.deployments().deployments
    client.begin_create_or_update(stack.GROUP, "lab", stack.template(resources)).result()


PROFILE = "properties.virtualMachineProfile"


def put(simulator: Simulator, resource: dict[str, Any], method: str = "PUT") -> requests.Response:
    """Send a machine or a scale set."""
    body = {key: value for key, value in resource.items() if key not in ("type", "apiVersion", "name", "dependsOn")}
    answer = simulator.arm(method, stack.rid(resource["type"], resource["name"]), body)
    simulator.wait()
    return answer


def refused(simulator: Simulator, resource: dict[str, Any]) -> str:
    """The code of the error for a machine or a scale set."""
    return str(put(simulator, resource).json()["error"]["code"])


def machine() -> dict[str, Any]:
    """The controller."""
    return stack.machine()[2]


def test_the_backend_gets_the_login_the_hardware_and_the_vaults(
    simulator: Simulator, backend: RecordingBackend
) -> None:
    wanted = machine()
    login = wanted["properties"]["osProfile"]
    login["adminUsername"] = USER
    login["linuxConfiguration"]["ssh"]["publicKeys"] = [{"path": KEY_FILE, "keyData": OWN_KEY}]
    assert put(simulator, wanted).status_code == 201
    (spec,) = backend.specs.values()
    assert (spec.admin_username, spec.ssh_public_keys, spec.own_login) == (USER, (OWN_KEY,), False)
    assert (spec.cpus, spec.memory_mib, spec.local_disks) == (2, 3000, False)
    assert (spec.private_ipv4, spec.public_ipv4) == ("10.77.0.4", "10.77.200.1")
    assert spec.tls_names == ("labvault.vault.azure.net", "management.azure.com")
    assert spec.computer_name == "ctl"
    metadata = requests.get(
        f"{simulator.imds_endpoint}/metadata/instance/compute?api-version=2021-02-01",
        headers={"Metadata": "true", "X-Simulator-Instance": "ctl"},
        timeout=10,
    ).json()
    assert metadata["osProfile"]["adminUsername"] == USER
    assert metadata["publicKeys"] == [{"path": KEY_FILE, "keyData": OWN_KEY}]
    assert base64.b64decode(metadata["userData"]) == b'{"hpcai": {"schema": 1}}'


def test_a_scale_set_is_born_empty_and_grows(simulator: Simulator, backend: RecordingBackend) -> None:
    assert put(simulator, stack.scale_set()).status_code == 201
    assert backend.specs == {}
    sets = simulator.compute().virtual_machine_scale_sets
    assert sets.begin_update(stack.GROUP, "compute", {"sku": {"capacity": 2}}).result().sku.capacity == 2
    specs = list(backend.specs.values())
    assert [spec.local_disks for spec in specs] == [True, True]
    assert all(spec.ssh_public_keys == (TEST_KEY,) and spec.own_login for spec in specs)
    instances = list(simulator.compute().virtual_machine_scale_set_vms.list(stack.GROUP, "compute"))
    assert [item.tags for item in instances] == [stack.TAGS, stack.TAGS]
    shown = sets.get(stack.GROUP, "compute", expand="userData")
    assert b"functions" in base64.b64decode(shown.virtual_machine_profile.user_data)
    assert shown.identity.type == "UserAssigned"


def test_a_new_image_of_a_gallery_reaches_only_new_instances(simulator: Simulator) -> None:
    gallery = stack.rid("Microsoft.Compute/galleries", "images")
    located = {"location": stack.LOCATION}
    definition = {
        "osType": "Linux",
        "osState": "Generalized",
        "identifier": {"publisher": "p", "offer": "o", "sku": "s"},
    }
    simulator.arm("PUT", gallery, located)
    simulator.arm("PUT", f"{gallery}/images/hpc", {**located, "properties": definition})
    version = f"{gallery}/images/hpc/versions/1.0.1"
    content = {"storageProfile": {"source": {"id": stack.rid("Microsoft.Compute/images", "baked")}}}
    regions = {"publishingProfile": {"targetRegions": [{"name": stack.LOCATION}]}}
    assert simulator.arm("PUT", version, {**located, "properties": content | regions}).status_code == 201
    simulator.wait()
    made = stack.scale_set(capacity=1)
    made["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"] = {"id": version}
    put(simulator, made)
    older, version = version, f"{gallery}/images/hpc/versions/1.0.2"
    assert simulator.arm("PUT", version, {**located, "properties": content | regions}).status_code == 201
    simulator.wait()
    made["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"] = stack.IMAGE
    assert refused(simulator, made) == "OperationNotAllowed"
    profile = {"storageProfile": {"imageReference": {"id": version}}}
    change = {"properties": {"virtualMachineProfile": profile}}
    assert simulator.arm("PATCH", stack.COMPUTE, change).status_code == 200
    vms = simulator.compute().virtual_machine_scale_set_vms
    assert [item.latest_model_applied for item in vms.list(stack.GROUP, "compute")] == [False]
    simulator.arm("PATCH", stack.COMPUTE, {"sku": {"capacity": 2}})
    simulator.wait()
    found = [item.storage_profile.image_reference for item in vms.list(stack.GROUP, "compute")]
    assert [(item.id, item.exact_version) for item in found] == [(older, "1.0.1"), (version, "1.0.2")]
    unknown = stack.scale_set("other")
    unknown["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"] = {"id": version[:-1] + "9"}
    assert refused(simulator, unknown) == "GalleryImageNotFound"


def test_what_cannot_be_made_is_refused(simulator: Simulator) -> None:
    def with_(path: str, value: Any, resource: dict[str, Any] | None = None) -> dict[str, Any]:
        found = copy.deepcopy(resource or machine())
        place = found
        *above, last = path.split(".")
        for part in above:
            place = place[part]
        place[last] = value
        return found

    image = "properties.storageProfile.imageReference"
    alma = {"publisher": "almalinux", "offer": "almalinux-hpc", "sku": "8_10-hpc-gen2", "version": "latest"}
    plan = {"publisher": "almalinux", "product": "almalinux-hpc", "name": "8_10-hpc-gen2"}
    assert refused(simulator, with_("properties.hardwareProfile.vmSize", "Standard_X1")) == "InvalidParameter"
    assert refused(simulator, with_("zones", ["9"])) == "SkuNotAvailable"
    assert refused(simulator, with_(image, stack.IMAGE | {"version": "1.2.3"})) == "PlatformImageNotFound"
    assert refused(simulator, with_(image, alma)) == "VMMarketplaceInvalidInput"
    assert refused(simulator, with_(image, alma) | {"plan": plan}) == "MarketplacePurchaseEligibilityFailed"
    assert refused(simulator, with_("properties.userData", "not base64!")) == "InvalidParameter"
    sets = stack.scale_set()
    assert refused(simulator, with_("sku.capacity", 101, sets)) == "InvalidParameter"
    assert refused(simulator, with_("zones", ["2"], sets)) == "SkuNotAvailable"
    assert refused(simulator, with_("properties.upgradePolicy", {}, sets)) == "InvalidParameter"
    assert refused(simulator, with_("properties.scaleIn", {}, sets)) == "InvalidRequestContent"
    small = with_("sku.name", "Standard_B2s", sets)
    interface = small["properties"]["virtualMachineProfile"]["networkProfile"]["networkInterfaceConfigurations"][0]
    interface["properties"]["enableAcceleratedNetworking"] = True
    assert refused(simulator, small) == "VMSizeIsNotPermittedToEnableAcceleratedNetworkingForVmss"
    reserved = with_("properties.virtualMachineProfile.capacityReservation", RESERVATION, sets)
    assert refused(simulator, with_("properties.singlePlacementGroup", True, reserved)) == "InvalidParameter"
    reserved = with_("properties.singlePlacementGroup", False, reserved)
    assert refused(simulator, with_("sku.name", "Standard_ND96asr_v4", reserved)) == "InvalidParameter"
    grace = with_("sku.name", "Standard_ND128isr_GB300_v6", sets)
    assert refused(simulator, with_("properties.singlePlacementGroup", True, grace)) == "BadRequest"
    grace = with_("name", "grace", with_("properties.singlePlacementGroup", False, grace))
    assert put(simulator, grace).status_code == 201
    sets = with_("sku.name", "Standard_NC24ads_A100_v4", sets)
    disk = {"createOption": "FromImage", "diffDiskSettings": {"option": "Local"}, "diskSizeGB": 257}
    assert refused(simulator, with_(f"{PROFILE}.storageProfile.osDisk", disk, sets)) == "InvalidParameter"
    disk["diskSizeGB"] = 256
    assert put(simulator, with_(f"{PROFILE}.storageProfile.osDisk", disk, sets)).status_code == 201
    simulator.limits.accepted = ["almalinux/almalinux-hpc/8_10-hpc-gen2"]
    assert put(simulator, with_(image, alma) | {"plan": plan}).status_code == 201
    assert refused(simulator, machine() | {"name": "second"}) == "NicInUse"


def test_some_properties_never_change(simulator: Simulator, backend: RecordingBackend) -> None:
    assert put(simulator, machine()).status_code == 201
    assert put(simulator, stack.scale_set()).status_code == 201
    (vm_id,) = backend.specs
    for change in (
        {"osProfile": machine()["properties"]["osProfile"] | {"computerName": "other"}},
        {"networkProfile": {"networkInterfaces": [{"id": stack.NIC}, {"id": stack.NIC}]}},
        {"storageProfile": {"imageReference": stack.IMAGE | {"version": "22.04.2025041101"}}},
    ):
        other = machine()
        other["properties"] |= change
        assert refused(simulator, other) == "PropertyChangeNotAllowed", change
    single = stack.scale_set()
    single["properties"]["platformFaultDomainCount"] = 5
    assert refused(simulator, single) == "PropertyChangeNotAllowed"
    larger = machine()
    larger["properties"]["hardwareProfile"]["vmSize"] = "Standard_D8s_v5"
    assert put(simulator, larger).status_code == 200
    assert backend.of(vm_id)[-2:] == ["blank_disks", "start"]
    assert simulator.instance("ctl").vm_size == "Standard_D8s_v5"


def test_identities_read_secrets_with_a_role_that_has_spread(simulator: Simulator) -> None:
    put(simulator, machine())
    identity = simulator.arm("GET", stack.IDENTITY).json()["properties"]

    def read() -> int:
        query = f"api-version=2018-02-01&resource=https://vault.azure.net&client_id={identity['clientId']}"
        token = requests.get(
            f"{simulator.imds_endpoint}/metadata/identity/oauth2/token?{query}",
            headers={"Metadata": "true", "X-Simulator-Instance": "ctl"},
            timeout=10,
        ).json()["access_token"]
        trust = ssl.create_default_context(cadata=simulator.authority.decode())
        connection = Connection("labvault.vault.azure.net", simulator.tls_port, context=trust, timeout=10)
        connection.request("GET", "/secrets/munge-key?api-version=7.4", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status != 200 or len(body["value"]) == 128
        return answer.status

    assert read() == 403
    simulator.limits.role_delay_s = 60
    path = f"{stack.VAULT}/providers/Microsoft.Authorization/roleAssignments/{stack.ASSIGNMENT}"
    body = {"properties": stack.assignment(identity["principalId"])["properties"]}
    assert simulator.arm("PUT", path, body).status_code == 201
    assert read() == 403
    simulator.limits.role_delay_s = 0
    # Not all servers know it at the same time.
    simulator.limits.role_flap_s = 60
    assert [read() for _number in range(14)] == [403, 200, 200, 200, 200, 200, 200] * 2
    simulator.limits.role_flap_s = 0
    assert read() == 200
    simulator.arm("DELETE", path)
    assert read() == 403


def test_disks_outlive_a_machine_if_they_are_to_be_detached(simulator: Simulator) -> None:
    wanted = machine()
    storage = wanted["properties"]["storageProfile"]
    storage["osDisk"]["deleteOption"] = "Detach"
    storage["dataDisks"] = [{"lun": 0, "name": "data", "createOption": "Empty", "diskSizeGB": 32}]
    nic = wanted["properties"]["networkProfile"]["networkInterfaces"][0]
    nic["properties"]["deleteOption"] = "Delete"
    put(simulator, wanted)
    assert simulator.arm("DELETE", stack.CTL).status_code == 202
    simulator.wait()
    for name in ("ctl-os", "data"):
        disk = simulator.arm("GET", stack.rid("Microsoft.Compute/disks", name)).json()
        assert (disk["properties"]["diskState"], "managedBy" in disk) == ("Unattached", False)
    assert simulator.arm("GET", stack.NIC).status_code == 404
    assert simulator.arm("GET", stack.CTL_IP).status_code == 200


def test_the_identity_of_a_scale_set_can_be_changed(simulator: Simulator) -> None:
    put(simulator, stack.scale_set())
    both = {"identity": {"type": "SystemAssigned, UserAssigned", "userAssignedIdentities": {stack.IDENTITY: {}}}}
    first = simulator.arm("PATCH", stack.COMPUTE, both).json()["identity"]
    assert first["principalId"]
    assert simulator.arm("PATCH", stack.COMPUTE, both).json()["identity"] == first
    missing = {"identity": {"type": "UserAssigned", "userAssignedIdentities": {stack.IDENTITY + "x": {}}}}
    answer = simulator.arm("PATCH", stack.COMPUTE, missing)
    assert answer.json()["error"]["code"] == "InvalidResourceReference"


def test_a_container_whose_key_only_the_client_has_is_ready_when_it_is_provisioned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Podman:
        """Answers for a container that was provisioned as ``known``."""

        def run(self, *arguments: str, check: bool = True) -> str:
            assert arguments == ("exec", "box", "cat", container.SEEDED)
            return "known\n"

    podman: Any = Podman()
    assert container.provisioned(podman, "box", "known")
    assert not container.provisioned(podman, "box", "other")
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = socket.create_connection
        port = server.getsockname()[1]

        def answer(text: bytes) -> None:
            server.accept()[0].sendall(text)

        monkeypatch.setattr(socket, "create_connection", lambda address, timeout: connect((address[0], port), timeout))
        for greeting, expected in ((b"SSH-2.0-OpenSSH", True), (b"HTTP", False)):
            sender = threading.Thread(target=answer, args=(greeting,))
            sender.start()
            assert container.greets("127.0.0.1") is expected
            sender.join()
    assert not container.greets("127.0.0.1", timeout=0.2)
