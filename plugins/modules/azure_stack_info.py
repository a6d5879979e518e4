#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: azure_stack_info
short_description: Read which Azure resources of one cluster exist
version_added: "0.2.0"
description:
  - Reads which of the resources in the description exist in Azure, and their state. These are the resources that
    M(hpcai.azure.azure_stack) makes or adopts for the same description. Each resource needs about one request.
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
  subscription_id:
    description: Id of the subscription.
    type: str
    required: true
  stack:
    description:
      - The description of the stack. A stack is the Azure resources of one cluster. P(hpcai.azure.provision#role)
        documents all keys, as C(hpcai_stack).
    type: dict
    required: true
  timeout:
    description: Timeout in seconds for the entire run of the module.
    type: int
    default: 3600
attributes:
  check_mode:
    description: It only reads.
    support: full
  diff_mode:
    description: It only reads.
    support: none
  idempotent:
    description: It only reads.
    support: full
seealso:
  - module: hpcai.azure.azure_stack
"""

EXAMPLES = r"""
- name: Read the stack
  hpcai.azure.azure_stack_info:
    subscription_id: 11111111-2222-3333-4444-555555555555
    stack: "{{ hpcai_stack }}"
  register: read

- name: Show what is missing
  ansible.builtin.debug:
    msg: "{{ read.resources | rejectattr('exists') | map(attribute='id') }}"
"""

RETURN = r"""
owner:
  description: Identifies the stack. Each resource that the stack makes has this value in its tag C(hpcai_stack).
  returned: success
  type: str
  sample: training/8c1b8a0e-3f5e-5f0c-9d0f-6d7f3f0a6a11
resources:
  description: The resources of the stack, in the order in which they are made.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Resource id.
      type: str
    type:
      description: Type of the resource.
      type: str
    exists:
      description: Whether the resource exists.
      type: bool
    adopted:
      description: Whether the stack only uses the resource, and neither makes nor changes it.
      type: bool
    recorded:
      description:
        - Whether M(hpcai.azure.azure_stack) recorded that it made the resource. The record is kept in Azure, in a
          deployment in the stack's resource group. A teardown deletes only recorded resources.
      type: bool
    unique_id:
      description: C(vmId) of a machine, or C(uniqueId) of a scale set. Empty for other resources.
      type: str
    state:
      description: The resource's C(provisioningState) in Azure. Empty if the resource does not exist or has none.
      type: str
  sample: []
deployment:
  description: State of the last deployment of the stack. Empty if there was no deployment.
  returned: success
  type: str
  sample: Succeeded
role_assignments:
  description:
    - Commands that create the role assignments that the stack needs but M(hpcai.azure.azure_stack) does not create.
  returned: success
  type: list
  elements: str
  sample: []
endpoints:
  description:
    - Addresses and ids that users and other tools need. C(controller) is the private address of the controller.
    - C(login) lists the public addresses of the login nodes, or of the controller if the stack has no login nodes.
    - C(key_vault) and C(storage) are URLs. C(bastion) is the resource id of the Bastion host, and C(scale_sets) maps
      the names of the scale sets to their resource ids. C(storage) and C(bastion) are empty if the stack has none.
  returned: success
  type: dict
  sample: {controller: 10.42.0.4, login: [203.0.113.7]}
inventory:
  description:
    - Options with which the inventory plugin P(hpcai.azure.azure_vmss#inventory) finds the stack's machines. You can
      save them as an inventory file.
  returned: success
  type: dict
  sample: {plugin: hpcai.azure.azure_vmss, resource_groups: [training]}
variables:
  description: Variables of the roles, with values that follow from the stack.
  returned: success
  type: dict
  sample: {hpcai_key_source: key_vault}
requests:
  description: Number of requests. C(reads) counts those that only read, C(writes) those that changed something.
  returned: success
  type: dict
  sample: {reads: 31, writes: 0}
"""
