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
    them until they are as described. Compares only what the description sets, so a second run changes nothing.
  - Neither compares nor sends what others own. These are the capacity of an existing scale set, its instances, foreign
    tags, rules of the NSG whose names do not start with C(hpcai-), foreign subnets and address ranges.
  - Sends one incremental deployment with what is missing or differs. Azure validates it first, and a preview that would
    delete something is refused. Existing machines and scale sets get only the fields that differ, never the complete
    resource.
  - After an error, what was made is recorded, and the next run goes on from there.
  - Each made resource has the tag C(hpcai_stack) with the name and the id of the stack, and is listed in a record,
    which is the output of a deployment in the resource group.
  - Always runs on the machine where Ansible runs, for any host of the task.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-resource-deployments >= 2.0.0
extends_documentation_fragment:
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  state:
    description:
      - V(present) makes what is missing, and changes what differs.
      - V(planned) only reads, and returns what V(present) would do. It writes O(export_to) and O(inventory_to).
      - V(absent) deletes what the stack made. A resource is deleted only if it is recorded, still has the tag, and
        still is the same resource (machines by their C(vmId) or C(uniqueId)). It refuses if a management lock forbids
        it. It does not check for jobs; the playbook C(hpcai.azure.teardown) does.
    type: str
    choices: [present, planned, absent]
    default: present
  subscription_id:
    description: Id of the subscription.
    type: str
    required: true
  stack:
    description:
      - The description. P(hpcai.azure.provision#role) documents all keys as C(hpcai_stack).
    type: dict
    required: true
  export_to:
    description:
      - File into which the module writes the full template of Azure Resource Manager, for teams that deploy themselves.
        The munge key is a parameter of the template, so that it is in no file.
    type: path
  inventory_to:
    description:
      - Folder into which the module writes C(azure_vmss.yml), the inventory of the stack's machines, and
        C(group_vars/all/hpcai_stack.yml), the variables of the roles that follow from the stack.
    type: path
  data:
    description:
      - With O(state=absent), names of storage accounts and data disks that may be deleted with their data. All others
        stay.
    type: list
    elements: str
    default: []
  purge_vault:
    description:
      - With O(state=absent), purge the deleted key vault, so that its name is free at once. Its secrets are lost.
    type: bool
    default: false
  timeout:
    description: Timeout in seconds, including Azure's work. After the timeout, a running deployment goes on in Azure.
    type: int
    default: 3600
attributes:
  action:
    description: Runs on the machine where Ansible runs, because the credentials are there.
    support: full
  check_mode:
    description: Reads, and reports what would be made, changed or deleted.
    support: full
  diff_mode:
    description: Shows one line for each new resource, and for each field that differs.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
  platform:
    description: Nothing runs on a node.
    platforms: linux
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
  description: The resources that were made or changed, or in check mode would be.
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
      description: C(create), C(update) for a resource in the deployment, C(patch) for a request with what differs.
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
  description: What the operator should know, such as a machine that is not the one that the stack made.
  returned: success
  type: list
  elements: str
  sample: []
files:
  description: Files that were written, or in check mode would be.
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
  description: Commands for role assignments that the stack needs and does not write itself.
  returned: O(state=present) and O(state=planned)
  type: list
  elements: str
  sample: []
endpoints:
  description: Addresses and ids that users and other tools need.
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
  description: The inventory of the stack's machines, which O(inventory_to) writes to a file.
  returned: O(state=present) and O(state=planned)
  type: dict
  sample: {plugin: hpcai.azure.azure_vmss, resource_groups: [training]}
variables:
  description: The variables of the roles that follow from the stack.
  returned: O(state=present) and O(state=planned)
  type: dict
  sample: {hpcai_key_source: key_vault}
deleted:
  description: Ids of the resources that were deleted, or in check mode would be.
  returned: O(state=absent)
  type: list
  elements: str
  sample: []
stays:
  description: What was not deleted, and why.
  returned: O(state=absent)
  type: list
  elements: str
  sample: ["disks/thesis stays: the stack did not make it"]
requests:
  description: Number of reads, and of requests that changed something.
  returned: success
  type: dict
  sample: {reads: 31, writes: 0}
"""
