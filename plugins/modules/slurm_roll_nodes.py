#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_roll_nodes
short_description: Drain, mark and resume Slurm nodes that get another image
version_added: "0.2.0"
description:
  - M(hpcai.azure.slurm_roll) runs this module for each step of a rollout. The module drains, marks and resumes the
    given nodes in Slurm, and returns the state of the nodes.
  - Changes a node only if the change is still valid for this node. For example, a node that somebody else has drained
    in the meantime stays unchanged.
  - Run it where C(scontrol) may change nodes, normally on the controller as root.
author:
  - hpcai.azure contributors (@hpcai)
options:
  nodes:
    description: Names of the nodes whose state is returned in RV(found).
    type: list
    elements: str
    required: true
  image:
    description: Name of the image in drain reasons.
    type: str
    required: true
  drain:
    description: Nodes to drain, unless they are drained or down already.
    type: list
    elements: str
    default: []
  mark:
    description:
      - Nodes that will be reimaged next. If a rollout has drained such a node and no job runs on it, the module adds
        the start time of the node's slurmd to the drain reason. Later, a different start time shows that the node has
        restarted.
    type: list
    elements: str
    default: []
  resume:
    description: Nodes to resume, if a rollout has drained them.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Reports in check mode what it would do, without changing anything.
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: A node that is already drained or resumed is not changed. A node is marked again at each run.
    support: partial
  platform:
    description: Works with Slurm 22.05 and later.
"""

EXAMPLES = r"""
- name: Drain a node for a new image
  hpcai.azure.slurm_roll_nodes:
    nodes: [compute-0, compute-3]
    image: node-image/1.2.3
    drain: [compute-3]
"""

RETURN = r"""
drained:
  description: Nodes that the module drained. In check mode, the nodes that it would drain.
  returned: success
  type: list
  elements: str
  sample: [compute-3]
marked:
  description: Nodes that were marked. Only these may be reimaged.
  returned: success
  type: list
  elements: str
  sample: []
resumed:
  description: Nodes that were resumed.
  returned: success
  type: list
  elements: str
  sample: []
found:
  description:
    - State of each node of O(nodes) that slurmctld knows, read after the changes, with the node names as keys.
    - C(state) is the node's state in Slurm, and C(reason) is its drain reason. C(out) is true if the node is drained,
      down or failed. C(ours) is true if a rollout drained the node, and nobody has changed the reason since.
    - C(answers) is true if slurmd answers. C(powered_off) is true if the node is powered down, or is being powered up
      or down.
    - C(slurmd_started) is the start time of slurmd. C(mark) is the start time in the drain reason, and empty if the
      node is not marked. Either is V(unknown) if Slurm did not report a start time.
    - C(jobs) lists the jobs on the node. It is empty if only the node's state shows that the node is in use, and null
      if the node is not in use.
  returned: success
  type: dict
  sample:
    compute-3:
      state: IDLE+DRAIN
      reason: "hpcai: roll: new image node-image/1.2.3"
      out: true
      ours: true
      answers: true
      powered_off: false
      mark: ""
      slurmd_started: "2026-11-22T16:40:00"
      jobs: null
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import rolling
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import HostlistError


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "image": {"type": "str", "required": True},
            "drain": {"type": "list", "elements": "str", "default": []},
            "mark": {"type": "list", "elements": "str", "default": []},
            "resume": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    asked = module.params
    orders = {name: asked[name] for name in ("drain", "mark", "resume")}
    try:
        result = rolling.perform(asked["nodes"], asked["image"], run, **orders, check_mode=module.check_mode)
    except (CommandFailed, HostlistError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
