# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cluster needs in Azure, as plain data: the input of the preflight checks and of the cost."""

from __future__ import annotations

from dataclasses import dataclass

PREMIUM, STANDARD_SSD, STANDARD_HDD = "Premium_LRS", "StandardSSD_LRS", "Standard_LRS"
"""Types of managed disks whose price is known by tier."""


@dataclass(frozen=True)
class Machines:
    """Machines of one kind: a scale set, or one virtual machine.

    :ivar name: the resource's name.
    :ivar vm_size: canonical VM size.
    :ivar minimum: number of machines that always run.
    :ivar maximum: the largest number of machines.
    :ivar is_set: whether it is a scale set.
    :ivar compute: whether jobs run on it, so that the collection needs the facts of its VM size.
    :ivar spot: whether it uses spot capacity.
    :ivar zone: the availability zone; empty if Azure chooses.
    :ivar image: ``publisher:offer:sku:version``, or the resource id of an image or of a gallery's image version.
    :ivar plan: ``publisher:product:name`` of the marketplace plan that the model gives; empty if it gives none.
    :ivar disk_type: type of the OS disk.
    :ivar disk_gib: size of the OS disk; None if it is the image's.
    :ivar ephemeral: whether the OS disk is on the host, which costs nothing.
    :ivar subnet: resource id of its subnet.
    """

    name: str
    vm_size: str
    minimum: int = 1
    maximum: int = 1
    is_set: bool = False
    compute: bool = False
    spot: bool = False
    zone: str = ""
    image: str = ""
    plan: str = ""
    disk_type: str = PREMIUM
    disk_gib: int | None = None
    ephemeral: bool = False
    subnet: str = ""

    @property
    def label(self) -> str:
        """Its name with its kind, for people."""
        return f"set {self.name}" if self.is_set else self.name


@dataclass(frozen=True)
class Subnet:
    """A subnet for machines.

    :ivar id: its resource id.
    :ivar prefix: its address range if the stack makes it; empty if it is adopted.
    """

    id: str
    prefix: str = ""


@dataclass(frozen=True)
class Assignment:
    """A role assignment that the cluster needs.

    :ivar identity: resource id of the user-assigned identity that gets the role.
    :ivar role: name of the role, for people.
    :ivar role_id: the role definition's GUID.
    :ivar scope: resource id on which the role is assigned.
    """

    identity: str
    role: str
    role_id: str
    scope: str


@dataclass(frozen=True)
class Needs:
    """All that a cluster needs.

    :ivar subscription: the subscription's id.
    :ivar group: name of the resource group.
    :ivar location: name of the region, e.g. ``westeurope``.
    :ivar machines: all machines.
    :ivar subnets: all subnets for machines.
    :ivar assignments: the role assignments.
    :ivar actions: the actions that making the resources needs, in alphabetical order, without role assignments.
    :ivar providers: the resource providers, in alphabetical order.
    :ivar vault: name of the key vault that is made; empty if none is.
    :ivar storage: name of the storage account that is made; empty if none is.
    :ivar resources: resource ids of all resources that are made.
    :ivar nat_gateways: number of NAT gateways that are made.
    :ivar public_addresses: number of public IPv4 addresses that are made.
    :ivar bastions: number of Azure Bastions that are made.
    :ivar disks: data disks that are made: name, type, GiB.
    :ivar share_gib: provisioned size of premium file shares that are made, by name.
    :ivar unpriced: what is made and costs money, but is not part of the sum.
    """

    subscription: str
    group: str
    location: str
    machines: tuple[Machines, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    actions: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    vault: str = ""
    storage: str = ""
    resources: tuple[str, ...] = ()
    nat_gateways: int = 0
    public_addresses: int = 0
    bastions: int = 0
    disks: tuple[tuple[str, str, int], ...] = ()
    share_gib: tuple[tuple[str, int], ...] = ()
    unpriced: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """Resource id of the resource group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
