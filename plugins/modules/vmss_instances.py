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
  - Deletes instances by their ids, moves them to another physical host, or replaces them with new ones. Sends one
    request for all instances of a Uniform scale set, and waits until Azure has finished. Members of Flexible scale sets
    are handled like stand-alone virtual machines.
  - Changes an instance only if it still has the given C(vmId), because Azure reuses ids and names. If one instance has
    another C(vmId), the module changes no instance at all.
  - Never lowers the capacity of a scale set to remove an instance, because Azure would choose which one to remove. When
    the module deletes an instance by its id, Azure lowers the capacity.
  - Does not check whether jobs run on the instances. The playbooks C(hpcai.azure.retire) and C(hpcai.azure.replace)
    check this before they call the module.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  state:
    description:
      - V(absent) deletes the instances.
      - V(redeployed) moves them to another physical host, at each run. A redeployed machine keeps its id, its C(vmId),
        its name and its system disk, and loses the data on its local disks. Azure makes an ephemeral system disk again
        from the image, so such a machine has new ssh host keys. There is no state for a reimage, because a reimaged
        machine stays on the same host with the same hardware faults.
      - V(replaced) deletes them and raises the capacity of their scale set to its previous value, so that Azure creates
        new instances with new ids. This works only for members of Uniform scale sets. If somebody else changed the
        capacity meanwhile, the module does not raise it.
    type: str
    choices: [absent, redeployed, replaced]
    default: absent
  instances:
    description: The instances, identified by values of the inventory.
    type: list
    elements: dict
    required: true
    suboptions:
      azure_id:
        description: Resource id of the instance, the inventory's C(azure_id).
        type: str
        required: true
      vm_id:
        description: C(vmId) of the instance, the inventory's C(azure_vm_id).
        type: str
        required: true
  timeout:
    description: Timeout in seconds, including the time that Azure needs. Operations that Azure has begun continue after
      the timeout.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Checks which instances exist and whether their C(vmId) matches, without changing anything.
    support: full
  diff_mode:
    description: Shows the ids of the instances.
    support: full
  idempotent:
    description: An instance that no longer exists is not reported as a change.
    support: partial
    details:
      - O(state=redeployed) redeploys at each run.
"""

EXAMPLES = r"""
- name: Delete one instance, with the connection options of the inventory that it comes from
  hpcai.azure.vmss_instances:
    instances:
      - azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"

- name: Move an instance with a hardware fault to another physical host
  hpcai.azure.vmss_instances:
    state: redeployed
    instances:
      - azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"

- name: Delete an instance with the managed identity of this machine
  hpcai.azure.vmss_instances:
    instances:
      - azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
    auth_source: managed_identity
"""

RETURN = r"""
deleted:
  description:
    - Resource ids of the instances that the module deleted. In check mode, the ids of those that it would delete.
  returned: success
  type: list
  elements: str
  sample:
    - "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/hpc/providers/Microsoft.Compute/\
      virtualMachineScaleSets/compute/virtualMachines/3"
redeployed:
  description:
    - Resource ids of the instances that the module moved to another physical host. In check mode, the ids of those that
      it would move.
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
  description: Resource ids of the instances that no longer existed.
  returned: success
  type: list
  elements: str
  sample: []
"""
