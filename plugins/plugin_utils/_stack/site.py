# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What comes after provisioning: the inventory and the variables for ``site.yml``, as data and as files. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from . import resource as kinds
from .desired import tenant_ids
from .machines import HOME
from .model import AMLFS, AZURE_FILES, COMPUTE, CONTROLLER_NFS, PUBLIC, TAG, ScaleSet, Stack, Suffixes
from .names import Names

INVENTORY = "azure_vmss.yml"
"""The inventory's file below the folder that the user names."""
VARIABLES = "group_vars/all/hpcai_stack.yml"
"""The variables' file below the same folder."""
_HEADER = "# hpcai.azure.provision writes this file from hpcai_stack. Changes are overwritten.\n---\n"


def inventory_of(stack: Stack, connection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inventory source of the stack's machines.

    :param connection: connection options, without secrets; those that are None are left out.
    """
    public = stack.network.access == PUBLIC
    return {
        "plugin": "hpcai.azure.azure_vmss",
        **{key: value for key, value in connection.items() if value is not None},
        "subscription_ids": [stack.subscription],
        "resource_groups": [stack.group.name],
        "include_vms": "tagged",
        "tags": {"hpcai_cluster": stack.name},
        "connect_with": ["public_ipv4", "private_ipv4"] if public else ["private_ipv4"],
    }


def variables_of(stack: Stack, found: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return the variables of the roles that follow from the stack.

    :param found: Azure's answers by lower-case id.
    """
    names = Names(stack)
    variables: dict[str, Any] = {
        "hpcai_key_source": "key_vault",
        "hpcai_key_vault": f"https://{stack.key_vault.name.lower()}.{stack.suffixes.vault}",
        "hpcai_key_secret": stack.key_vault.secret,
        **_identity(stack, names, found),
    }
    home = stack.shared_home
    if home.source == CONTROLLER_NFS:
        variables["shared_fs_exports"] = [{"path": HOME}]
        subnet = _subnet_range(stack, found.get(names.network.lower()))
        if subnet:
            variables["shared_fs_networks"] = ["local", subnet]
    elif home.source == AZURE_FILES:
        source = f"{home.name}.file.{stack.suffixes.storage}:/{home.name}/home"
        options = ["vers=4", "minorversion=1", "sec=sys", "nconnect=4"]
        variables["shared_fs_mounts"] = [{"path": HOME, "source": source, "options": options}]
    elif home.source == AMLFS:
        client = ((found.get(home.adopt.lower()) or {}).get("properties") or {}).get("clientInfo") or {}
        source = f"{client.get('mgsAddress', 'unknown')}@tcp:/{client.get('lustreFileSystem', 'lustrefs')}"
        variables["shared_fs_mounts"] = [{"path": HOME, "source": source, "type": "lustre"}]
    if home.source in (CONTROLLER_NFS, AZURE_FILES, AMLFS):
        variables["slurm_user_home_base"] = f"{HOME}/home"
    # Without an elastic set too: site.yml then removes the daemon, if a set was elastic before.
    elastic = {one.name: _elastic(one, names) for one in stack.scale_sets if one.elastic is not None}
    variables["hpcai_elastic"] = elastic
    if elastic and stack.suffixes.manager != Suffixes.manager:
        variables["elastic_endpoint"] = stack.suffixes.manager
    return variables


def _identity(stack: Stack, names: Names, found: Mapping[str, Mapping[str, Any] | None]) -> dict[str, str]:
    """Return which identity a machine uses; empty until the identities exist.

    Machines of the same cluster that the stack did not make have identities of their own.
    """
    clients = tenant_ids(stack, "", found).clients
    if not {names.controller_identity, names.nodes_identity} <= clients.keys():
        return {}
    return {
        "hpcai_identity_client_id": (
            f"{{{{ '' if (azure_tags | default({{}}, true)).{TAG} | default('') != '{stack.owner}'"
            f" else '{clients[names.controller_identity]}' if 'hpcai_controller' in group_names"
            f" else '{clients[names.nodes_identity]}' }}}}"
        )
    }


def _elastic(one: ScaleSet, names: Names) -> dict[str, Any]:
    """Return the settings of an elastic scale set, as the role ``elastic`` has them."""
    fixed = {"id": names.of(kinds.SCALE_SET, one.name), "vm_size": one.vm_size, "max": one.max}
    return {**fixed, **({"spot": True} if one.is_spot else {}), **(one.elastic or {})}


def files_of(inventory: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the content of the files by their paths below the user's folder."""
    return {INVENTORY: _as_file(inventory), VARIABLES: _as_file(variables)}


def _subnet_range(stack: Stack, network: Mapping[str, Any] | None) -> str:
    """Return the range of the compute nodes, from which they mount before a playbook has run on them."""
    if not stack.network.adopt:
        return stack.network.subnets[COMPUTE]
    for item in ((network or {}).get("properties") or {}).get("subnets") or []:
        if str(item.get("name")).lower() == stack.network.subnets[COMPUTE].lower():
            properties = item.get("properties") or {}
            return str(properties.get("addressPrefix") or next(iter(properties.get("addressPrefixes") or []), ""))
    return ""


def _as_file(content: Mapping[str, Any]) -> str:
    # Ansible's texts carry tags, which YAML cannot represent.
    plain = json.loads(json.dumps(content))
    return _HEADER + yaml.safe_dump(plain, sort_keys=False, default_flow_style=False)


def endpoints_of(stack: Stack, found: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return addresses and ids that users and other tools need.

    :param found: Azure's answers by lower-case id.
    """
    names = Names(stack)
    addresses = []
    machines = [names.login(number) for number in range(1, stack.login.count + 1)] or [names.controller]
    for machine in machines:
        answer = found.get(names.address(machine).lower()) or {}
        address = (answer.get("properties") or {}).get("ipAddress")
        addresses += [address] if address else []
    return {
        "controller": stack.controller.private_ip,
        "login": addresses,
        "bastion": names.bastion if found.get(names.bastion.lower()) else "",
        "key_vault": f"https://{stack.key_vault.name.lower()}.{stack.suffixes.vault}",
        "storage": f"https://{stack.storage.name}.blob.{stack.suffixes.storage}" if stack.storage.containers else "",
        "scale_sets": {one.name: names.of(kinds.SCALE_SET, one.name) for one in stack.scale_sets},
    }
