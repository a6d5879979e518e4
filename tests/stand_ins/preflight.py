# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster's needs, and answers of Azure with which every preflight check passes."""

from __future__ import annotations

from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.data import SECRETS_USER, Assignment
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.plan import Plan
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_facts import (
    Answer,
    Facts,
    Image,
    NameUse,
    Permission,
    Sku,
    SubnetUse,
    Usage,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_needs import (
    Machines,
    Needs,
    Subnet,
)

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hpc"
IMAGE = "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025010101"
COMPUTE_SUBNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/hpc-vnet/subnets/compute"
CLUSTER_SUBNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/hpc-vnet/subnets/cluster"
IDENTITY = f"{GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/hpc-nodes"
VAULT = f"{GROUP}/providers/Microsoft.KeyVault/vaults/hpc-vault"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/hpcdata"
GPU, CPU = "Standard_ND96asr_v4", "Standard_D8s_v5"
FAMILY = "standardNDASv4_A100Family"

COMPUTE = Machines("compute", GPU, 0, 4, is_set=True, zone="1", image=IMAGE, disk_gib=128, subnet=COMPUTE_SUBNET)
CONTROLLER = Machines("hpc-controller", CPU, image=IMAGE, disk_gib=128, subnet=CLUSTER_SUBNET)
ASSIGNMENT = Assignment(VAULT, IDENTITY, SECRETS_USER, foreign=False)


def needs(**changes: Any) -> Needs:
    """A controller, and a set of up to four nodes."""
    given: dict[str, Any] = {
        "subscription": SUBSCRIPTION,
        "group": "hpc",
        "location": "westeurope",
        "machines": (CONTROLLER, COMPUTE),
        "subnets": (Subnet(CLUSTER_SUBNET, "10.42.0.0/24"), Subnet(COMPUTE_SUBNET, "10.42.128.0/24")),
        "assignments": (ASSIGNMENT,),
        "actions": ("Microsoft.Compute/virtualMachineScaleSets/write", "Microsoft.Network/virtualNetworks/write"),
        "providers": ("Microsoft.Compute", "Microsoft.Network"),
        "names": {"hpc-vault": VAULT, "hpcdata": ACCOUNT},
        "resources": (VAULT, IDENTITY),
        "nat_gateways": 1,
        "public_addresses": 1,
    }
    return Needs(**{**given, **changes})


GPU_SKU = Sku(
    GPU,
    FAMILY,
    ("1", "2"),
    {
        "vCPUs": "96",
        "MemoryGB": "900",
        "GPUs": "8",
        "RdmaEnabled": "True",
        "HyperVGenerations": "V1,V2",
        "LowPriorityCapable": "True",
        "PremiumIO": "True",
        "EphemeralOSDiskSupported": "True",
        "CpuArchitectureType": "x64",
    },
)
CPU_SKU = Sku(
    CPU, "standardDSv5Family", ("1", "2", "3"), {**GPU_SKU.capabilities, "vCPUs": "8", "RdmaEnabled": "False"}
)


def usages(**changed: Usage) -> list[Usage]:
    """The quota; the family's name is spelt in another way than in the list of sizes."""
    rows = {
        "cores": Usage("cores", 0, 1000),
        "lowPriorityCores": Usage("lowPriorityCores", 0, 0),
        "gpu": Usage("Standard NDASv4_A100 Family", 0, 384),
        "cpu": Usage("standardDSv5Family", 0, 100),
        "machines": Usage("virtualMachines", 0, 25000),
    }
    return list({**rows, **changed}.values())


def facts(**changes: Any) -> Facts:
    """Answers for an empty subscription, with which every check passes."""
    given: dict[str, Any] = {
        "subscription": Answer("Enabled"),
        "usages": Answer(usages()),
        "skus": Answer([GPU_SKU, CPU_SKU]),
        "plan": Answer(Plan((), (), (), None)),
        "existing": Answer({}),
        "images": {IMAGE: Answer(Image("V2", "x64"))},
        "permissions": Answer([Permission(("*",))]),
        "providers": {name: Answer("Registered") for name in ("Microsoft.Compute", "Microsoft.Network")},
        "locks": Answer([]),
        "subnets": Answer({}),
        "names": {"hpc-vault": Answer(NameUse()), "hpcdata": Answer(NameUse())},
        "refusals": Answer([]),
    }
    return Facts(**{**given, **changes})


def full_subnet(used: float | None, limit: float | None) -> Answer[dict[str, SubnetUse]]:
    """Both subnets exist, and that of the set is this full."""
    return Answer({COMPUTE_SUBNET.lower(): SubnetUse(used, limit), CLUSTER_SUBNET.lower(): SubnetUse(1, 251)})
