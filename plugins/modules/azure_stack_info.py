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
  - Reads the resources that M(hpcai.azure.azure_stack) would make for the same description, one request for each.
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
  subscription_id:
    description: Id of the subscription.
    type: str
    required: true
  stack:
    description:
      - The description. P(hpcai.azure.provision#role) documents all keys as C(hpcai_stack).
    type: dict
    required: true
  timeout:
    description: Timeout in seconds.
    type: int
    default: 3600
attributes:
  action:
    description: Runs on the machine where Ansible runs, because the credentials are there.
    support: full
  check_mode:
    description: It only reads.
    support: full
  diff_mode:
    description: It only reads.
    support: none
  idempotent:
    description: It only reads.
    support: full
  platform:
    description: Nothing runs on a node.
    platforms: linux
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
  description: The value of the tag C(hpcai_stack).
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
      description: Whether it exists.
      type: bool
    adopted:
      description: Whether the stack only reads it.
      type: bool
    recorded:
      description: Whether the stack has recorded that it made it.
      type: bool
    unique_id:
      description: C(vmId) of a machine, C(uniqueId) of a scale set, else empty.
      type: str
    state:
      description: Azure's C(provisioningState).
      type: str
  sample: []
deployment:
  description: State of the last deployment of the stack. Empty if there is none.
  returned: success
  type: str
  sample: Succeeded
role_assignments:
  description: Commands for role assignments that the stack needs and does not write itself.
  returned: success
  type: list
  elements: str
  sample: []
endpoints:
  description: Addresses and ids that users and other tools need.
  returned: success
  type: dict
  sample: {controller: 10.42.0.4, login: [203.0.113.7]}
inventory:
  description: The inventory of the stack's machines.
  returned: success
  type: dict
  sample: {plugin: hpcai.azure.azure_vmss, resource_groups: [training]}
variables:
  description: The variables of the roles that follow from the stack.
  returned: success
  type: dict
  sample: {hpcai_key_source: key_vault}
requests:
  description: Number of reads, and of requests that changed something.
  returned: success
  type: dict
  sample: {reads: 31, writes: 0}
"""
