# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The initial resources of a simulator, read from a YAML file or built by a test."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from simulator import userdata

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
RESOURCE_GROUP = "hpcai-sim"
LOCATION = "southcentralus"
RANGE = "10.77.0.0/16"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
VAULT_NAME = re.compile(r"[A-Za-z](?!.*--)[A-Za-z0-9-]{1,22}[A-Za-z0-9]")
RESOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ScenarioError(Exception):
    """A message of one line: where the scenario is wrong, and why."""


@dataclass(frozen=True)
class Hardware:
    """The real hardware of a machine. Its VM size is only a name."""

    cpus: int = 1
    memory_mib: int = 1024
    local_disks: bool = False


@dataclass(frozen=True)
class Image:
    """The image reference of instances."""

    publisher: str = "microsoft-dsvm"
    offer: str = "ubuntu-hpc"
    sku: str = "2204"
    version: str = "latest"
    exact_version: str = "22.04.2025091101"
    id: str = ""
    """The id of a gallery's version. It replaces publisher, offer, sku and version."""

    def reference(self) -> dict[str, str]:
        """imageReference as Resource Manager returns it for a scale set's model."""
        if self.id:
            return {"id": self.id}
        return {"publisher": self.publisher, "offer": self.offer, "sku": self.sku, "version": self.version}


@dataclass(frozen=True)
class NetworkScenario:
    """A virtual network with one subnet."""

    name: str = "sim"
    address_prefixes: tuple[str, ...] = ("10.77.0.0/24",)
    subnet: str = "nodes"
    subnet_prefix: str = ""
    resource_group: str = RESOURCE_GROUP
    location: str = LOCATION

    def __post_init__(self) -> None:
        if not self.subnet_prefix and self.address_prefixes:
            object.__setattr__(self, "subnet_prefix", self.address_prefixes[0])


@dataclass(frozen=True)
class MachineScenario:
    """A stand-alone virtual machine."""

    name: str
    vm_size: str = "Standard_D4s_v5"
    computer_name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    public_ip: bool = False
    private_ipv4: str | None = None
    priority: str | None = None
    network: str = ""
    resource_group: str = RESOURCE_GROUP
    location: str = LOCATION
    accelerated_networking: bool = True
    image: Image = Image()
    hardware: Hardware = Hardware()
    user_data: str = ""
    """Text, or a mapping that becomes JSON; see simulator.userdata for its placeholders."""
    identity: bool = True
    """Whether machines have a system-assigned managed identity."""
    client_ids: tuple[str, ...] = ()
    """Client ids of additional user-assigned identities."""
    boot_diagnostics: bool = True
    """Whether Azure keeps the log of the serial console, in storage that it manages."""


@dataclass(frozen=True)
class ScaleSetScenario:
    """A scale set and the instances that it starts with."""

    name: str
    vm_size: str = "Standard_ND96asr_v4"
    capacity: int = 0
    orchestration_mode: str = "Uniform"
    computer_name_prefix: str = ""
    instance_ids: tuple[int, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    instance_tags: Mapping[str, str] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    fault_domains: int = 1
    single_placement_group: bool = True
    priority: str | None = None
    public_ip: bool = False
    network: str = ""
    resource_group: str = RESOURCE_GROUP
    location: str = LOCATION
    accelerated_networking: bool = True
    image: Image = Image()
    hardware: Hardware = Hardware()
    user_data: str = ""
    """Text, or a mapping that becomes JSON; see simulator.userdata for its placeholders."""
    identity: bool = True
    """Whether machines have a system-assigned managed identity."""
    client_ids: tuple[str, ...] = ()
    """Client ids of additional user-assigned identities."""
    boot_diagnostics: bool = True
    """Whether Azure keeps the log of the serial console, in storage that it manages."""


@dataclass(frozen=True)
class VaultScenario:
    """A key vault."""

    name: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values by name; ``generated`` becomes a text of 128 random letters and digits."""
    keys: tuple[str, ...] = ()
    """Names of RSA keys, which the readers may use to sign."""
    readers: tuple[str, ...] = ("*",)
    """Machines and scale sets whose identity may read secrets."""
    writers: tuple[str, ...] = ()
    """Machines and scale sets whose identity may write secrets."""


@dataclass(frozen=True)
class Scenario:
    """One subscription with its resources."""

    name: str = "simulator"
    port: int = 0
    subscription: str = SUBSCRIPTION
    admin_username: str = "azureuser"
    virtual_networks: tuple[NetworkScenario, ...] = (NetworkScenario(),)
    virtual_machines: tuple[MachineScenario, ...] = ()
    scale_sets: tuple[ScaleSetScenario, ...] = ()
    key_vaults: tuple[VaultScenario, ...] = ()
    range: str = ""
    """The addresses of all real machines. Without virtual networks it is needed; otherwise the first subnet."""
    hardware: Hardware = Hardware(memory_mib=2048)
    """The real hardware of machines that a PUT makes. Those of sizes with GPUs also have local disks."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Quotas, restrictions, images, rights and policies of the subscription: see simulator.limits."""

    def __post_init__(self) -> None:
        if not self.range:
            networks = self.virtual_networks
            object.__setattr__(self, "range", networks[0].subnet_prefix if networks else RANGE)
        _check(self)


Kind = TypeVar("Kind")
NESTED: dict[str, type[Any]] = {
    "image": Image,
    "hardware": Hardware,
    "virtual_networks": NetworkScenario,
    "virtual_machines": MachineScenario,
    "scale_sets": ScaleSetScenario,
    "key_vaults": VaultScenario,
}


def load(path: Path) -> Scenario:
    """The scenario in a YAML file."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"cannot read the scenario {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path} is not YAML: {str(error).splitlines()[0]}") from error
    try:
        return parse(document)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error


def moved(scenario: Scenario, network: str) -> Scenario:
    """The scenario with other addresses for its only virtual network, so that several can run on one machine."""
    if not scenario.virtual_networks:
        return replace(scenario, range=network)
    if len(scenario.virtual_networks) != 1:
        raise ScenarioError(f"the scenario {scenario.name} must have exactly one virtual network to move to {network}")
    there = replace(scenario.virtual_networks[0], address_prefixes=(network,), subnet_prefix=network)
    return replace(scenario, virtual_networks=(there,), range=network)


def parse(document: Any) -> Scenario:
    """The scenario that a document of plain dictionaries and lists describes."""
    return _build(Scenario, document, "scenario")


def _build(kind: type[Kind], document: Any, where: str) -> Kind:
    if not isinstance(document, Mapping):
        raise ScenarioError(f"{where} must be a mapping, not {type(document).__name__}")
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in document.items():
        if key not in known:
            raise ScenarioError(f"{where}: unknown key {key!r}; known are {', '.join(sorted(known))}")
        values[key] = _value(str(known[key].type), key, value, f"{where}.{key}")
    if "name" in known and not values.get("name", "-"):
        raise ScenarioError(f"{where}.name must not be empty")
    try:
        return kind(**values)
    except TypeError:
        raise ScenarioError(f"{where}: 'name' is missing") from None


def _value(wanted: str, key: str, value: Any, where: str) -> Any:
    """``value`` checked against the annotation of its field."""
    if key in NESTED and isinstance(value, NESTED[key]):
        return value
    if key == "user_data" and isinstance(value, Mapping):
        return userdata.text_of(value)
    if key in ("image", "hardware"):
        return _build(NESTED[key], value, where)
    if wanted.startswith("tuple["):
        if not isinstance(value, list | tuple):
            raise ScenarioError(f"{where} must be a list, not {type(value).__name__}")
        if key in NESTED:
            return tuple(
                item if isinstance(item, NESTED[key]) else _build(NESTED[key], item, f"{where}[{number}]")
                for number, item in enumerate(value)
            )
        inner = int if "int" in wanted else str
        if not all(isinstance(item, inner) for item in value):
            raise ScenarioError(f"{where} must be a list of {inner.__name__}")
        return tuple(value)
    if wanted.startswith("Mapping"):
        any_values = key == "limits" and isinstance(value, Mapping)
        if not any_values and not _is_text(value):
            raise ScenarioError(f"{where} must be a mapping of strings (quote numbers and booleans)")
        return dict(value)
    if value is None and "None" in wanted:
        return None
    plain = {"int": int, "bool": bool}.get(wanted, str)
    if not isinstance(value, plain) or (plain is int and isinstance(value, bool)):
        raise ScenarioError(f"{where} must be {plain.__name__}, not {value!r}")
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())


def _check(scenario: Scenario) -> None:
    if not NAME.fullmatch(scenario.name):
        raise ScenarioError(f"name {scenario.name!r} must be lower-case letters, digits and dashes, 32 at most")
    if not scenario.virtual_networks and (scenario.virtual_machines or scenario.scale_sets):
        raise ScenarioError("virtual_networks must hold at least one network for the machines")
    for network in scenario.virtual_networks:
        _check_network(network)
    _check_range(scenario.range)
    _check_names(scenario)
    for scale_set in scenario.scale_sets:
        _check_scale_set(scale_set)
    for vault in scenario.key_vaults:
        if not VAULT_NAME.fullmatch(vault.name):
            raise ScenarioError(f"key_vaults {vault.name!r}: 3 to 24 letters, digits and dashes, a letter first")
    _check_user_data(scenario)


def _check_range(prefix: str) -> None:
    try:
        small = ipaddress.IPv4Network(prefix).prefixlen > 28
    except ValueError as error:
        raise ScenarioError(f"range: {error}") from None
    if small:
        raise ScenarioError(f"range: {prefix} is too small, take a /28 or larger")


def _check_network(network: NetworkScenario) -> None:
    try:
        subnet = ipaddress.IPv4Network(network.subnet_prefix)
        inside = any(subnet.subnet_of(ipaddress.IPv4Network(prefix)) for prefix in network.address_prefixes)
    except ValueError as error:
        given = ", ".join([*network.address_prefixes, network.subnet_prefix]) or "nothing"
        raise ScenarioError(f"virtual_networks {network.name!r}: no IPv4 networks in {given}: {error}") from None
    if not inside:
        raise ScenarioError(
            f"virtual_networks {network.name!r}: subnet_prefix {network.subnet_prefix} lies in none of "
            f"{', '.join(network.address_prefixes)}"
        )
    if subnet.prefixlen > 28:
        raise ScenarioError(f"virtual_networks {network.name!r}: {subnet} is too small, take a /28 or larger")


def _check_names(scenario: Scenario) -> None:
    networks = [network.name for network in scenario.virtual_networks]
    resources: tuple[MachineScenario | ScaleSetScenario, ...] = scenario.virtual_machines + scenario.scale_sets
    for kind, names in (
        ("virtual_networks", networks),
        ("virtual_machines", [f"{item.resource_group}/{item.name}".lower() for item in scenario.virtual_machines]),
        ("scale_sets", [f"{item.resource_group}/{item.name}".lower() for item in scenario.scale_sets]),
    ):
        for name in names:
            if names.count(name) > 1:
                raise ScenarioError(f"{kind}: two are called {name!r}")
    for item in resources:
        if not RESOURCE_NAME.fullmatch(item.name):
            raise ScenarioError(f"{item.name!r} is not a resource name: letters, digits, '-', '_' and '.', 64 at most")
        if item.network and item.network not in networks:
            raise ScenarioError(f"{item.name!r}: no virtual network {item.network!r}; known are {', '.join(networks)}")


def _check_scale_set(scale_set: ScaleSetScenario) -> None:
    where = f"scale_sets {scale_set.name!r}"
    if scale_set.orchestration_mode not in ("Uniform", "Flexible"):
        raise ScenarioError(f"{where}: orchestration_mode must be Uniform or Flexible")
    if scale_set.capacity < 0:
        raise ScenarioError(f"{where}: capacity must not be negative")
    if scale_set.orchestration_mode == "Uniform" and scale_set.single_placement_group and scale_set.capacity > 100:
        raise ScenarioError(f"{where}: a single placement group has at most 100; set single_placement_group: false")
    if sorted(set(scale_set.instance_ids)) != list(scale_set.instance_ids):
        raise ScenarioError(f"{where}: instance_ids must ascend and not repeat")


def _check_user_data(scenario: Scenario) -> None:
    machines = {machine.name for machine in scenario.virtual_machines}
    holders: tuple[MachineScenario | ScaleSetScenario, ...] = scenario.virtual_machines + scenario.scale_sets
    for item in holders:
        _check_user_data_of(item, bool(scenario.key_vaults), machines)


def _check_user_data_of(item: MachineScenario | ScaleSetScenario, vaults: bool, machines: set[str]) -> None:
    if len(userdata.encode(item.user_data)) > userdata.LONGEST:
        raise ScenarioError(f"{item.name!r}: user_data is longer than the {userdata.LONGEST} bytes that Azure takes")
    for kind, name in userdata.placeholders(item.user_data):
        if kind == "vault" and not vaults:
            raise ScenarioError(f"{item.name!r}: user_data names {{vault}}, but there are no key_vaults")
        if kind == "address" and name not in machines:
            raise ScenarioError(f"{item.name!r}: user_data names {{address:{name}}}, but there is no such machine")
