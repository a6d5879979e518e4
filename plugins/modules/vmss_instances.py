#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vmss_instances
short_description: Delete, redeploy or replace particular instances of Azure scale sets
version_added: "0.1.0"
description:
  - Deletes instances by their ids, moves them to another physical host, or brings new ones in their place. Those of one
    Uniform scale set go by one request, and the end is waited for. Members of Flexible scale sets and stand-alone
    virtual machines are treated as the virtual machines that they are.
  - Something is done to an instance only if it still has the C(vmId) that was seen. Ids and names are given to other
    machines later. If one does not fit, nothing at all is done.
  - The capacity of a set is never lowered to get rid of an instance, for Azure would choose which one goes. It
    lowers the capacity itself when an instance is deleted by its id.
  - Runs where Ansible runs, whatever host the task is for.
  - It does not look whether jobs run there. The playbooks C(hpcai.azure.retire) and C(hpcai.azure.replace) do, and call
    this module.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
extends_documentation_fragment:
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  state:
    description:
      - V(absent) deletes the instances.
      - V(redeployed) moves them to another physical host, each time. Such a machine keeps its id, its C(vmId), its name
        and its system disk, and loses what lies on its local disks. A reimage is no state here, because it stays on the
        host and mends no hardware.
      - V(replaced) deletes them and raises the capacity of their scale set to what it was before, so that Azure brings
        new instances. They have new ids. Only for members of Uniform scale sets. A capacity that somebody else changed
        meanwhile is left alone.
    type: str
    choices: [absent, redeployed, replaced]
    default: absent
  instances:
    description: The instances, each by what the inventory says of it.
    type: list
    elements: dict
    required: true
    suboptions:
      azure_id:
        description: Its resource id, the inventory's C(azure_id).
        type: str
        required: true
      vm_id:
        description: Its C(vmId), the inventory's C(azure_vm_id).
        type: str
        required: true
  timeout:
    description: Seconds for everything, Azure's work included. What is under way then goes on in Azure.
    type: int
    default: 1800
attributes:
  action:
    description: Runs on the machine where Ansible runs, because that is where the credentials are.
    support: full
  check_mode:
    description: Looks which instances are there and whether they are the right ones, and does nothing to them.
    support: full
  diff_mode:
    description: Shows the ids of the instances.
    support: full
  idempotent:
    description: An instance that is gone already is no change.
    support: partial
    details:
      - O(state=redeployed) redeploys each time.
  platform:
    description: Nothing runs on a node.
    platforms: linux
    support: full
"""

EXAMPLES = r"""
- name: Delete one instance, with the options of the inventory that it comes from
  hpcai.azure.vmss_instances:
    instances:
      - azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"

- name: Move one with a hardware fault to another host
  hpcai.azure.vmss_instances:
    state: redeployed
    instances:
      - azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"

- name: Delete it as the managed identity of this machine
  hpcai.azure.vmss_instances:
    instances:
      - azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
    auth_source: managed_identity
"""

RETURN = r"""
deleted:
  description: Resource ids of the instances that were there, and are deleted.
  returned: success
  type: list
  elements: str
  sample:
    - "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/hpc/providers/Microsoft.Compute/\
      virtualMachineScaleSets/compute/virtualMachines/3"
redeployed:
  description: Resource ids of the instances that were moved to another host.
  returned: success
  type: list
  elements: str
  sample: []
capacity_left_alone:
  description:
    - With O(state=replaced), the scale sets whose capacity was not raised again, because somebody else changed it while
      the instances were deleted.
  returned: success
  type: list
  elements: str
  sample: []
gone:
  description: Resource ids of the instances that were gone already.
  returned: success
  type: list
  elements: str
  sample: []
"""
