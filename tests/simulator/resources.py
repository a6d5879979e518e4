# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of the simulator. simulator.effects changes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from simulator.addresses import AddressPool
from simulator.scenario import Hardware, Image

COMPUTE = "Microsoft.Compute"
NETWORK = "Microsoft.Network"


def now() -> datetime:
    """The current time in UTC, as Azure uses it."""
    return datetime.now(UTC)


@dataclass(eq=False)
class Resource:
    """Anything with an Azure id."""

    subscription: str
    resource_group: str
    name: str
    location: str
    tags: dict[str, str]
    serial: int
    """Position in the order of creation. Lists are in this order, and page tokens contain the number."""

    @property
    def group_id(self) -> str:
        """The id of the resource group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.resource_group}"

    @property
    def upper_group_id(self) -> str:
        """The same with the group's name in capitals, as Azure writes it in ids that refer to other resources."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.resource_group.upper()}"


@dataclass(eq=False)
class Document(Resource):
    """A resource without machines: what the last PUT described, and what the service added."""

    kind: str
    """Its type, such as Microsoft.Network/virtualNetworks/subnets."""
    id: str
    body: dict[str, Any]
    """The answer without id, name, type, location and tags."""
    created: datetime = field(default_factory=now)
    reserved: tuple[str, datetime] | None = None
    """For an interface: the machine for which it is still reserved, and until when."""
    asked: int = 0
    """How many requests depended on it while not all servers knew it, see the limit ``role_flap_s``."""

    @property
    def properties(self) -> dict[str, Any]:
        """The part of the body that belongs to its own service."""
        found: dict[str, Any] = self.body.setdefault("properties", {})
        return found


@dataclass(eq=False)
class Subnet:
    """The addresses of a subnet. The document of its virtual network has all other properties."""

    id: str
    prefix: str
    private: AddressPool
    public: AddressPool
    """Where its machines get public addresses."""


@dataclass(eq=False)
class ScaleSet(Resource):
    """A scale set."""

    flexible: bool
    vm_size: str
    capacity: int
    zones: tuple[str, ...]
    fault_domains: int
    single_placement_group: bool
    unique_id: str
    profile: dict[str, Any]
    """virtualMachineProfile as Resource Manager returns it."""
    subnet: Subnet
    image: Image
    hardware: Hardware
    instance_tags: dict[str, str]
    priority: str | None
    public_ip: bool
    accelerated_networking: bool
    ids: Iterator[int]
    user_data: str = ""
    identity: bool = True
    client_ids: tuple[str, ...] = ()
    boot_diagnostics: bool = True
    sent: dict[str, Any] | None = None
    """The body of the last PUT without virtualMachineProfile, with defaults. None for a scale set of the scenario."""
    placement_groups: list[str] = field(default_factory=list)
    model_version: int = 1
    provisioning_state: str = "Succeeded"
    failure: tuple[str, str] = ("", "")
    """Code and message of the change that failed, while the provisioning state is Failed."""
    created: datetime = field(default_factory=now)
    members: dict[str, Instance] = field(default_factory=dict)
    """Its instances by instance id (Flexible: by lower-case name)."""
    busy: int = 0
    """How many operations are running on it."""
    growth: int = 0
    """How many instances it has ever had."""
    free_ids: set[int] = field(default_factory=set)
    """Ids of deleted instances, which Azure may give again."""

    @property
    def path(self) -> str:
        """Its id below the resource group."""
        return f"/providers/{COMPUTE}/virtualMachineScaleSets/{self.name}"

    @property
    def id(self) -> str:
        """Its Azure id."""
        return self.group_id + self.path

    @property
    def alive(self) -> list[Instance]:
        """The instances that are not being deleted, the oldest first."""
        members = sorted(self.members.values(), key=lambda item: item.serial)
        return [item for item in members if item.provisioning_state != "Deleting"]

    @property
    def uniform(self) -> bool:
        """Whether its instances are not separate virtual machines."""
        return not self.flexible


@dataclass(eq=False)
class Instance(Resource):
    """A virtual machine: stand-alone, of a Flexible or of a Uniform scale set."""

    vm_id: str
    computer_name: str
    vm_size: str
    subnet: Subnet
    image: Image
    hardware: Hardware
    scale_set: ScaleSet | None = None
    instance_id: str | None = None
    zone: str | None = None
    fault_domain: int = 0
    placement_group: str | None = None
    priority: str | None = None
    private_ipv4: str | None = None
    public_ipv4: str | None = None
    accelerated_networking: bool = True
    model_version: int = 1
    user_data: str = ""
    """The user data with its placeholders."""
    identity: bool = True
    client_ids: tuple[str, ...] = ()
    boot_diagnostics: bool = True
    host_keys: tuple[str, ...] = ()
    """Public host keys that it printed on its serial console when its system was new."""
    console_log: str | None = None
    """The log of its serial console, if a test sets it."""
    provisioning_state: str = "Creating"
    power_state: str | None = "starting"
    sent: dict[str, Any] | None = None
    """The body of the last PUT, with defaults. None for a machine that no PUT made."""
    interface_id: str = ""
    """The id of its network interface, if that is a document, which then owns the addresses."""
    generalized: bool = False
    """Whether it may only be captured, and never started again."""
    has_network_profile: bool = True
    has_interfaces: bool = True
    dead: bool = False
    """Whether it runs only according to Resource Manager: it never boots."""
    hidden: threading.Event | None = None
    """Lists do not show it until this is set."""
    created: datetime = field(default_factory=now)
    status_time: datetime = field(default_factory=now)
    events: list[dict[str, Any]] = field(default_factory=list)
    """Scheduled events waiting for this machine."""
    events_incarnation: int = 1
    deleted: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while an operation works on the machine."""
    rendered: dict[str, bytes] = field(default_factory=dict, repr=False)
    """Encoded answers, deleted at each change."""

    @property
    def uniform(self) -> bool:
        """Whether its path is below its scale set."""
        return self.instance_id is not None

    @property
    def path(self) -> str:
        """Its id below the resource group."""
        if self.scale_set is not None and self.uniform:
            return f"{self.scale_set.path}/virtualMachines/{self.instance_id}"
        return f"/providers/{COMPUTE}/virtualMachines/{self.name}"

    @property
    def id(self) -> str:
        """Its Azure id."""
        return self.group_id + self.path

    @property
    def ephemeral(self) -> bool:
        """Whether its system disk is on the host, and lost when the machine leaves the host."""
        if self.scale_set is not None:
            storage = self.scale_set.profile["storageProfile"]
        else:
            storage = ((self.sent or {}).get("properties") or {}).get("storageProfile") or {}
        return bool(((storage.get("osDisk") or {}).get("diffDiskSettings") or {}).get("option"))

    @property
    def latest_model(self) -> bool:
        """Whether its scale set's model has not changed since it was made."""
        return self.scale_set is None or self.model_version == self.scale_set.model_version

    @property
    def all_names(self) -> set[str]:
        """All names that identify the machine, in lower case."""
        return {self.id.lower(), self.vm_id.lower(), self.name.lower(), self.computer_name.lower()}

    @property
    def interface_name(self) -> str:
        """The name of its network interface."""
        if self.scale_set is None:
            return f"{self.name}-nic"
        if self.uniform:
            return f"{self.scale_set.name}-nic"
        return f"{self.scale_set.name}-nic-{self.name.rpartition('_')[2]}"

    @property
    def interface_path(self) -> str:
        """Its interface's id below the resource group."""
        if self.uniform:
            return f"{self.path}/networkInterfaces/{self.interface_name}"
        return f"/providers/{NETWORK}/networkInterfaces/{self.interface_name}"

    @property
    def public_address_path(self) -> str:
        """Its public address's id below the resource group."""
        if self.uniform:
            return f"{self.interface_path}/ipConfigurations/ipconfig1/publicIPAddresses/{self.public_address_name}"
        return f"/providers/{NETWORK}/publicIPAddresses/{self.public_address_name}"

    @property
    def public_address_name(self) -> str:
        """The name of its public address."""
        return "pub1" if self.uniform else f"{self.name}-ip"

    def touch(self) -> None:
        """Delete the encoded answers after a change."""
        self.rendered.clear()

    @property
    def is_listed(self) -> bool:
        """Whether lists show it."""
        return self.hidden is None or self.hidden.is_set()

    def show(self, provisioning_state: str, power_state: str | None = None) -> None:
        """Change the state that Resource Manager returns."""
        self.provisioning_state = provisioning_state
        if power_state is not None:
            self.power_state = power_state
        self.status_time = now()
        self.touch()
