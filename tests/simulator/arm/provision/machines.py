# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines that clients make. simulator.effects boots them."""

from __future__ import annotations

import copy
from typing import Any

from simulator import userdata
from simulator.arm import compute_payloads
from simulator.arm.context import Context
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.provision import sizing
from simulator.arm.provision.interfaces import check_reserved, reserve
from simulator.arm.provision.kinds import Change, Kind
from simulator.arm.provision.targets import Target
from simulator.effects import Work
from simulator.resources import COMPUTE, Document, Instance, Resource
from simulator.scenario import Hardware

GPU_SIZES = "standard_n"
NEVER_CHANGED = (
    "osProfile.computerName",
    "osProfile.adminUsername",
    "osProfile.linuxConfiguration.ssh.publicKeys",
    "storageProfile.imageReference",
    "networkProfile.networkInterfaces",
    "priority",
)


def read(body: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for part in path.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def hardware_of(state: Context, size: str) -> Hardware:
    """The real hardware of a machine. Sizes with GPUs also have local disks."""
    given = state.model.hardware
    return Hardware(given.cpus, given.memory_mib, given.local_disks or size.lower().startswith(GPU_SIZES))


def user_data_of(properties: dict[str, Any]) -> str:
    """The decoded user data."""
    encoded = properties.get("userData")
    if encoded is None:
        return ""
    if len(encoded) > userdata.LONGEST:
        raise bad_parameter("userData", f"Userdata should not be longer than {userdata.LONGEST} bytes")
    try:
        return userdata.decode(encoded)
    except ValueError:
        raise bad_parameter("userData", "Userdata should be Base64 encoded") from None


def check_login(change: Change, profile: dict[str, Any]) -> None:
    """Check that somebody can log in."""
    if not profile.get("adminUsername"):
        raise change.missing("osProfile.adminUsername")
    keys = read(profile, "linuxConfiguration.ssh.publicKeys")
    if not profile.get("adminPassword") and not keys:
        raise ArmError(
            400, "InvalidParameter", "Authentication using either SSH or by user name and password must be enabled."
        )
    home = f"/home/{profile['adminUsername']}/.ssh/authorized_keys"
    for key in keys or []:
        if key.get("path") != home:
            raise ArmError(
                400,
                "InvalidParameter",
                f"Destination path for SSH public keys is currently limited to its default value {home} due to a known "
                "issue in Linux provisioning agent.",
            )


class Machine(Kind):
    """A stand-alone virtual machine."""

    asynchronous = True

    def find(self, state: Context, target: Target) -> Resource | None:
        """The existing machine."""
        return state.model.machines.get(target.id.lower())

    def check(self, change: Change) -> None:
        """Check everything that Azure checks before it makes a machine."""
        properties = change.properties
        size = read(properties, "hardwareProfile.vmSize")
        if not size:
            raise change.missing("hardwareProfile.vmSize")
        zones = change.body.get("zones") or []
        old = change.existing if isinstance(change.existing, Instance) else None
        if old is not None and old.sent is not None:
            self._check_unchanged(change, old)
        if old is None or old.vm_size.lower() != size.lower():
            sizing.check_size(change, size, zones)
        interfaces = read(properties, "networkProfile.networkInterfaces")
        if not interfaces:
            raise change.missing("networkProfile.networkInterfaces")
        for interface in interfaces:
            found = change.need(interface.get("id"), "networkProfile.networkInterfaces")
            holder = read(found, "properties.virtualMachine.id")
            if holder and holder.lower() != change.target.id.lower():
                raise ArmError(400, "NicInUse", f"Network Interface {interface['id']} is used by {holder}.")
            document = change.state.model.documents.get(str(interface.get("id")))
            if document is not None:
                check_reserved(document, change.target.id)
        sizing.check_identity(change)
        if old is None:
            if not properties.get("osProfile"):
                raise change.missing("osProfile")
            check_login(change, properties["osProfile"])
            sizing.image_of(change, properties.get("storageProfile") or {})
            spot = properties.get("priority") in ("Spot", "Low")
            sizing.need_cores(change, sizing.demand(change.state.model, size, spot, 1))
        user_data_of(properties)

    def _check_unchanged(self, change: Change, old: Instance) -> None:
        assert old.sent is not None
        for path in NEVER_CHANGED:
            before, after = read(old.sent["properties"], path), read(change.properties, path)
            if isinstance(before, list) and isinstance(after, list) and before and isinstance(before[0], dict):
                same = [str(item.get("id") or item).lower() for item in before] == [
                    str(item.get("id") or item).lower() for item in after
                ]
            elif path.endswith("imageReference") and isinstance(before, dict) and isinstance(after, dict):
                same = all(before.get(key) == value for key, value in after.items() if key != "exactVersion")
            else:
                same = before == after or after is None
            if not same:
                raise change.immutable(path)
        if list(change.body.get("zones") or []) != list(old.sent.get("zones") or []):
            raise change.immutable("zones")

    def make(self, change: Change) -> Work | None:
        """Make the machine, or change the existing one."""
        state, model, sent = change.state, change.state.model, copy.deepcopy(change.body)
        properties = sent["properties"]
        old = change.existing if isinstance(change.existing, Instance) else None
        location, tags = str(sent.pop("location")), sent.pop("tags", None) or {}
        for key in ("id", "name", "type", "etag"):
            sent.pop(key, None)
        identity = settle_into(sent, change, (old.sent or {}).get("identity") if old is not None else None)
        user_data, size = user_data_of(properties), properties["hardwareProfile"]["vmSize"]
        if old is not None:
            return self._change(change, old, sent, tags, user_data)
        interface = model.documents.get(properties["networkProfile"]["networkInterfaces"][0]["id"])
        assert interface is not None
        own = interface.properties["ipConfigurations"][0]["properties"]
        public = model.documents.get((own.get("publicIPAddress") or {}).get("id", ""))
        machine = Instance(
            subscription=model.subscription,
            resource_group=change.target.group,
            name=change.target.name,
            location=location,
            tags=tags,
            serial=model.next_serial(),
            vm_id=model.identities.uuid(),
            computer_name=properties["osProfile"].get("computerName") or change.target.name,
            vm_size=size,
            subnet=model.subnets[own["subnet"]["id"].lower()],
            image=sizing.image_of(change, properties["storageProfile"]),
            hardware=hardware_of(state, size),
            zone=next(iter(sent.get("zones") or []), None),
            priority=properties.get("priority"),
            private_ipv4=own["privateIPAddress"],
            public_ipv4=public.properties["ipAddress"] if public is not None else None,
            accelerated_networking=interface.properties["enableAcceleratedNetworking"],
            user_data=user_data,
            identity="SystemAssigned" in (identity or {}).get("type", ""),
            client_ids=sizing.client_ids(state, identity or {}),
            boot_diagnostics=bool(read(properties, "diagnosticsProfile.bootDiagnostics.enabled")),
            sent=sent,
            interface_id=interface.id,
        )
        settle_machine(machine)
        for item in properties["networkProfile"]["networkInterfaces"]:
            attached = model.documents.get(item["id"])
            if attached is not None:
                attached.properties["virtualMachine"] = {"id": machine.upper_group_id + machine.path}
        model.machines[machine.id.lower()] = machine
        model.know_addresses(machine)
        make_disks(state, machine)
        return state.effects.boot([machine])

    def _change(
        self, change: Change, old: Instance, sent: dict[str, Any], tags: dict[str, str], user_data: str
    ) -> Work | None:
        """Change an existing machine. Only a new size makes it restart."""
        old.tags, old.user_data = tags, user_data
        size = sent["properties"]["hardwareProfile"]["vmSize"]
        resized, old.vm_size = old.vm_size.lower() != size.lower(), size
        if old.sent is not None:
            kept = old.sent["properties"]["storageProfile"]
            sent["properties"]["storageProfile"] = kept | {
                key: value
                for key, value in (sent["properties"].get("storageProfile") or {}).items()
                if key not in ("osDisk", "imageReference")
            }
            sent["properties"].setdefault("osProfile", old.sent["properties"]["osProfile"])
            old.sent = sent
            old.identity = "SystemAssigned" in (sent.get("identity") or {}).get("type", "")
            old.client_ids = sizing.client_ids(change.state, sent.get("identity") or {})
            old.boot_diagnostics = bool(read(sent["properties"], "diagnosticsProfile.bootDiagnostics.enabled"))
            settle_machine(old)
        old.touch()
        return change.state.effects.act("redeploy", [old]) if resized else None

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Delete the machine, detach what stays, and delete what is to be deleted with it."""
        assert isinstance(item, Instance)
        machine, model = item, state.model
        work = state.effects.delete([machine])

        def run() -> None:
            work()
            with model.lock:
                let_go(state, machine)

        return run

    def answer(self, state: Context, item: Resource) -> dict[str, Any]:
        """The machine without its state."""
        assert isinstance(item, Instance)
        return compute_payloads.machine(state.model, item, False)


def settle_into(sent: dict[str, Any], change: Change, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put the identity with the ids that the service adds into a body."""
    identity = sizing.settle_identity(change, before)
    sent.pop("identity", None)
    if identity is not None:
        sent["identity"] = identity
    return identity


def settle_machine(machine: Instance) -> None:
    """Add Azure's defaults to the body of a machine."""
    assert machine.sent is not None
    properties = machine.sent["properties"]
    storage, profile = properties["storageProfile"], properties["osProfile"]
    disk = storage.setdefault("osDisk", {})
    disk.setdefault("createOption", "FromImage")
    disk.setdefault("osType", "Linux")
    disk.setdefault("caching", "ReadWrite")
    disk.setdefault("deleteOption", "Detach")
    disk.setdefault("diskSizeGB", 64)
    disk.setdefault("name", f"{machine.name}_OsDisk_1_{machine.vm_id.replace('-', '')}")
    disk.setdefault("managedDisk", {}).setdefault("storageAccountType", "Premium_LRS")
    disk["managedDisk"]["id"] = f"{machine.upper_group_id}/providers/{COMPUTE}/disks/{disk['name']}"
    for number, data in enumerate(storage.setdefault("dataDisks", [])):
        data.setdefault("lun", number)
        data.setdefault("name", f"{machine.name}_disk{number + 2}_{machine.vm_id.replace('-', '')}")
        data.setdefault("deleteOption", "Detach")
        data.setdefault("managedDisk", {}).setdefault("storageAccountType", "Premium_LRS")
        data["managedDisk"]["id"] = f"{machine.upper_group_id}/providers/{COMPUTE}/disks/{data['name']}"
    profile.setdefault("computerName", machine.computer_name)
    profile.setdefault("secrets", [])
    profile.setdefault("allowExtensionOperations", True)
    profile["requireGuestProvisionSignal"] = True
    profile.setdefault("linuxConfiguration", {}).setdefault("provisionVMAgent", True)


def make_disks(state: Context, machine: Instance) -> None:
    """Make the disks of a new machine as resources of their own."""
    assert machine.sent is not None
    storage = machine.sent["properties"]["storageProfile"]
    for disk in [storage["osDisk"], *storage["dataDisks"]]:
        azure_id = f"{machine.group_id}/providers/{COMPUTE}/disks/{disk['name']}"
        existing = state.model.documents.get(azure_id)
        if existing is None:
            body: dict[str, Any] = {
                "sku": {"name": disk["managedDisk"]["storageAccountType"], "tier": "Premium"},
                "properties": {
                    "creationData": {"createOption": "FromImage" if disk is storage["osDisk"] else "Empty"},
                    "diskSizeGB": disk.get("diskSizeGB", 64),
                    "provisioningState": "Succeeded",
                    "uniqueId": state.model.identities.uuid(),
                },
            }
            if disk is storage["osDisk"]:
                body["properties"]["osType"] = "Linux"
            if machine.zone is not None:
                body["zones"] = [machine.zone]
            existing = state.model.documents.add(
                Document(
                    subscription=machine.subscription,
                    resource_group=machine.resource_group,
                    name=disk["name"],
                    location=machine.location,
                    tags={},
                    serial=state.model.next_serial(),
                    kind=f"{COMPUTE}/disks",
                    id=azure_id,
                    body=body,
                )
            )
        existing.body["managedBy"] = machine.upper_group_id + machine.path
        existing.properties["diskState"] = "Attached"


def let_go(state: Context, machine: Instance) -> None:
    """Detach or delete a deleted machine's disks, interfaces and public addresses, as its body asks."""
    if machine.sent is None:
        return
    properties, documents = machine.sent["properties"], state.model.documents
    reserve(state, properties, machine.upper_group_id + machine.path)
    storage = properties["storageProfile"]
    for disk in [storage["osDisk"], *storage["dataDisks"]]:
        document = documents.get(f"{machine.group_id}/providers/{COMPUTE}/disks/{disk['name']}")
        if document is not None and disk["deleteOption"] == "Delete":
            documents.remove(document.id)
        elif document is not None:
            document.body.pop("managedBy", None)
            document.properties["diskState"] = "Unattached"
    for item in properties["networkProfile"]["networkInterfaces"]:
        interface = documents.get(item["id"])
        if interface is None:
            continue
        interface.properties.pop("virtualMachine", None)
        if (item.get("properties") or {}).get("deleteOption") == "Delete":
            _remove_interface(state, interface)


def _remove_interface(state: Context, interface: Document) -> None:
    for configuration in interface.properties["ipConfigurations"]:
        own = configuration["properties"]
        subnet = state.model.subnets.get(own["subnet"]["id"].lower())
        if subnet is not None:
            subnet.private.release(own["privateIPAddress"])
        public = own.get("publicIPAddress") or {}
        address = state.model.documents.get(public.get("id", ""))
        if address is not None and (public.get("properties") or {}).get("deleteOption") == "Delete":
            state.model.public.release(address.properties["ipAddress"])
            state.model.documents.remove(address.id)
    state.model.documents.remove(interface.id)
