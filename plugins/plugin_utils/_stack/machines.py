# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller, login nodes and scale sets of the stack, as resources."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...module_utils._node.machine import cluster_settings as cluster
from . import resource as kinds
from .data import SECRETS_USER, assignments
from .model import CLUSTER, COMPUTE, CONTROLLER_NFS, PUBLIC, Controller, Image, Login, ScaleSet, Stack
from .names import Names
from .network import public_address
from .resource import Resource, label_of

HOME = "/shared"
"""Where the shared home is mounted, as the guide to shared file systems suggests."""
_LABEL = "hpcai-home"
_SLURMD = 6818
ROLE = "hpcai_role"
_CLUSTER = "hpcai_cluster"
STATIC, ELASTIC = "compute", "elastic"
"""Values of the tag ROLE of scale sets."""
# The disk as Azure's udev rules name it, on SCSI and on NVMe. blkid ends with 2 if it finds nothing, but also if it
# cannot read the disk. So cmp must have read the start of the disk, and found it empty.
_FORMAT = (
    "for disk in /dev/disk/azure/scsi1/lun0 /dev/disk/azure/data/by-lun/0; do [ -b $disk ] || continue; "
    "cmp -s -n 1048576 $disk /dev/zero || continue; "
    f"blkid -p $disk >/dev/null; [ $? -eq 2 ] && mkfs.ext4 -q -L {_LABEL} $disk; done; true"
)
_SENT_ONCE = frozenset(
    {
        "plan",
        "properties.osProfile",
        "properties.storageProfile.imageReference",
        "properties.storageProfile.osDisk",
        "properties.diagnosticsProfile",
    }
)
"""What Azure cannot change on an existing VM, or what the operator may have changed for a good reason."""


def machine_resources(
    stack: Stack, names: Names, common: dict[str, Any], vault_url: str, clients: Mapping[str, str]
) -> Iterator[Resource]:
    """Yield the machines, with their interfaces and addresses.

    :param common: location and tags of each resource.
    :param vault_url: URL of the vault with the munge key.
    :param clients: the identities' client ids by the identities' ids; without those of new identities.
    """
    key = _Key(stack, vault_url, clients)
    roles = "controller" if stack.login.count else "controller,login"
    yield from _machine(
        stack, names, common, names.controller, stack.controller, roles, key, stack.controller.private_ip
    )
    for number in range(1, stack.login.count + 1):
        yield from _machine(stack, names, common, names.login(number), stack.login, "login", key, "")
    for one in stack.scale_sets:
        yield _scale_set(stack, names, common, one, key)


@dataclass(frozen=True)
class _Key:
    """Where machines get the munge key, and with which identity.

    :ivar vault: URL of the vault.
    :ivar clients: the identities' client ids by the identities' ids.
    """

    stack: Stack
    vault: str
    clients: Mapping[str, str]

    def of(self, identity: str) -> dict[str, Any]:
        """Return the key of the user data of machines with this identity.

        They name it, because Azure Policy can add identities to any machine. Without a client id, the metadata service
        returns a token of the system-assigned identity, or refuses to choose one of several (Azure's documentation of
        managed identities, "What identity will IMDS default to").
        """
        return {
            "source": cluster.KEY_VAULT,
            "vault": self.vault,
            "secret": self.stack.key_vault.secret,
            "client_id": self.clients.get(identity),
        }


def user_data(
    stack: Stack,
    functions: list[str],
    key: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
    elastic: bool = False,
) -> str:
    """Return the user data of a machine in base64, as the boot step ``instance`` expects it."""
    settings = cluster.settings_from(
        {
            "cluster": stack.name,
            "functions": functions,
            "controllers": [stack.controller.private_ip],
            "key": key,
            "elastic": elastic,
        },
        cluster.FROM_USER_DATA,
        "the user data",
    )
    content = {"hpcai": {"schema": 1, **cluster.as_stated(settings)}, **(more or {})}
    text = json.dumps(content, indent=1)
    if more:
        text = f"#cloud-config\n{text}"
    return base64.b64encode(f"{text}\n".encode()).decode()


def plan_of(image: Image) -> dict[str, Any]:
    """Return the part of a machine's body with the plan of its image, if that has one."""
    if image.plan is None:
        return {}
    return {"plan": {"publisher": image.plan.publisher, "product": image.plan.product, "name": image.plan.name}}


def image_reference(image: Image) -> dict[str, str]:
    """Return an image as Azure writes it."""
    if image.id:
        return {"id": image.id}
    return {"publisher": image.publisher, "offer": image.offer, "sku": image.sku, "version": image.version}


def _machine(
    stack: Stack,
    names: Names,
    common: dict[str, Any],
    machine: str,
    wanted: Controller | Login,
    roles: str,
    key: _Key,
    address: str,
) -> Iterator[Resource]:
    is_controller = "controller" in roles
    public = stack.network.access == PUBLIC and "login" in roles
    interface, public_ip = names.interface(machine), names.address(machine)
    configuration: dict[str, Any] = {
        "subnet": {"id": names.subnet(CLUSTER)},
        "privateIPAllocationMethod": "Static" if address else "Dynamic",
        "primary": True,
    }
    if address:
        configuration["privateIPAddress"] = address
    if public:
        configuration["publicIPAddress"] = {"id": public_ip}
        yield public_address(public_ip, common)
    yield Resource(
        interface,
        kinds.NIC,
        {**common, "properties": {"ipConfigurations": [{"name": "ip", "properties": configuration}]}},
        needs=(names.network, *([public_ip] if public else [])),
    )
    identity = names.controller_identity if is_controller else names.nodes_identity
    with_disk = is_controller and stack.shared_home.source == CONTROLLER_NFS
    name = machine.rsplit("/", 1)[-1]
    storage: dict[str, Any] = {
        "imageReference": image_reference(wanted.image),
        "osDisk": {
            "name": f"{name}-os",
            "createOption": "FromImage",
            "deleteOption": "Delete",
            "diskSizeGB": wanted.os_disk_gib,
            "caching": "ReadWrite",
            "managedDisk": {"storageAccountType": "Premium_LRS"},
        },
    }
    if with_disk:
        storage["dataDisks"] = [
            {
                "lun": 0,
                "name": names.home_disk.rsplit("/", 1)[-1],
                "createOption": "Attach",
                "deleteOption": "Detach",
                "caching": "None",
                "managedDisk": {"id": names.home_disk},
            }
        ]
    more = {
        "bootcmd": [["sh", "-c", _FORMAT]],
        "mounts": [[f"LABEL={_LABEL}", HOME, "ext4", "defaults,nofail", "0", "2"]],
    }
    yield Resource(
        machine,
        kinds.VM,
        {
            "location": common["location"],
            "tags": {**common["tags"], _CLUSTER: stack.name, ROLE: roles},
            "identity": _identity(identity),
            **plan_of(wanted.image),
            "properties": {
                "hardwareProfile": {"vmSize": wanted.vm_size},
                "storageProfile": storage,
                "osProfile": {"computerName": name, **_operating_system(stack)},
                "networkProfile": {
                    "networkInterfaces": [{"id": interface, "properties": {"primary": True, "deleteOption": "Detach"}}]
                },
                # The ssh host keys of new machines are read from there.
                "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
                "userData": user_data(stack, roles.split(","), key.of(identity), more if with_disk else None),
            },
        },
        needs=(interface, *_for_the_key(stack, names, identity), *([names.home_disk] if with_disk else [])),
        once=_SENT_ONCE,
    )


def _for_the_key(stack: Stack, names: Names, identity: str) -> tuple[str, ...]:
    """Return what a machine with this identity needs to get the munge key at its first boot."""
    roles = [
        names.assignment(one.scope, one.identity, one.role)
        for one in assignments(stack, names)
        if one.identity == identity and one.role == SECRETS_USER and not one.foreign
    ]
    return (identity, names.secret, *roles)


def _identity(identity: str) -> dict[str, Any]:
    return {"type": "UserAssigned", "userAssignedIdentities": {identity: {}}}


def other_keys(stack: Stack, names: Names, found: Mapping[str, Mapping[str, Any] | None]) -> Iterator[str]:
    """Yield a note if the controller has none of the stack's ssh keys: perhaps another team made it.

    :param found: Azure's answers by lower-case id.
    """
    profile = ((found.get(names.controller.lower()) or {}).get("properties") or {}).get("osProfile") or {}
    there = ((profile.get("linuxConfiguration") or {}).get("ssh") or {}).get("publicKeys") or []
    # Without the comment.
    given, has = ({tuple(key.split()[:2]) for key in keys} for keys in (stack.ssh_public_keys, map(_key, there)))
    if has and not given & has:
        yield (
            f"{label_of(names.controller)} was made with none of hpcai_stack.ssh_public_keys. Existing machines "
            f"keep their keys. If another team has a stack named {stack.name} in the group {stack.group.name}, "
            "give hpcai_stack another name: both descriptions are for the same resources, and teardown deletes them."
        )


def _key(item: Mapping[str, Any]) -> str:
    return str(item.get("keyData") or "")


def _operating_system(stack: Stack) -> dict[str, Any]:
    path = f"/home/{stack.admin_user}/.ssh/authorized_keys"
    return {
        "adminUsername": stack.admin_user,
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [{"path": path, "keyData": key} for key in stack.ssh_public_keys]},
        },
    }


def _scale_set(stack: Stack, names: Names, common: dict[str, Any], one: ScaleSet, key: _Key) -> Resource:
    disk: dict[str, Any] = {"createOption": "FromImage", "caching": "ReadOnly", "diskSizeGB": one.os_disk_gib}
    if one.ephemeral_os_disk:
        disk["diffDiskSettings"] = {"option": "Local"}
    else:
        disk["managedDisk"] = {"storageAccountType": "Premium_LRS"}
    profile: dict[str, Any] = {
        "priority": "Spot" if one.is_spot else "Regular",
        "osProfile": {"computerNamePrefix": one.name, **_operating_system(stack)},
        "storageProfile": {"imageReference": image_reference(one.image), "osDisk": disk},
        "networkProfile": {
            "networkInterfaceConfigurations": [
                {
                    "name": "nic",
                    "properties": {
                        "primary": True,
                        "enableAcceleratedNetworking": True,
                        "ipConfigurations": [
                            {"name": "ip", "properties": {"primary": True, "subnet": {"id": names.subnet(COMPUTE)}}}
                        ],
                    },
                }
            ]
        },
        # The ssh host keys of new instances are read from there.
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        "userData": user_data(stack, ["compute"], key.of(names.nodes_identity), elastic=one.elastic is not None),
    }
    if one.is_spot:
        profile["evictionPolicy"] = "Delete"
        profile["billingProfile"] = {"maxPrice": one.max_price}
    if one.capacity_reservation_group:
        profile["capacityReservation"] = {"capacityReservationGroup": {"id": one.capacity_reservation_group}}
    if one.health_extension:
        profile["extensionProfile"] = {"extensions": [_health_extension()]}
    body: dict[str, Any] = {
        "location": common["location"],
        "tags": {**common["tags"], _CLUSTER: stack.name, ROLE: STATIC if one.elastic is None else ELASTIC},
        "sku": {"name": one.vm_size, "tier": "Standard", "capacity": 0},
        "identity": _identity(names.nodes_identity),
        **plan_of(one.image),
        "properties": {
            "orchestrationMode": "Uniform",
            # Azure would start more machines than asked for, and delete those that come last.
            "overprovision": False,
            "singlePlacementGroup": one.single_placement_group,
            # With one fault domain, a GPU machine gets only its own scheduled events.
            "platformFaultDomainCount": 1,
            # Azure must not replace machines with jobs on them.
            "upgradePolicy": {"mode": "Manual"},
            "automaticRepairsPolicy": {"enabled": False},
            "virtualMachineProfile": profile,
        },
    }
    if one.zone:
        body["zones"] = [one.zone]
    base = "properties.virtualMachineProfile"
    return Resource(
        names.of(kinds.SCALE_SET, one.name),
        kinds.SCALE_SET,
        body,
        needs=(names.network, *_for_the_key(stack, names, names.nodes_identity)),
        # The capacity belongs to whoever grows and shrinks the set.
        once=frozenset({"sku.capacity", "sku.tier", f"{base}.osProfile", f"{base}.storageProfile.osDisk"}),
        fixed=frozenset(
            {
                "zones",
                "properties.orchestrationMode",
                "properties.platformFaultDomainCount",
                "properties.singlePlacementGroup",
                f"{base}.priority",
                f"{base}.evictionPolicy",
                f"{base}.networkProfile",
                # VirtualMachineScaleSetUpdateVMProfile, the body of a PATCH, does not have it.
                f"{base}.capacityReservation",
            }
        ),
        # Azure returns no priority of a set that was made without one, and accepts none for it later
        # (https://github.com/ansible-collections/azure/issues/2000). What the last two have if they are absent is not
        # documented, so their absence is no difference.
        defaults={
            f"{base}.priority": "Regular",
            "properties.orchestrationMode": "Uniform",
            "properties.singlePlacementGroup": one.single_placement_group,
            "properties.platformFaultDomainCount": 1,
        },
    )


def _health_extension() -> dict[str, Any]:
    return {
        "name": "health",
        "properties": {
            "publisher": "Microsoft.ManagedServices",
            "type": "ApplicationHealthLinux",
            "typeHandlerVersion": "1.0",
            "autoUpgradeMinorVersion": True,
            "settings": {"protocol": "tcp", "port": _SLURMD},
        },
    }
