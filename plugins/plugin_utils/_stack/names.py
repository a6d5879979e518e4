# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and ids of the stack's resources, all derived from the model."""

from __future__ import annotations

from uuid import uuid5

from . import resource as kinds
from .model import BASTION_SUBNET, Stack


class Names:
    """The ids of a stack's resources."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.nsg = self.of(kinds.NSG, f"{stack.name}-nsg")
        self.nat_address = self.of(kinds.PUBLIC_ADDRESS, f"{stack.name}-nat-ip")
        self.nat = self.of(kinds.NAT, f"{stack.name}-nat")
        self.network = stack.network.adopt or self.of(kinds.VNET, f"{stack.name}-vnet")
        self.bastion_address = self.of(kinds.PUBLIC_ADDRESS, f"{stack.name}-bastion-ip")
        self.bastion = self.of(kinds.BASTION_HOST, f"{stack.name}-bastion")
        self.nodes_identity = stack.identities.nodes or self.of(kinds.IDENTITY, f"{stack.name}-nodes")
        self.controller_identity = stack.identities.controller or self.of(kinds.IDENTITY, f"{stack.name}-controller")
        self.vault = stack.key_vault.adopt or self.of(kinds.VAULT, stack.key_vault.name)
        self.secret = f"{self.vault}/secrets/{stack.key_vault.secret}"
        self.account = stack.storage.adopt or self.of(kinds.ACCOUNT, stack.storage.name)
        self.home_disk = self.of(kinds.DISK, f"{stack.name}-home")
        self.home_account = self.of(kinds.ACCOUNT, stack.shared_home.name or "none")
        self.home_share = f"{self.home_account}/fileServices/default/shares/home"
        self.home_endpoint = self.of(kinds.ENDPOINT, f"{stack.name}-home")
        self.home_zone = stack.shared_home.dns_zone or self.of(kinds.DNS_ZONE, stack.suffixes.share_zone)
        self.controller = self.of(kinds.VM, f"{stack.name}-controller")
        self.elastic_role = self.of(kinds.ROLE, str(uuid5(stack.uuid, "elastic")))
        self.operations_role = self.of(kinds.ROLE, str(uuid5(stack.uuid, "operations")))
        self.deployment = f"hpcai-{stack.name}"
        self.record = f"hpcai-{stack.name}-record"

    def of(self, kind: str, name: str) -> str:
        """Return the id of a resource in the stack's group."""
        return f"{self._stack.group_id}/providers/{kind}/{name}"

    def subnet(self, name: str) -> str:
        """Return the id of a subnet by the model's name."""
        if self._stack.network.adopt:
            return f"{self.network}/subnets/{self._stack.network.subnets[name]}"
        return f"{self.network}/subnets/{'AzureBastionSubnet' if name == BASTION_SUBNET else name}"

    def container(self, name: str) -> str:
        """Return the id of a blob container."""
        return f"{self.account}/blobServices/default/containers/{name}"

    def login(self, number: int) -> str:
        """Return the id of a login node, numbered from 1."""
        return self.of(kinds.VM, f"{self._stack.name}-login-{number}")

    def interface(self, machine: str) -> str:
        """Return the id of a machine's interface."""
        return self.of(kinds.NIC, f"{machine.rsplit('/', 1)[-1]}-nic")

    def address(self, machine: str) -> str:
        """Return the id of a machine's public address."""
        return self.of(kinds.PUBLIC_ADDRESS, f"{machine.rsplit('/', 1)[-1]}-ip")

    def assignment(self, scope: str, identity: str, role: str) -> str:
        """Return the id of a role assignment. It is the same in each run, so a repeated run finds it."""
        name = uuid5(self._stack.uuid, f"{scope}/{identity}/{role}".lower())
        return f"{scope}/providers/{kinds.ROLE_ASSIGNMENT}/{name}"
