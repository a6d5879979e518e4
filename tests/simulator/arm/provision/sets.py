# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale sets that clients make. simulator.effects boots their instances."""

from __future__ import annotations

import copy
from typing import Any

from simulator import names
from simulator.addresses import AddressesExhausted
from simulator.arm import compute_payloads
from simulator.arm.context import Context
from simulator.arm.errors import ArmError, bad_parameter
from simulator.arm.provision import sizing
from simulator.arm.provision.kinds import Change, Kind
from simulator.arm.provision.machines import check_login, hardware_of, read, settle_into, user_data_of
from simulator.arm.provision.targets import Target
from simulator.effects import Work
from simulator.limits import reservable
from simulator.resources import Resource, ScaleSet


class Set(Kind):
    """A scale set."""

    asynchronous = True

    def find(self, state: Context, target: Target) -> Resource | None:
        """The existing scale set."""
        return state.model.scale_sets.get(target.id.lower())

    def check(self, change: Change) -> None:
        """Check everything that Azure checks before it makes or changes a scale set."""
        old = change.existing if isinstance(change.existing, ScaleSet) else None
        sku = change.body.get("sku")
        if not sku or not sku.get("name"):
            if old is None:
                raise change.missing("sku.name")
            sku = {"name": old.vm_size, "capacity": old.capacity}
        if sku.get("capacity") is None:
            # https://github.com/Azure/vm-scale-sets/issues/70: a PUT with a SKU must say the capacity.
            raise change.missing("sku.capacity")
        properties, profile = change.properties, change.properties.get("virtualMachineProfile")
        flexible = properties.get("orchestrationMode") == "Flexible"
        if profile is None:
            raise change.missing("virtualMachineProfile")
        if not flexible and not read(properties, "upgradePolicy.mode"):
            raise change.missing("upgradePolicy.mode")
        one_group = properties.get("singlePlacementGroup", not flexible)
        if flexible and one_group:
            raise bad_parameter("singlePlacementGroup", "must be false for the orchestration mode Flexible")
        if one_group and sku["capacity"] > 100:
            raise bad_parameter(
                "sku.capacity", f"{sku['capacity']} is more than the 100 instances that a single placement group holds"
            )
        zones = change.body.get("zones") or []
        if old is not None:
            self._check_unchanged(change, old, flexible, bool(one_group))
            sizing.check_same_product(old, profile)
        self._check_profile(change, profile, old)
        if old is None or old.vm_size.lower() != sku["name"].lower():
            sizing.check_size(change, sku["name"], zones)
            self._check_networking(change, profile, sku["name"])
            if one_group and (change.state.model.limits.size(sku["name"]) or {}).get("several_groups"):
                # Azure/AgentBaker, e2e, Test_Ubuntu2404Arm64_GB300_ManagedDriver.
                raise ArmError(
                    400,
                    "BadRequest",
                    "Vertical Connect Feature is not available for this Virtual Machine Scale Set.",
                )
            sizing.check_ephemeral_disk(sku["name"], change, read(profile, "storageProfile.osDisk") or {})
        if read(profile, "capacityReservation.capacityReservationGroup.id"):
            self._check_reservation(change, sku["name"], bool(one_group))
        more = sku["capacity"] - (old.capacity if old is not None else 0)
        spot = profile.get("priority") in ("Spot", "Low")
        sizing.need_cores(change, sizing.demand(change.state.model, sku["name"], spot, max(0, more)))

    @staticmethod
    def _check_networking(change: Change, profile: dict[str, Any], size: str) -> None:
        known = change.state.model.limits.size(size) or {}
        for interface in read(profile, "networkProfile.networkInterfaceConfigurations") or ():
            if read(interface, "properties.enableAcceleratedNetworking") and not known.get(
                "accelerated_networking", True
            ):
                # As quoted in https://github.com/kubernetes-sigs/cluster-api/issues/1201.
                raise ArmError(
                    400,
                    "VMSizeIsNotPermittedToEnableAcceleratedNetworkingForVmss",
                    f"Virtual machine at index 0 of VM scale set {change.target.id} has size {size}, which is not "
                    "compatible with enabling accelerated networking in the network profile on the scale set.",
                )

    @staticmethod
    def _check_reservation(change: Change, size: str, one_group: bool) -> None:
        """Refuse a capacity reservation that Azure's documentation excludes. The texts of the errors are not known."""
        known = change.state.model.limits.size(size)
        if one_group:
            raise bad_parameter("singlePlacementGroup", "must be false for a scale set with a capacity reservation")
        if known is not None and not reservable(known):
            raise bad_parameter("capacityReservation", f"is not supported for the VM size {size}")

    @staticmethod
    def _check_profile(change: Change, profile: dict[str, Any], old: ScaleSet | None) -> None:
        check_login(change, profile.get("osProfile") or {})
        for interface in read(profile, "networkProfile.networkInterfaceConfigurations") or [{}]:
            own = interface.get("properties") or {}
            group = (own.get("networkSecurityGroup") or {}).get("id")
            if group:
                change.need(group, "networkSecurityGroup")
            for configuration in own.get("ipConfigurations") or [{}]:
                change.need(read(configuration, "properties.subnet.id"), "subnet")
        sizing.check_identity(change)
        sizing.image_of(change, profile.get("storageProfile") or {}, old.image if old is not None else None)
        user_data_of(profile)

    @staticmethod
    def _check_unchanged(change: Change, old: ScaleSet, flexible: bool, one_group: bool) -> None:
        if flexible != old.flexible:
            raise change.immutable("orchestrationMode")
        if one_group and not old.single_placement_group:
            raise change.immutable("singlePlacementGroup")
        if tuple(change.body.get("zones") or ()) != old.zones:
            raise change.immutable("zones")
        count = change.properties.get("platformFaultDomainCount")
        if count is not None and count != old.fault_domains:
            raise change.immutable("platformFaultDomainCount")
        prefix = read(change.properties, "virtualMachineProfile.osProfile.computerNamePrefix")
        if prefix is not None and prefix != old.profile["osProfile"]["computerNamePrefix"]:
            raise change.immutable("osProfile.computerNamePrefix")

    def make(self, change: Change) -> Work | None:
        """Make the scale set, or give the existing one a new model and capacity."""
        state, model, sent = change.state, change.state.model, copy.deepcopy(change.body)
        old = change.existing if isinstance(change.existing, ScaleSet) else None
        location, tags = str(sent.pop("location")), sent.pop("tags", None) or {}
        for key in ("id", "name", "type", "etag"):
            sent.pop(key, None)
        sku = sent.pop("sku", None) or {"name": old.vm_size if old else "", "capacity": old.capacity if old else 0}
        before_identity = (old.sent or {}).get("identity") if old is not None else None
        profile = sent["properties"].pop("virtualMachineProfile")
        user_data = user_data_of(profile)
        image = sizing.image_of(change, profile["storageProfile"], old.image if old is not None else None)
        settle_set(sent, change.target.name, profile)
        properties = sent["properties"]
        first = profile["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]["ipConfigurations"][0]
        if old is None:
            old = ScaleSet(
                subscription=model.subscription,
                resource_group=change.target.group,
                name=change.target.name,
                location=location,
                tags=tags,
                serial=model.next_serial(),
                flexible=properties["orchestrationMode"] == "Flexible",
                vm_size=sku["name"],
                capacity=0,
                zones=tuple(sent.get("zones") or ()),
                fault_domains=properties["platformFaultDomainCount"],
                single_placement_group=properties["singlePlacementGroup"],
                unique_id=model.identities.uuid(),
                profile={},
                subnet=model.subnets[first["properties"]["subnet"]["id"].lower()],
                image=image,
                hardware=hardware_of(state, sku["name"]),
                instance_tags={},
                priority=None,
                public_ip=False,
                accelerated_networking=False,
                ids=names.instance_ids([]),
            )
            model.scale_sets[old.id.lower()] = old
        before = (old.vm_size, old.profile, old.user_data, old.image)
        old.vm_size, old.user_data, old.image, old.tags = sku["name"], user_data, image, tags
        old.instance_tags = dict(tags)
        old.sent, old.profile, old.priority = sent, profile, profile.get("priority")
        old.single_placement_group = properties["singlePlacementGroup"]
        old.subnet = model.subnets[first["properties"]["subnet"]["id"].lower()]
        old.public_ip = "publicIPAddressConfiguration" in first["properties"]
        configuration = profile["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]
        old.accelerated_networking = bool(configuration.get("enableAcceleratedNetworking"))
        if before_identity is not None:
            sent["identity"] = before_identity
        take_identity(change, old)
        old.boot_diagnostics = bool(read(profile, "diagnosticsProfile.bootDiagnostics.enabled"))
        if old.members and before != (old.vm_size, old.profile, old.user_data, old.image):
            model.outdate(old)
        try:
            return state.effects.scale(old, sku["capacity"])
        except AddressesExhausted as error:
            raise ArmError(
                400, "SubnetIsFull", f"Subnet {old.subnet.id} does not have enough capacity: {error}"
            ) from error

    def remove(self, state: Context, item: Resource) -> Work | None:
        """Delete the scale set with its instances."""
        assert isinstance(item, ScaleSet)
        scale_set, model = item, state.model
        scale = state.effects.scale(scale_set, 0)

        def work() -> None:
            scale()
            with model.lock:
                model.scale_sets.pop(scale_set.id.lower(), None)

        return work

    def answer(self, state: Context, item: Resource) -> dict[str, Any]:
        """The scale set."""
        assert isinstance(item, ScaleSet)
        return compute_payloads.scale_set(item)


def take_identity(change: Change, scale_set: ScaleSet) -> None:
    """Give a scale set the identity of a request."""
    assert scale_set.sent is not None
    sizing.check_identity(change)
    identity = settle_into(scale_set.sent, change, scale_set.sent.get("identity"))
    scale_set.identity = "SystemAssigned" in (identity or {}).get("type", "")
    scale_set.client_ids = sizing.client_ids(change.state, identity or {})


def settle_set(sent: dict[str, Any], name: str, profile: dict[str, Any]) -> None:
    """Add Azure's defaults to the body of a scale set: what a PUT omits has them, whatever it was before."""
    properties = sent["properties"]
    flexible = properties.setdefault("orchestrationMode", "Uniform") == "Flexible"
    properties.setdefault("singlePlacementGroup", not flexible)
    properties.setdefault("platformFaultDomainCount", 1 if sent.get("zones") or flexible else 5)
    if not flexible:
        properties.setdefault("overprovision", True)
    profile.pop("userData", None)
    login = profile["osProfile"]
    for secret in ("adminPassword", "customData"):
        login.pop(secret, None)
    login.setdefault("computerNamePrefix", name)
    login.setdefault("secrets", [])
    login.setdefault("allowExtensionOperations", True)
    login["requireGuestProvisionSignal"] = True
    login.setdefault("linuxConfiguration", {}).setdefault("provisionVMAgent", True)
    disk = profile["storageProfile"].setdefault("osDisk", {})
    disk.setdefault("createOption", "FromImage")
    disk.setdefault("osType", "Linux")
    disk.setdefault("caching", "ReadWrite")
    disk.setdefault("diskSizeGB", 64)
    disk.setdefault("managedDisk", {}).setdefault("storageAccountType", "Premium_LRS")
    for number, interface in enumerate(profile["networkProfile"]["networkInterfaceConfigurations"]):
        own = interface["properties"]
        own.setdefault("primary", number == 0)
        own.setdefault("enableAcceleratedNetworking", False)
        own.setdefault("enableIPForwarding", False)
        own.setdefault("dnsSettings", {"dnsServers": []})
        for place, configuration in enumerate(own["ipConfigurations"]):
            configuration["properties"].setdefault("primary", place == 0)
            configuration["properties"].setdefault("privateIPAddressVersion", "IPv4")
