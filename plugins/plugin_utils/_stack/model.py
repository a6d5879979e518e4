# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The desired stack, as dataclasses. Every value is checked and every default is filled in; see ``parse.py``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from ...module_utils._node.sku.lookup import UnknownVmSize, canonical_size, find_size
from .._azure.credentials import find_cloud

NAME = "hpcai_stack"
"""The variable with the stack, for messages."""
PUBLIC, BASTION, PRIVATE = "public", "bastion", "private"
ACCESS = (PUBLIC, BASTION, PRIVATE)
"""How users reach the login nodes: public addresses, Azure Bastion, or only from connected networks."""
REGULAR, SPOT = "regular", "spot"
CONTROLLER_NFS, AZURE_FILES, AMLFS, NO_HOME = "controller", "azure_files", "amlfs", "none"
SHARED_HOMES = (CONTROLLER_NFS, AZURE_FILES, AMLFS, NO_HOME)
CLUSTER, COMPUTE, ENDPOINTS, BASTION_SUBNET = "cluster", "compute", "endpoints", "bastion"
SUBNETS = (CLUSTER, COMPUTE, ENDPOINTS, BASTION_SUBNET)
"""The model's own names of the subnets. Azure demands the name AzureBastionSubnet for the last one."""

_GRACE_BLACKWELL = re.compile("_GB[0-9]+(?:_|$)", re.IGNORECASE)
_FEATURES = re.compile(r"Standard_[A-Za-z]+[0-9]+(?:-[0-9]+)?([a-z]*)")
TAG = "hpcai_stack"
"""The tag of each resource that the stack made, with the value NAME/UUID."""


@dataclass(frozen=True)
class PurchasePlan:
    """The plan with which an image of the marketplace is sold. Its terms must be accepted once in a subscription."""

    publisher: str
    product: str
    name: str

    def __str__(self) -> str:
        return ":".join((self.publisher, self.product, self.name))


@dataclass(frozen=True)
class Image:
    """An image, by exact version.

    :ivar id: resource id of a version in a gallery; empty for an image of the marketplace.
    :ivar publisher: with ``offer``, ``sku`` and ``version``: an image of the marketplace.
    :ivar plan: its plan, also of an image in a gallery that was made from one with a plan; None if it has none.
    """

    id: str = ""
    publisher: str = ""
    offer: str = ""
    sku: str = ""
    version: str = ""
    plan: PurchasePlan | None = None

    def __str__(self) -> str:
        return self.id or ":".join((self.publisher, self.offer, self.sku, self.version))


@dataclass(frozen=True)
class Group:
    """The resource group.

    :ivar name: its name.
    :ivar adopt: its resource id, if it exists already; empty if the stack makes it.
    """

    name: str = ""
    adopt: str = ""


@dataclass(frozen=True)
class Network:
    """The network.

    :ivar adopt: id of a virtual network that exists already; then no network, NSG, NAT or Bastion is made.
    :ivar address_space: ranges of the virtual network; empty with ``adopt``.
    :ivar subnets: subnet ranges by the names of SUBNETS; with ``adopt``, names of its subnets.
    :ivar nat: whether the stack makes a NAT gateway for outbound connections.
    :ivar access: one of ACCESS; by default public if ``ssh_from`` is given, else Bastion.
    :ivar ssh_from: ranges that may connect to port 22 of the login nodes' public addresses.
    """

    adopt: str = ""
    address_space: tuple[str, ...] = ()
    subnets: Mapping[str, str] = field(default_factory=dict)
    nat: bool = True
    access: str = ""
    ssh_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class Identities:
    """The user-assigned managed identities.

    :ivar nodes: id of an existing identity for scale sets and login nodes; empty if the stack makes it.
    :ivar controller: the same for the controller.
    :ivar assign_roles: whether the stack writes role assignments. Without it, an owner of the resources must do so.
    """

    nodes: str = ""
    controller: str = ""
    assign_roles: bool = True


@dataclass(frozen=True)
class KeyVault:
    """The key vault with the munge key.

    :ivar name: its name, which is unique in Azure.
    :ivar adopt: id of an existing vault, which already contains the secret; empty if the stack makes it.
    :ivar secret: name of the secret.
    :ivar soft_delete_days: days for which Azure keeps the deleted vault, and blocks its name.
    :ivar allow_from: public ranges that may reach the vault, besides the stack's subnets.
    """

    name: str = ""
    adopt: str = ""
    secret: str = "munge-key"
    soft_delete_days: int = 7
    allow_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class Storage:
    """The storage account for data and checkpoints.

    :ivar name: its name, which is unique in Azure.
    :ivar adopt: id of an existing account, which already has the containers; empty if the stack makes it.
    :ivar containers: its blob containers. Without any, no account is made.
    :ivar redundancy: such as ``LRS``.
    :ivar soft_delete_days: days for which Azure keeps deleted blobs and containers.
    :ivar allow_from: public ranges that may reach the account, besides the stack's subnets.
    """

    name: str = ""
    adopt: str = ""
    containers: tuple[str, ...] = ("data",)
    redundancy: str = "LRS"
    soft_delete_days: int = 7
    allow_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class SharedHome:
    """The file system for homes.

    :ivar source: one of SHARED_HOMES.
    :ivar size_gib: size of the controller's data disk or of the share.
    :ivar name: name of the account with the share, for AZURE_FILES.
    :ivar adopt: id of an existing Azure Managed Lustre file system, for AMLFS.
    :ivar dns_zone: id of an existing private DNS zone for the share, for AZURE_FILES; empty if the stack makes it.
    """

    source: str = CONTROLLER_NFS
    size_gib: int = 256
    name: str = ""
    adopt: str = ""
    dns_zone: str = ""


@dataclass(frozen=True)
class Controller:
    """The controller's VM.

    :ivar vm_size: its VM size.
    :ivar image: its image; the stack's if not given.
    :ivar os_disk_gib: size of its system disk.
    :ivar private_ip: its fixed address in the cluster's subnet.
    """

    image: Image
    vm_size: str = "Standard_D8s_v5"
    os_disk_gib: int = 128
    private_ip: str = ""


@dataclass(frozen=True)
class Login:
    """The login nodes.

    :ivar count: their number. With 0, the controller is the login node too.
    """

    image: Image
    count: int = 1
    vm_size: str = "Standard_D4s_v5"
    os_disk_gib: int = 128


@dataclass(frozen=True)
class ScaleSet:
    """A scale set of compute nodes. It is made with capacity 0.

    :ivar max: the largest number of instances it may get; for limits, addresses and cost. It makes no instance.
    :ivar zone: its availability zone; empty for none.
    :ivar single_placement_group: whether all instances are in one placement group, which InfiniBand requires.
    :ivar max_price: highest price of a spot instance in USD per hour; -1 for the price without spot.
    :ivar ephemeral_os_disk: whether the system disk is on the host's local disks.
    :ivar health_extension: whether Azure's application health extension probes slurmd's port.
    :ivar capacity_reservation_group: id of a capacity reservation group; empty for none. Not with a single placement
        group.
    :ivar elastic: how the set grows and shrinks, keys of the role ``elastic``; None for a static set.
    """

    vm_size: str
    max: int
    image: Image
    single_placement_group: bool
    name: str = "compute"
    priority: str = REGULAR
    max_price: float = -1
    zone: str = ""
    os_disk_gib: int = 128
    ephemeral_os_disk: bool = False
    health_extension: bool = False
    capacity_reservation_group: str = ""
    elastic: Mapping[str, Any] | None = None

    @property
    def is_spot(self) -> bool:
        """Whether Azure may evict its instances."""
        return self.priority == SPOT


@dataclass(frozen=True)
class Suffixes:
    """Domains of one of Azure's clouds.

    :ivar vault: of key vaults.
    :ivar storage: of storage accounts.
    :ivar manager: URL of Resource Manager.
    """

    vault: str = "vault.azure.net"
    storage: str = "core.windows.net"
    manager: str = find_cloud("AzureCloud", None).endpoint

    @property
    def share_zone(self) -> str:
        """Name of the private DNS zone for shares with a private endpoint."""
        return f"privatelink.file.{self.storage}"


SUFFIXES: Mapping[str, Suffixes] = {
    "AzureCloud": Suffixes(),
    "AzureUSGovernment": Suffixes(
        "vault.usgovcloudapi.net", "core.usgovcloudapi.net", find_cloud("AzureUSGovernment", None).endpoint
    ),
    "AzureChinaCloud": Suffixes(
        "vault.azure.cn", "core.chinacloudapi.cn", find_cloud("AzureChinaCloud", None).endpoint
    ),
}
"""By the names of the clouds that ``az`` uses. Source: its cloud definitions (azure-cli, azure/cli/core/cloud.py)."""


@dataclass(frozen=True)
class Stack:
    """Everything that belongs to one cluster in Azure.

    :ivar subscription: id of the subscription, in lower case.
    :ivar name: name of the stack and of its cluster. Names of resources begin with it.
    :ivar ssh_public_keys: keys of ``admin_user``, in OpenSSH's format.
    :ivar tags: tags of each made resource, besides the stack's own.
    :ivar suffixes: domains of the cloud that the subscription is in.
    """

    subscription: str
    location: str
    ssh_public_keys: tuple[str, ...]
    scale_sets: tuple[ScaleSet, ...]
    group: Group
    network: Network
    identities: Identities
    key_vault: KeyVault
    storage: Storage
    shared_home: SharedHome
    controller: Controller
    login: Login
    name: str = "hpcai"
    admin_user: str = "azureuser"
    tags: Mapping[str, str] = field(default_factory=dict)
    suffixes: Suffixes = field(default_factory=Suffixes)

    @property
    def uuid(self) -> UUID:
        """The stack's own id. It depends on subscription, group and name only, so a killed run loses nothing."""
        return stack_uuid(self.subscription, self.group.name, self.name)

    @property
    def owner(self) -> str:
        """The value of the tag of each made resource."""
        return f"{self.name}/{self.uuid}"

    @property
    def group_id(self) -> str:
        """Resource id of the group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group.name}"

    @property
    def addresses_needed(self) -> int:
        """Addresses that the compute subnet must have free: one for each instance at most."""
        return sum(one.max for one in self.scale_sets)


def stack_uuid(subscription: str, group: str, name: str) -> UUID:
    """Return the id of the stack with this name in this resource group."""
    return uuid5(NAMESPACE_URL, f"hpcai.azure:stack:{subscription}/{group}/{name}".lower())


def needs_one_placement_group(vm_size: str) -> bool:
    """Say whether instances of a VM size must be in one placement group, because the size has InfiniBand.

    An unknown size is judged by Azure's naming rule: ``r`` among the letters after the number means RDMA. Sizes with
    Grace Blackwell superchips need several groups: with one, Azure answers "Vertical Connect Feature is not available
    for this Virtual Machine Scale Set" (Azure/AgentBaker, e2e, Test_Ubuntu2404Arm64_GB300_ManagedDriver).
    """
    if _GRACE_BLACKWELL.search(canonical_size(vm_size)):
        return False
    try:
        return bool(find_size(vm_size).hca_count)
    except UnknownVmSize:
        found = _FEATURES.match(canonical_size(vm_size))
        return found is not None and "r" in found[1]
