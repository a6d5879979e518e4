#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: azure_stack
short_description: Make, change and delete the Azure resources of one cluster
version_added: "0.2.0"
description:
  - Makes network, identities, key vault, storage, controller, login nodes and scale sets of one cluster, or changes
    them until they are as O(stack) describes. Together, these resources are called the stack. The module compares only
    what O(stack) sets, so a second run changes nothing.
  - The module does not change what others manage. It ignores the capacity and the instances of an existing scale set,
    tags that O(stack) does not set, and subnets and address ranges that it did not make. In the network security group
    (NSG), it ignores rules whose names do not start with C(hpcai-).
  - Sends one incremental deployment with what is missing or differs. Before that, Azure validates the deployment and
    returns a preview. If the preview shows that something would be deleted, the module fails. Existing machines and
    scale sets get only the fields that differ, never the complete resource.
  - After an error, the module records what was made. The next run continues from there.
  - Each resource that the module makes gets the tag C(hpcai_stack), with the name and the id of the stack. The module
    also lists these resources in a record, which is the output of a deployment in the resource group.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-resource-deployments >= 2.0.0
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  state:
    description:
      - V(present) makes what is missing, and changes what differs.
      - V(planned) changes nothing in Azure, and returns what V(present) would do. Like V(present), it writes the files
        of O(export_to) and O(inventory_to).
      - V(absent) deletes what the module made. A resource is deleted only if it is recorded, still has the tag, and is
        still the same resource. Machines and scale sets are compared by their C(vmId) or C(uniqueId). Data disks, and
        storage accounts that are not certainly empty, stay unless O(data) lists them. If a management lock forbids the
        deletion, the module fails and deletes nothing.
      - With V(absent), the module does not check for jobs. The playbook C(hpcai.azure.teardown) does this.
    type: str
    choices: [present, planned, absent]
    default: present
  subscription_id:
    description: Id of the subscription.
    type: str
    required: true
  stack:
    description:
      - The description of the stack. P(hpcai.azure.provision#role) documents all keys, as C(hpcai_stack).
    type: dict
    required: true
  export_to:
    description:
      - File into which the module writes the full template of Azure Resource Manager. Teams that do not let this module
        make resources can deploy the template with their own tools. The munge key is a parameter of the template, so no
        file contains it.
      - Deploy the template once. B(A second deployment deletes all instances of the scale sets), because it sets their
        capacity to 0. It also stores another munge key, and removes subnets and rules that others have added.
    type: path
  inventory_to:
    description:
      - Folder into which the module writes two files. C(azure_vmss.yml) is the inventory of the stack's machines.
        C(group_vars/all/hpcai_stack.yml) sets variables of the roles to values that follow from the stack.
    type: path
  data:
    description:
      - With O(state=absent), names of storage accounts and data disks that may be deleted with their data.
      - Other data disks and storage accounts stay, except a storage account that certainly contains nothing. To find
        this out, the identity needs the role C(Storage Blob Data Reader) on the account, and the account's firewall
        must admit the control node. Otherwise the account stays. Old versions, snapshots and deleted
        blobs that Azure still keeps count as content.
    type: list
    elements: str
    default: []
  purge_vault:
    description:
      - With O(state=absent), whether to purge the deleted key vault. If V(true), the vault's name is free at once, and
        its secrets are lost. If V(false), Azure keeps the vault with its secrets, and blocks its name, until the
        retention period ends.
    type: bool
    default: false
  timeout:
    description:
      - Timeout in seconds for the entire run, including Azure's work. After the timeout, a running deployment continues
        in Azure.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Only reads, and reports what would be made, changed or deleted.
    support: full
  diff_mode:
    description: Shows one line for each new resource, and for each field that differs.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
seealso:
  - module: hpcai.azure.azure_stack_info
"""

EXAMPLES = r"""
- name: Make the smallest cluster
  hpcai.azure.azure_stack:
    subscription_id: 11111111-2222-3333-4444-555555555555
    stack:
      name: training
      location: swedencentral
      ssh_public_keys: ["{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"]
      network:
        ssh_from: [192.0.2.0/24]
      scale_sets:
        - vm_size: Standard_ND96asr_v4
          max: 16
          image: microsoft-dsvm:ubuntu-hpc:2204:22.04.2025041101
    inventory_to: inventory

- name: Write the template for the team that deploys
  hpcai.azure.azure_stack:
    state: planned
    subscription_id: 11111111-2222-3333-4444-555555555555
    stack: "{{ hpcai_stack }}"
    export_to: training.json

- name: Use an existing network and a central vault
  hpcai.azure.azure_stack:
    subscription_id: 11111111-2222-3333-4444-555555555555
    stack:
      name: training
      location: swedencentral
      ssh_public_keys: "{{ keys }}"
      network:
        adopt: "{{ hub }}/virtualNetworks/spoke-hpc"
        subnets: {cluster: services, compute: batch}
      key_vault:
        adopt: "{{ central_vault_id }}"
      controller:
        private_ip: 10.1.0.9
      scale_sets: "{{ sets }}"

- name: Delete what the stack made, including the data in one account
  hpcai.azure.azure_stack:
    state: absent
    subscription_id: 11111111-2222-3333-4444-555555555555
    stack: "{{ hpcai_stack }}"
    data: [trainingdata]
"""

RETURN = r"""
changes:
  description:
    - Resources that the module made or changed. In check mode and with O(state=planned), the resources that it would
      make or change.
  returned: O(state=present) and O(state=planned)
  type: list
  elements: dict
  contains:
    resource:
      description: Resource id.
      type: str
    label:
      description: Short type and name.
      type: str
    action:
      description:
        - C(create), C(update) or C(patch). C(create) makes a resource. C(update) sends an existing resource completely,
          as part of the deployment. C(patch) is a separate request with only the fields that differ.
      type: str
    fields:
      description: The fields that differ.
      type: list
      elements: str
  sample:
    - resource: "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/training/providers/\
        Microsoft.Network/networkSecurityGroups/training-nsg"
      label: networkSecurityGroups/training-nsg
      action: update
      fields: ["properties.securityRules[hpcai-ssh].properties.sourceAddressPrefixes"]
pending:
  description: Whether the stack differed from the description when the run began.
  returned: O(state=present) and O(state=planned)
  type: bool
  sample: true
notes:
  description:
    - What the operator should know, for example that a machine was replaced by another machine of the same name.
  returned: success
  type: list
  elements: str
  sample: []
files:
  description: Files that the module wrote. In check mode, the files that it would write.
  returned: O(state=present) and O(state=planned)
  type: list
  elements: str
  sample: [inventory/azure_vmss.yml]
owner:
  description: The value of the tag C(hpcai_stack).
  returned: success
  type: str
  sample: training/8c1b8a0e-3f5e-5f0c-9d0f-6d7f3f0a6a11
role_assignments:
  description:
    - Commands for the role assignments that the stack needs, but that the module does not create. The module creates no
      role assignments for adopted resources (used by the stack, but not made by the module). If
      C(identities.assign_roles) of O(stack) is false, the module creates no role assignments at all.
  returned: O(state=present) and O(state=planned)
  type: list
  elements: str
  sample: []
endpoints:
  description:
    - Addresses and ids that users and other tools need. C(controller) is the private address of the controller.
      C(login) lists the public addresses of the login nodes, or of the controller if there are no login nodes.
    - C(bastion) is the id of Azure Bastion, and C(storage) the URL of the storage account. Each is empty if the stack
      has none. C(key_vault) is the URL of the key vault. C(scale_sets) maps the names of scale sets to their ids.
  returned: O(state=present) and O(state=planned)
  type: dict
  sample:
    controller: 10.42.0.4
    login: [203.0.113.7]
    bastion: ""
    key_vault: https://training-8c1b8a0e.vault.azure.net
    storage: https://training8c1b8a0e.blob.core.windows.net
    scale_sets: {}
inventory:
  description: The inventory of the stack's machines, which the module also writes to O(inventory_to).
  returned: O(state=present) and O(state=planned)
  type: dict
  sample: {plugin: hpcai.azure.azure_vmss, resource_groups: [training]}
variables:
  description: Variables of the roles, with values that follow from the stack.
  returned: O(state=present) and O(state=planned)
  type: dict
  sample: {hpcai_key_source: key_vault}
deleted:
  description: Ids of the resources that the module deleted. In check mode, the ids of those that it would delete.
  returned: O(state=absent)
  type: list
  elements: str
  sample: []
stays:
  description: The resources that were not deleted, each with the reason.
  returned: O(state=absent)
  type: list
  elements: str
  sample: ["disks/thesis stays: the stack did not make it"]
controller:
  description: Resource id of the controller, whether or not it exists.
  returned: O(state=absent)
  type: str
  sample: "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/training/providers/\
    Microsoft.Compute/virtualMachines/training-controller"
requests:
  description: Number of requests. C(reads) counts those that only read, C(writes) those that changed something.
  returned: success
  type: dict
  sample: {reads: 31, writes: 0}
"""
