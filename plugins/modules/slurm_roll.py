#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_roll
short_description: Give Slurm nodes the image of their scale set as they come free
version_added: "0.2.0"
description:
  - Compares the image of each node's instance with the image of its scale set's model, drains the nodes that have
    another one, waits until their jobs have ended, updates their instances to the model, which replaces the system
    disk, and resumes them when their new slurmd answers. Never kills a job.
  - At most O(at_most) nodes are out at a time, nodes without jobs first.
  - Leaves out nodes that are drained or down for another reason, do not answer, or are powered down.
  - Stops at the first node that Azure cannot update, or that does not come back within O(boot_timeout). Nodes that wait
    for their jobs are then resumed, and nodes that are being updated are waited for.
  - There is no state file. Azure shows which nodes have the image, and the drain reasons show what an interrupted run
    has begun. The next run continues.
  - Run it where C(scontrol) may change nodes, normally on the controller as root. The requests to Azure are sent from
    the machine where Ansible runs.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
options:
  nodes:
    description: The nodes, as P(hpcai.azure.slurm_retirement#filter) returns them.
    type: list
    elements: dict
    required: true
    suboptions:
      node:
        description: Slurm's node name.
        type: str
        required: true
      azure_id:
        description: Resource id of the instance, the inventory's C(azure_id).
        type: str
        required: true
      vm_id:
        description: C(vmId) of the instance, the inventory's C(azure_vm_id).
        type: str
        required: true
      host:
        description: The node's name in the inventory.
        type: str
  image:
    description: Name of the image in drain reasons.
    type: str
    required: true
  images:
    description:
      - The image that the model of each scale set should have, by the set's resource id. If a model has another image,
        somebody else has changed it, and the rollout stops. In check mode the nodes are compared with these images.
      - Sets that are not listed are compared with their model.
    type: dict
    default: {}
  at_most:
    description: How many nodes may be out at a time.
    type: int
    default: 1
  canary:
    description:
      - Give the image to one node of each scale set only, and leave it drained when it is back, so that it can be
        checked.
    type: bool
    default: false
  boot_timeout:
    description: Seconds that a node may take until its new slurmd answers, after Azure has updated its instance.
    type: int
    default: 1800
  timeout:
    description: Seconds to wait for jobs in total. Then the rollout stops as after a failure.
    type: int
    default: 86400
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
  - hpcai.azure.internal
attributes:
  action:
    description: The requests to Azure are sent from the machine where Ansible runs, because the credentials are there.
    support: full
  check_mode:
    description: Reports in check mode which nodes would get the image, and which are left out. Changes nothing.
  diff_mode:
    description: Lists the nodes that get the image.
  idempotent:
    description: A node that has the image is not changed.
  platform:
    description: Works with Slurm 21.08 and later.
"""

EXAMPLES = r"""
- name: Give all nodes the image of their scale set, four at a time
  hpcai.azure.slurm_roll:
    nodes: "{{ the_nodes }}"
    image: node-image/1.2.3
    at_most: 4
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"
"""

RETURN = r"""
to_do:
  description: Nodes that have another image, in the order in which they would be drained now.
  returned: success
  type: list
  elements: str
  sample: [compute-3]
reimaged:
  description: Nodes whose instances were updated.
  returned: success
  type: list
  elements: str
  sample: [compute-0]
resumed:
  description: Nodes that were resumed.
  returned: success
  type: list
  elements: str
  sample: [compute-0]
back:
  description: With O(canary=true), nodes that have the image, answer, and are still drained.
  returned: success
  type: list
  elements: str
  sample: []
current:
  description: Nodes that have the image and are not drained for a rollout.
  returned: success
  type: list
  elements: str
  sample: [compute-0]
left_out:
  description: Nodes that have another image, but are left alone, with the reason.
  returned: success
  type: dict
  sample: {"compute-17": "it is IDLE+DRAIN: bad fan, ticket 4711"}
drained:
  description: Nodes that are still drained for this rollout.
  returned: success
  type: list
  elements: str
  sample: []
jobs:
  description: Nodes that wait for the end of jobs, with these jobs.
  returned: success
  type: dict
  sample: {}
lost:
  description: Nodes that did not come back in time.
  returned: success
  type: list
  elements: str
  sample: []
stopped:
  description: Why the rollout stopped, or an empty text.
  returned: success
  type: str
  sample: ""
"""
