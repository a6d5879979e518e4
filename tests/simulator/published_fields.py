# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes published_fields.json, the fields of Azure's published examples.

    python -m simulator.published_fields CHECKOUT > tests/simulator/published_fields.json

CHECKOUT is a folder with Azure/azure-rest-api-specs, or with only the files below. This repository does not contain the
examples themselves, only the names of their fields and their sources.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simulator.published import Tree, merge, tree

REPOSITORY = "https://github.com/Azure/azure-rest-api-specs"
COMPUTE = "specification/compute/resource-manager/Microsoft.Compute/ComputeRP/stable/2024-11-01/examples"
NETWORK = "specification/network/resource-manager/Microsoft.Network/stable/2021-02-01/examples"
SECRETS = "specification/keyvault/data-plane/Microsoft.KeyVault/stable/7.4/examples"
IMPACTS = "specification/impact/resource-manager/Microsoft.Impact/Impact/examples/2025-01-01-preview"
VAULTS = "specification/keyvault/resource-manager/Microsoft.KeyVault/stable/2019-09-01/examples"
IDENTITIES = "specification/msi/resource-manager/Microsoft.ManagedIdentity/ManagedIdentity/examples/2024-11-30"
ROLES = "specification/authorization/resource-manager/Microsoft.Authorization/stable/2022-04-01/examples"
STORAGE = "specification/storage/resource-manager/Microsoft.Storage/stable/2023-01-01/examples"
RESOURCES = "specification/resources/resource-manager/Microsoft.Resources/stable/2024-03-01/examples"
SECRETS_COMMIT = "406a1f36a26f93eb601666296b8f225e8eee0444"
NETWORK_COMMIT = "e729721df20047dcb4fdb675d234b6821f1a4f81"


@dataclass(frozen=True)
class Example:
    """A published example's answer."""

    path: str
    commit: str
    within: str = ""
    """The selected part of the answer, as a dotted path. A list stands for all of its items."""
    below: str = ""
    """Where that part is in the kind of resource."""


SET_VM_LIST = Example(
    f"{COMPUTE}/virtualMachineScaleSetExamples/VirtualMachineScaleSetVM_List_MaximumSet_Gen.json",
    "a1d2b12b47f4597cd85fe70a2956897e3a2a7717",
    "value",
)
SET_VM_GET = Example(
    f"{COMPUTE}/virtualMachineScaleSetExamples/VirtualMachineScaleSetVM_Get_WithUserData.json",
    "c7694c0d55649ff6c8e19dfb418b4f3d6a01cde6",
)
SET_LIST = Example(
    f"{COMPUTE}/virtualMachineScaleSetExamples/VirtualMachineScaleSet_ListAll_MaximumSet_Gen.json",
    "74419ba36feae532f5e76b2e8610437fc4cc07c9",
    "value",
)
SET_VIEW = Example(
    f"{COMPUTE}/virtualMachineScaleSetExamples/VirtualMachineScaleSet_GetInstanceView_MaximumSet_Gen.json",
    "bcfc354a18191f9e3a9c5127b32f1a075a7c207b",
)
VM_LIST = Example(
    f"{COMPUTE}/virtualMachineExamples/VirtualMachine_ListAll_MaximumSet_Gen.json",
    "91785a4af396a66765626bfd99889ff3d8eb0ab5",
    "value",
)
VM_VIEW = "virtualMachineExamples/VirtualMachine_Get_InstanceView.json", "31c65e1b80195ae589bc7f4b3d9a0c850c668b3c"
VM_VIEW_BELOW = Example(f"{COMPUTE}/{VM_VIEW[0]}", VM_VIEW[1], below="properties.instanceView")

KINDS: dict[str, list[Example]] = {
    "scale_set": [SET_LIST],
    "scale_set_view": [SET_VIEW],
    "uniform_instance": [SET_VM_LIST, SET_VM_GET],
    "uniform_view": [Example(SET_VM_LIST.path, SET_VM_LIST.commit, "value.properties.instanceView")],
    "machine": [VM_LIST, VM_VIEW_BELOW],
    "machine_status": [VM_LIST, VM_VIEW_BELOW],
    "machine_view": [Example(f"{COMPUTE}/{VM_VIEW[0]}", VM_VIEW[1])],
    "interface": [Example(f"{NETWORK}/NetworkInterfaceListAll.json", NETWORK_COMMIT, "value")],
    "set_interface": [Example(f"{NETWORK}/VmssNetworkInterfaceList.json", NETWORK_COMMIT, "value")],
    "public_address": [Example(f"{NETWORK}/PublicIpAddressListAll.json", NETWORK_COMMIT, "value")],
    "set_public_address": [Example(f"{NETWORK}/VmssPublicIpListAll.json", NETWORK_COMMIT, "value")],
    "secret": [
        Example(f"{SECRETS}/GetSecret-example.json", SECRETS_COMMIT),
        Example(f"{SECRETS}/SetSecret-example.json", SECRETS_COMMIT),
    ],
    "workload_impact": [
        Example(f"{IMPACTS}/WorkloadImpacts_Create_MaximumSet_Gen.json", "cd1a17dc3f61db6c461fbe5f952f872d98556b39")
    ],
    "security_group": [Example(f"{NETWORK}/NetworkSecurityGroupGet.json", "c2e7068307e9e1d684c3e6b5b856b0594fe718c2")],
    "nat_gateway": [Example(f"{NETWORK}/NatGatewayGet.json", "96125316b83dfc7039e03c13f5b491df246ff3a3")],
    "key_vault": [Example(f"{VAULTS}/createVault.json", "01204bda9f55136fd55bbd828508b84aa4543f76")],
    "vault_secret": [Example(f"{VAULTS}/createSecret.json", "5e5932dec688254b03c51c9e18b0435358111ec8")],
    "identity": [Example(f"{IDENTITIES}/IdentityGet.json", "b2f7419737799f321a271e9327d0b18417eed538")],
    "role_assignment": [Example(f"{ROLES}/RoleAssignments_Get.json", "8cfbb5f3f32f88e73d0e4735a7af45057777833a")],
    "storage_account": [
        Example(f"{STORAGE}/StorageAccountGetProperties.json", "133a5115433f072b7c56c482be5549c9eccce28f")
    ],
    "deployment": [
        Example(
            f"{RESOURCES}/PutDeploymentWithOnErrorDeploymentSpecificDeployment.json",
            "d8dd019d6f841add83b66e77f7e1eeb16cda355d",
        )
    ],
    "what_if": [
        Example(f"{RESOURCES}/PostDeploymentWhatIfOnResourceGroup.json", "3873f33d7b91f28c55d7c98b6eb7da8aa5a5bda4")
    ],
    "virtual_network": [Example(f"{NETWORK}/VirtualNetworkListAll.json", NETWORK_COMMIT, "value")],
}


def fields(checkout: Path, example: Example) -> Tree:
    """The fields of one example."""
    document = json.loads((checkout / example.path).read_text(encoding="utf-8"))
    found = tree(_within(document["responses"]["200"]["body"], example.within))
    for part in reversed(example.below.split(".") if example.below else []):
        found = {part: found}
    return found


def collect(checkout: Path) -> dict[str, Any]:
    """The document of all kinds."""
    kinds: dict[str, Any] = {}
    for kind, examples in KINDS.items():
        found: Tree = {}
        for example in examples:
            merge(found, fields(checkout, example))
        kinds[kind] = {
            "sources": [{key: value for key, value in asdict(example).items() if value} for example in examples],
            "fields": found,
        }
    return {"repository": REPOSITORY, "kinds": kinds}


def main() -> int:
    """Print the document for a checkout."""
    if len(sys.argv) != 2:
        sys.stderr.write(f"usage: python -m simulator.published_fields CHECKOUT   (of {REPOSITORY})\n")
        return 3
    json.dump(collect(Path(sys.argv[1])), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
    return 0


def _within(value: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        value = [item[part] for item in value if part in item] if isinstance(value, list) else value[part]
    return value


if __name__ == "__main__":
    raise SystemExit(main())
