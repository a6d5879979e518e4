# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of one simulated subscription, and its immediate changes.

Changes and snapshots use one lock. simulator.effects does the work that takes time (machines) outside of it.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from simulator import names, userdata
from simulator.addresses import split
from simulator.documents import Documents
from simulator.gallery import Galleries
from simulator.keyvault.store import DeletedVault, Vault
from simulator.limits import Limits
from simulator.profile import virtual_machine_profile
from simulator.resources import NETWORK, Document, Instance, Resource, ScaleSet, Subnet
from simulator.scenario import (
    LOCATION,
    RESOURCE_GROUP,
    MachineScenario,
    NetworkScenario,
    ScaleSetScenario,
    Scenario,
)
from simulator.tokens import Tokens

PLACEMENT_GROUP_SIZE = 100
"""The most instances that Azure puts into one placement group."""

Kind = TypeVar("Kind", bound=Resource)


class Listing(list[Kind]):
    """Resources in order of creation."""

    def after(self, serial: int) -> int:
        """The index of the first resource created after ``serial``."""
        return bisect.bisect_right(self, serial, key=lambda item: item.serial)


class Model:
    """All resources of one subscription."""

    def __init__(self, scenario: Scenario, ssh_public_keys: tuple[str, ...] = (), seed: int | None = None) -> None:
        self.lock = threading.RLock()
        self.subscription = scenario.subscription
        self.admin_username = scenario.admin_username
        self.ssh_public_keys = ssh_public_keys
        self.identities = names.Identities(seed)
        self.limits = Limits.of(scenario)
        self.hardware = scenario.hardware
        """The real hardware of machines that a PUT makes."""
        self.documents = Documents()
        self.blobs: list[dict[str, str]] = []
        """What storage accounts contain; see arm/storage.py."""
        self.subnets: dict[str, Subnet] = {}
        """By lower-case id."""
        self.range = scenario.range
        self._by_network: dict[str, Subnet] = {}
        """The subnets of the scenario's networks, by the network's name."""
        self.scale_sets: dict[str, ScaleSet] = {}
        self.machines: dict[str, Instance] = {}
        """Stand-alone and Flexible virtual machines, by lower-case id."""
        self.by_address: dict[str, Instance] = {}
        self.resource_groups: dict[str, Document] = {}
        """By lower-case name. A group remains when its resources are deleted."""
        self.vaults = {vault.name.lower(): Vault(vault) for vault in scenario.key_vaults}
        self.deleted_vaults: dict[str, DeletedVault] = {}
        """Soft-deleted key vaults by lower-case name."""
        self.deployments: dict[str, Any] = {}
        """Deployments by lower-case id, in order of their start."""
        self.impacts: dict[str, dict[str, Any]] = {}
        """Reports of workload impacts, by lower-case name."""
        self.galleries = Galleries()
        self.tokens = Tokens()
        self._serial = 0
        for network in scenario.virtual_networks:
            self._add_network(network)
        for vault in self.vaults.values():
            self._add_vault(vault)
        self.public = next((item.public for item in self._by_network.values()), None) or split(self.range)[1]
        """The pool of the public addresses that a PUT makes."""
        for machine in scenario.virtual_machines:
            self.add_machine(machine)
        for scale_set in scenario.scale_sets:
            self._add_scale_set(scale_set)

    # Queries

    def instances(self) -> list[Instance]:
        """Every virtual machine, in order of creation."""
        with self.lock:
            found = list(self.machines.values())
            for scale_set in self.scale_sets.values():
                if scale_set.uniform:
                    found.extend(scale_set.members.values())
        return sorted(found, key=lambda item: item.serial)

    def find_instance(self, azure_id: str) -> Instance | None:
        """The virtual machine with this id, in any case."""
        wanted = azure_id.lower().rstrip("/")
        with self.lock:
            if wanted in self.machines:
                return self.machines[wanted]
            scale_set_id, _kind, instance_id = wanted.rpartition("/virtualmachines/")
            scale_set = self.scale_sets.get(scale_set_id)
            return scale_set.members.get(instance_id) if scale_set is not None else None

    def find_caller(self, wanted: str) -> Instance | None:
        """The virtual machine with this id, vmId, name or computer name."""
        return next((item for item in self.instances() if wanted.lower() in item.all_names), None)

    def user_data(self, item: Instance | ScaleSet) -> str:
        """The user data of a machine or of a scale set's model, with filled placeholders, in base64."""
        values = {("address", machine.name): machine.private_ipv4 or "" for machine in list(self.machines.values())}
        for vault in list(self.vaults.values())[:1]:
            values["vault", ""] = vault.url
        return userdata.encode(userdata.fill_in(item.user_data, values))

    def listing(self, kind: Iterable[Kind], wanted: Callable[[Kind], bool] | None = None) -> Listing[Kind]:
        """A snapshot of resources in order of creation, which is the order of the dictionaries here."""
        with self.lock:
            return Listing(kind if wanted is None else filter(wanted, kind))

    # Changes

    def next_serial(self) -> int:
        """The next number in the order of creation."""
        self._serial += 1
        return self._serial

    def add_group(self, name: str, location: str, tags: dict[str, str] | None = None) -> Document:
        """Add a resource group, or return the existing one."""
        with self.lock:
            azure_id = f"/subscriptions/{self.subscription}/resourceGroups/{name}"
            if name.lower() not in self.resource_groups:
                self.resource_groups[name.lower()] = Document(
                    subscription=self.subscription,
                    resource_group=name,
                    name=name,
                    location=location,
                    tags=dict(tags or {}),
                    serial=self.next_serial(),
                    kind="Microsoft.Resources/resourceGroups",
                    id=azure_id,
                    body={"properties": {"provisioningState": "Succeeded"}},
                )
            return self.resource_groups[name.lower()]

    def _add_network(self, wanted: NetworkScenario) -> None:
        private, public = split(wanted.subnet_prefix)
        group = self.add_group(wanted.resource_group, wanted.location)
        network_id = f"{group.id}/providers/{NETWORK}/virtualNetworks/{wanted.name}"
        subnet = Subnet(f"{network_id}/subnets/{wanted.subnet}", wanted.subnet_prefix, private, public)
        self._by_network[wanted.name] = self.subnets[subnet.id.lower()] = subnet
        self.documents.add(
            Document(
                subscription=self.subscription,
                resource_group=wanted.resource_group,
                name=wanted.name,
                location=wanted.location,
                tags={},
                serial=self.next_serial(),
                kind=f"{NETWORK}/virtualNetworks",
                id=network_id,
                body={
                    "properties": {
                        "addressSpace": {"addressPrefixes": list(wanted.address_prefixes)},
                        "subnets": [
                            {
                                "name": wanted.subnet,
                                "id": subnet.id,
                                "properties": {"addressPrefix": subnet.prefix, "provisioningState": "Succeeded"},
                            }
                        ],
                        "virtualNetworkPeerings": [],
                        "provisioningState": "Succeeded",
                    }
                },
            )
        )

    def _add_vault(self, vault: Vault) -> None:
        group = self.add_group(RESOURCE_GROUP, LOCATION)
        vault.azure_id = f"{group.id}/providers/Microsoft.KeyVault/vaults/{vault.name}"
        self.documents.add(
            Document(
                subscription=self.subscription,
                resource_group=group.name,
                name=vault.name,
                location=LOCATION,
                tags={},
                serial=self.next_serial(),
                kind="Microsoft.KeyVault/vaults",
                id=vault.azure_id,
                body={
                    "properties": {
                        "tenantId": self.subscription,
                        "sku": {"family": "A", "name": "standard"},
                        "accessPolicies": [],
                        "enableRbacAuthorization": True,
                        "enableSoftDelete": True,
                        "softDeleteRetentionInDays": 90,
                        "vaultUri": f"{vault.url}/",
                        "provisioningState": "Succeeded",
                    }
                },
            )
        )

    def _subnet(self, network: str) -> Subnet:
        return self._by_network[network] if network else next(iter(self._by_network.values()))

    def add_machine(self, wanted: MachineScenario) -> Instance:
        """Add a stand-alone virtual machine."""
        with self.lock:
            subnet = self._subnet(wanted.network)
            machine = Instance(
                subscription=self.subscription,
                resource_group=wanted.resource_group,
                name=wanted.name,
                location=wanted.location,
                tags=dict(wanted.tags),
                serial=self.next_serial(),
                vm_id=self.identities.uuid(),
                computer_name=wanted.computer_name or wanted.name,
                vm_size=wanted.vm_size,
                subnet=subnet,
                image=wanted.image,
                hardware=wanted.hardware,
                zone=wanted.zone,
                priority=wanted.priority,
                private_ipv4=subnet.private.take(wanted.private_ipv4),
                public_ipv4=subnet.public.take() if wanted.public_ip else None,
                accelerated_networking=wanted.accelerated_networking,
                user_data=wanted.user_data,
                identity=wanted.identity,
                client_ids=wanted.client_ids,
                boot_diagnostics=wanted.boot_diagnostics,
            )
            self.machines[machine.id.lower()] = machine
            self.add_group(machine.resource_group, machine.location)
            self.know_addresses(machine)
            return machine

    def _add_scale_set(self, wanted: ScaleSetScenario) -> None:
        scale_set = ScaleSet(
            subscription=self.subscription,
            resource_group=wanted.resource_group,
            name=wanted.name,
            location=wanted.location,
            tags=dict(wanted.tags),
            serial=self.next_serial(),
            flexible=wanted.orchestration_mode == "Flexible",
            vm_size=wanted.vm_size,
            capacity=wanted.capacity,
            zones=wanted.zones,
            fault_domains=wanted.fault_domains,
            single_placement_group=wanted.single_placement_group,
            unique_id=self.identities.uuid(),
            profile={},
            subnet=self._subnet(wanted.network),
            image=wanted.image,
            hardware=wanted.hardware,
            instance_tags=dict(wanted.instance_tags),
            priority=wanted.priority,
            public_ip=wanted.public_ip,
            accelerated_networking=wanted.accelerated_networking,
            ids=names.instance_ids(list(wanted.instance_ids)),
            user_data=wanted.user_data,
            identity=wanted.identity,
            client_ids=wanted.client_ids,
            boot_diagnostics=wanted.boot_diagnostics,
        )
        scale_set.profile = virtual_machine_profile(
            scale_set,
            wanted.computer_name_prefix or wanted.name,
            self.admin_username,
            self.linux_configuration(),
        )
        self.scale_sets[scale_set.id.lower()] = scale_set
        self.add_group(scale_set.resource_group, scale_set.location)
        for _number in range(wanted.capacity):
            self.add_instance(scale_set)

    def login(self, item: Instance) -> tuple[str, tuple[str, ...]]:
        """The administrator of a machine, and the public keys that let him in."""
        if item.scale_set is not None and item.scale_set.sent is not None:
            profile = item.scale_set.profile.get("osProfile") or {}
        elif item.sent is not None:
            profile = item.sent["properties"].get("osProfile") or {}
        else:
            return self.admin_username, self.ssh_public_keys
        keys = ((profile.get("linuxConfiguration") or {}).get("ssh") or {}).get("publicKeys") or []
        return str(profile.get("adminUsername")), tuple(str(key.get("keyData")) for key in keys)

    def linux_configuration(self) -> dict[str, Any]:
        """The osProfile.linuxConfiguration of all machines: ssh with the administrator's keys."""
        home = f"/home/{self.admin_username}/.ssh/authorized_keys"
        return {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [{"path": home, "keyData": key} for key in self.ssh_public_keys]},
            "provisionVMAgent": True,
        }

    def add_instance(self, scale_set: ScaleSet, reuses_id: bool = False) -> Instance:
        """Add an instance with a new vmId and the lowest free address; its id and name can be a deleted one's."""
        with self.lock:
            prefix = scale_set.profile["osProfile"]["computerNamePrefix"]
            if scale_set.uniform:
                number = min(scale_set.free_ids) if reuses_id and scale_set.free_ids else next(scale_set.ids)
                scale_set.free_ids.discard(number)
                instance_id: str | None = str(number)
                name = f"{scale_set.name}_{number}"
                computer_name = prefix + names.base36(number)
            else:
                instance_id = None
                name = f"{scale_set.name}_{self.identities.hexadecimal(8)}"
                computer_name = prefix + self.identities.hexadecimal(6).upper()
            zones, order = scale_set.zones, scale_set.growth
            instance = Instance(
                subscription=self.subscription,
                resource_group=scale_set.resource_group,
                name=name,
                location=scale_set.location,
                tags=dict(scale_set.instance_tags),
                serial=self.next_serial(),
                vm_id=self.identities.uuid(),
                computer_name=computer_name,
                vm_size=scale_set.vm_size,
                subnet=scale_set.subnet,
                image=scale_set.image,
                hardware=scale_set.hardware,
                scale_set=scale_set,
                instance_id=instance_id,
                zone=zones[order % len(zones)] if zones else None,
                fault_domain=order % scale_set.fault_domains,
                placement_group=self._placement_group(scale_set),
                priority=scale_set.priority,
                private_ipv4=scale_set.subnet.private.take(),
                public_ipv4=scale_set.subnet.public.take() if scale_set.public_ip else None,
                accelerated_networking=scale_set.accelerated_networking,
                model_version=scale_set.model_version,
                user_data=scale_set.user_data,
                identity=scale_set.identity,
                client_ids=scale_set.client_ids,
                boot_diagnostics=scale_set.boot_diagnostics,
            )
            scale_set.growth += 1
            scale_set.members[instance_id or name.lower()] = instance
            if not scale_set.uniform:
                self.machines[instance.id.lower()] = instance
            self.know_addresses(instance)
            return instance

    def _placement_group(self, scale_set: ScaleSet) -> str | None:
        if scale_set.flexible:
            return None
        groups = scale_set.placement_groups
        wanted = 1 if scale_set.single_placement_group else len(scale_set.members) // PLACEMENT_GROUP_SIZE + 1
        while len(groups) < wanted:
            groups.append(self.identities.uuid())
        return groups[wanted - 1]

    def know_addresses(self, instance: Instance) -> None:
        """Record the addresses of a machine, by which its requests are recognized."""
        for address in (instance.private_ipv4, instance.public_ipv4):
            if address is not None:
                self.by_address[address] = instance

    def remove(self, instance: Instance) -> None:
        """Remove a machine and free its addresses."""
        with self.lock:
            instance.deleted = True
            self.machines.pop(instance.id.lower(), None)
            if instance.scale_set is not None:
                instance.scale_set.members.pop(instance.instance_id or instance.name.lower(), None)
                instance.scale_set.free_ids |= {int(instance.instance_id)} if instance.instance_id else set()
            subnet = instance.subnet
            for address, pool in ((instance.private_ipv4, subnet.private), (instance.public_ipv4, subnet.public)):
                if address is not None:
                    self.by_address.pop(address, None)
                    if not instance.interface_id:
                        pool.release(address)

    def outdate(self, scale_set: ScaleSet) -> None:
        """Record a change of the set's model: existing instances no longer have the latest model."""
        with self.lock:
            scale_set.model_version += 1
            for instance in scale_set.members.values():
                instance.touch()
