#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_roll
short_description: Give Slurm nodes the image of their scale set as they become free
version_added: "0.2.0"
description:
  - Compares the image of each node's instance with the image of its scale set's model. Drains the nodes that have
    another image, and waits until their jobs have ended. Then it updates their instances to the model, which replaces
    the system disk, and resumes the nodes when their new slurmd answers. Never cancels a job.
  - At most O(at_most) nodes are out of service at a time. Nodes without jobs are updated first.
  - Skips nodes that are drained or down for a reason other than this rollout, do not answer, or are powered down.
  - Stops at the first node that Azure cannot update, or that does not come back within O(boot_timeout). The module then
    resumes the drained nodes whose update has not begun, and waits for nodes that are being updated.
  - If a run is interrupted, the next run continues. It needs no state file, because Azure shows which nodes have the
    image, and the drain reasons show what the interrupted run has begun.
  - Run it where C(scontrol) may change nodes, normally on the controller as root. The requests to Azure are sent from
    the control node.
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
      - Dictionary with the resource ids of scale sets as keys, and as values the image that the model of the set should
        have. If a model has another image, somebody else has changed it, and the rollout stops. In check mode the
        nodes are compared with these images.
      - The nodes of sets that are not listed are compared with their set's model.
    type: dict
    default: {}
  at_most:
    description: How many nodes may be out of service at a time.
    type: int
    default: 1
  canary:
    description:
      - Give the image to one node of each scale set only, and leave this node drained when it answers again, so that
        you can check it. The next run without O(canary) resumes this node, and continues with the other nodes.
      - These nodes count towards O(at_most). If there are more scale sets than O(at_most), only that many sets get such
        a node.
    type: bool
    default: false
  boot_timeout:
    description: Time limit in seconds for a new slurmd to answer. The time starts when Azure has updated the instance.
    type: int
    default: 1800
  timeout:
    description: Time limit in seconds of the whole rollout. After this time the rollout stops as after a failure.
    type: int
    default: 86400
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
  - hpcai.azure.internal
attributes:
  action:
    description: The requests to Azure are sent from the control node, because the credentials are there.
    support: full
  check_mode:
    description: Reports in check mode which nodes would get the image, and which are skipped. Changes nothing.
  diff_mode:
    description: Lists the nodes that get the image.
  idempotent:
    description: A node that has the image is not changed.
  platform:
    description: Works with Slurm 22.05 and later.
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
  description: Nodes that have another image but were skipped, with the reason.
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
  description: Nodes that wait for the end of jobs, each with its jobs.
  returned: success
  type: dict
  sample: {}
lost:
  description: Nodes whose slurmd did not answer within O(boot_timeout), or whose update had not ended that long after
    the rollout stopped.
  returned: success
  type: list
  elements: str
  sample: []
stopped:
  description: Why the rollout stopped. Empty if it did not stop.
  returned: success
  type: str
  sample: ""
"""
