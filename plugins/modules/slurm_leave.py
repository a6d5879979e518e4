#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_leave
short_description: Drain Slurm nodes before they are removed, and report which jobs still run there
version_added: "0.1.0"
description:
  - Drains the nodes, so that no new job starts there, and reports which jobs still run. Never cancels a job.
  - A node that is already drained keeps its drain reason. A node that an administrator set to state down is also
    drained, with its current reason. Otherwise the node would return to service when its slurmd registers.
  - With O(wait=true), the task ends when no job runs on the nodes, or after O(timeout) seconds. If jobs still run after
    this time, the task does not fail, and RV(busy) lists the nodes with their jobs. Ansible shows how many jobs are
    left, and the time to the deadline. The task runs the module again every 5 seconds, so no connection is idle for
    hours. If slurmctld or the host stops answering while the task waits, the task keeps trying, and fails only if there
    is still no answer at the deadline.
  - Run it as a user, and on a host, that is allowed to change nodes with C(scontrol), normally as root on the
    controller.
author:
  - hpcai.azure contributors (@hpcai)
options:
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
  reason:
    description: Drain reason. The module puts C(hpcai:) and a space before it.
    type: str
    default: retire
  timeout:
    description:
      - Seconds to wait for the end of the jobs. RV(deadline) is the start of the task plus this time. With the default,
        the task does not wait, even with O(wait=true).
    type: int
    default: 0
  deadline:
    description: Set this only if you repeat the task instead of using O(wait). Use the RV(deadline) that the first run
      returned.
    type: float
  wait:
    description: Whether to wait until no job runs on the nodes. In check mode it never waits.
    type: bool
    default: false
    version_added: "0.2.0"
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description: Reports in check mode which nodes it would drain, and which jobs run there.
  diff_mode:
    description: Shows the state and reason of each node that is drained.
  idempotent:
    description: A drained node stays as it is.
  platform:
    description: Works with Slurm 22.05 and later.
"""

EXAMPLES = r"""
- name: Prevent new jobs from starting on the nodes, and wait until their jobs have ended
  hpcai.azure.slurm_leave:
    nodes: [compute-3, compute-17]
    reason: "retire: replaced by newer machines"
    timeout: 3600
    wait: true
  register: left
  failed_when: left.busy | length > 0 and not ansible_check_mode
"""

RETURN = r"""
drained:
  description: Nodes that the module drained. In check mode, the nodes that it would drain.
  returned: success
  type: list
  elements: str
  sample: [compute-3]
busy:
  description:
    - Nodes that are in use, with their jobs. The list of jobs is empty if only the node's state shows that it is in
      use, for example because a job has just ended.
  returned: success
  type: dict
  sample: {"compute-3": ["4711 (alice, running)"]}
unknown:
  description: Nodes that slurmctld does not know. The module does not wait for them.
  returned: success
  type: list
  elements: str
  sample: []
deadline:
  description: Time at which to stop waiting, as a Unix timestamp, by the clock of the host on which the module runs.
  returned: success
  type: float
  sample: 1795334400.0
seconds_left:
  description: Seconds until RV(deadline), 0 if it has passed.
  returned: success
  type: float
  sample: 2460.0
time_is_over:
  description: Whether RV(deadline) has passed.
  returned: success
  type: bool
  sample: false
"""

import time
from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import job_control, nodes
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import HostlistError

SPEC = {
    "nodes": {"type": "list", "elements": "str", "required": True},
    "reason": {"type": "str", "default": "retire"},
    "timeout": {"type": "int", "default": 0},
    "deadline": {"type": "float"},
    # The action plugin waits.
    "wait": {"type": "bool", "default": False},
}


def drain(
    module: AnsibleModule, known: dict[str, nodes.NodeState], made: job_control.Drain, reason: str
) -> dict[str, str]:
    """Drain the nodes, and return the diff of their states and reasons."""
    reasons = {**dict.fromkeys(made.drain, reason), **made.drain_as_it_is}
    if not module.check_mode:
        nodes.drain(made.drain, reason, run)
        for name, own_reason in made.drain_as_it_is.items():
            nodes.drain([name], own_reason, run)
    before = "".join(f"{n}: {'+'.join(known[n].states)} {known[n].reason}".rstrip() + "\n" for n in reasons)
    return {"before": before, "after": "".join(f"{name}: DRAIN {why}\n" for name, why in reasons.items())}


def main() -> NoReturn:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    names, given = module.params["nodes"], module.params["deadline"]
    deadline = time.time() + module.params["timeout"] if given is None else given
    try:
        known = nodes.read_nodes(run)
        made = job_control.plan_drain(known, names)
        diff = drain(module, known, made, f"{nodes.OUR_PREFIX} {module.params['reason']}")
        present = [name for name in names if name in known]
        # Read again after the drain, to include jobs that started just before it.
        after = known if module.check_mode else nodes.read_nodes(run)
        busy = job_control.busy(after, present, job_control.jobs_on(present, run))
    except (CommandFailed, HostlistError) as error:
        module.fail_json(msg=str(error))
    drained = [*made.drain, *made.drain_as_it_is]
    seconds_left = max(0.0, deadline - time.time())
    module.exit_json(
        changed=bool(drained),
        drained=drained,
        busy=busy,
        unknown=list(made.unknown),
        deadline=deadline,
        seconds_left=seconds_left,
        time_is_over=seconds_left == 0,
        diff=diff,
    )


if __name__ == "__main__":
    main()
