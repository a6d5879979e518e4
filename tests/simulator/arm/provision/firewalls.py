# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firewalls of key vaults and storage accounts: rules for subnets."""

from __future__ import annotations

from simulator.arm.errors import ArmError
from simulator.arm.provision.kinds import Change

_LACKS_ENDPOINT = "SubnetsHaveNoServiceEndpointsConfigured"
_ERRORS = {
    # As in hashicorp/terraform-provider-azurerm issue 11759 and Azure/azure-cli issue 32434.
    "Microsoft.KeyVault": (
        "VirtualNetworkNotValid",
        f"Operation on Virtual Network could not be performed. StatusCode: 400 (BadRequest). Error Code: "
        f"{_LACKS_ENDPOINT}. Error Message: ",
    ),
    "Microsoft.Storage": ("NetworkAclsValidationFailure", f"Validation of network acls failure: {_LACKS_ENDPOINT}:"),
}


def check_subnets(change: Change) -> None:
    """Raise ArmError if a rule is for a subnet without a service endpoint for the resource that has the rule.

    Azure finds this when it makes the resource, not in the validation of a deployment.
    """
    if change.dry:
        return
    service = change.target.kind.partition("/")[0]
    lacking: dict[str, list[str]] = {}
    for rule in (change.properties.get("networkAcls") or {}).get("virtualNetworkRules") or []:
        subnet = change.resource(rule["id"])
        if subnet is None or rule.get("ignoreMissingVnetServiceEndpoint"):
            continue
        endpoints = [item["service"].lower() for item in subnet["properties"].get("serviceEndpoints") or []]
        if service.lower() not in [item.removesuffix(".global") for item in endpoints]:
            network, _subnets, name = rule["id"].rsplit("/", 2)
            lacking.setdefault(network, []).append(name)
    for network, names in lacking.items():
        code, begin = _ERRORS[service]
        raise ArmError(
            400,
            code,
            f"{begin}Subnets {', '.join(names)} of virtual network {network} do not have ServiceEndpoints for "
            f"{service} resources configured. Add {service} to subnet's ServiceEndpoints collection before trying to "
            f"ACL {service} resources to these subnets..",
        )
