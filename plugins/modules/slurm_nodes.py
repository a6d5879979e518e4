#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_nodes
short_description: Take Slurm nodes out of scheduling, and bring back only those that were taken out
version_added: "0.1.0"
description:
  - Drains the nodes of O(keep_out) with O(reason), and resumes those of O(put_to_work) that were drained with a reason
    which starts with O(prefix). A reason that somebody else gave is never overwritten, and such a node is never
    resumed.
  - Sets spare nodes of O(absent) down, which slurmctld would otherwise take for idle ones, and with O(hold) no new job
    starts until that is done.
  - With O(seen), compares what each node really has with C(slurm.conf). A node that lacks something is drained with a
    reason that begins with C(hpcai:) C(hardware:) and names it. When it is right again, that reason is taken back.
  - Before it resumes, it waits until the nodes of O(put_to_work) answer, and says which do not. A node that does not
    answer is not resumed.
  - Runs where C(scontrol) may change nodes, which is normally on the controller as root.
author:
  - hpcai.azure contributors (@hpcai)
options:
  keep_out:
    description: Names of nodes to drain.
    type: list
    elements: str
    default: []
  put_to_work:
    description: Names of nodes that shall take jobs.
    type: list
    elements: str
    default: []
  absent:
    description:
      - Names of spare nodes, which are declared so that a machine which comes later can join by itself. Those that
        never had a machine and would be given jobs are set down, with a reason that says that no machine is there.
      - A node whose machine has told its address is not touched, whether an inventory knows it or not.
      - Ends what O(hold) began, also with an empty list.
    type: list
    elements: str
  hold:
    description:
      - Holds new jobs back by a reservation of all nodes, C(hpcai-new-nodes); jobs that run go on. For the time before
        slurmctld is restarted with new names of spare nodes, so that no job is given one of them before the next task
        has them set down by O(absent).
      - If slurmctld refuses the reservation, the module only warns.
      - The reservation ends by itself after five minutes. Where no slurmctld answers, nothing is done.
    type: bool
    default: false
  pending:
    description:
      - Whether an earlier task changed C(slurm.conf). It counts in check mode alone, where slurmctld does not know new
        names of O(absent) yet, so that it is predicted that they are set down.
    type: bool
    default: false
  seen:
    description:
      - By name of the node, what M(hpcai.azure.slurmd) found there and returned as
        RV(hpcai.azure.slurmd#module:node). Nodes that are not named here are not compared.
      - More than configured is no difference, and what C(slurm.conf) does not say is not compared. With
        C(config_overrides) in C(SlurmdParameters) only missing device files count.
    type: dict
    default: {}
  conf:
    description: The folder of the C(slurm.conf) that O(seen) is compared with.
    type: path
    default: /etc/slurm
  prefix:
    description: Marks the reasons that are ours. It must start with V(hpcai:).
    type: str
    default: "hpcai: site:"
  reason:
    description: Why the nodes of O(keep_out) are drained; O(prefix) is put before it.
    type: str
    default: could not be configured
  timeout:
    description: Seconds to wait for the nodes of O(put_to_work) to answer; V(0) looks once.
    type: int
    default: 60
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Says what it would do, without changing anything or waiting.
    details:
      - Neither a slurmctld that does not answer nor a node that it does not know is a failure there, because in check
        mode the tasks that start it and tell it of the node have not done so either. A warning names them.
  diff_mode:
    description: Shows each changed node's state and reason before and after.
  platform:
    description: Works with Slurm 21.08 and later.
"""

EXAMPLES = r"""
- name: Keep a node out that could not be configured
  hpcai.azure.slurm_nodes:
    keep_out: [compute-3]
    put_to_work: [compute-0, compute-17]

- name: Let nothing be scheduled before the spare nodes are set down
  hpcai.azure.slurm_nodes:
    hold: true

- name: Set spare nodes down, and let jobs start again
  hpcai.azure.slurm_nodes:
    absent: [compute-18, compute-19]
"""

RETURN = r"""
set_down:
  description: Nodes of O(absent) that were set down.
  returned: success
  type: list
  elements: str
  sample: [compute-18, compute-19]
drained:
  description: Nodes that were drained.
  returned: success
  type: list
  elements: str
  sample: [compute-3]
resumed:
  description: Nodes that were resumed.
  returned: success
  type: list
  elements: str
  sample: [compute-0]
left_out:
  description: Nodes of O(put_to_work) that stay out of scheduling for somebody else's reason, with that reason.
  returned: success
  type: dict
  sample: {"compute-17": "bad fan, ticket 4711"}
unfit:
  description:
    - Nodes of O(put_to_work) that lack what is configured, or whose slurmd waits for jobs to end, with the reason. It
      is the reason in Slurm too, unless somebody else gave the node another one.
  returned: success
  type: dict
  sample: {"compute-5": "hpcai: hardware: RealMemory is 1900, configured 1945"}
not_answering:
  description: Nodes of O(put_to_work) whose slurmd did not answer within O(timeout).
  returned: success
  type: list
  elements: str
  sample: []
"""

import time
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import hardware, job_control, nodes
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.conf_text import read_conf


def wait_for(names: list[str], timeout_s: int) -> list[str]:
    """Return those of the nodes that slurmctld does not have as answering after at most so many seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        known = nodes.read_nodes(run)
        silent = [name for name in names if name not in known or not known[name].answers]
        if not silent or time.monotonic() >= deadline:
            return silent
        time.sleep(1)


def unless_foreseen(module: AnsibleModule, problem: str) -> None:
    """Fail with the problem; in check mode, where earlier tasks may have been going to mend it, only warn.

    :raises CommandFailed: not in check mode.
    """
    if not module.check_mode:
        raise CommandFailed(problem)
    module.warn(
        f"{problem} Check mode cannot tell whether this run would have mended that; if not, the real run fails."
    )


def read_before(module: AnsibleModule) -> dict[str, nodes.NodeState] | None:
    """Return the nodes as slurmctld has them; None in check mode if it does not answer."""
    try:
        return nodes.read_nodes(run)
    except CommandFailed as error:
        unless_foreseen(module, f"{error}.")
        return None


def hold_jobs_back(module: AnsibleModule) -> dict[str, Any]:
    """Hold new jobs back where a slurmctld runs that could start them."""
    held = job_control.slurmctld_answers(run)
    if held and not module.check_mode:
        try:
            job_control.hold_new_jobs(run)
        except CommandFailed as error:
            # Nothing is lost yet, and without it the time in which a job could be is a few seconds.
            module.warn(f"{error}. Until the spare nodes are set down, pending jobs could be given one.")
            held = False
    nothing: dict[str, Any] = {"drained": [], "resumed": [], "set_down": [], "not_answering": []}
    return {**nothing, "changed": held, "left_out": {}, "unfit": {}}


def set_down(module: AnsibleModule, known: dict[str, nodes.NodeState]) -> tuple[str, ...]:
    """Set down the spare nodes that would be given jobs, and return them."""
    absent = module.params["absent"] or ()
    wrong = nodes.absent_to_set_down(known, absent)
    if not module.check_mode:
        # Where the site's PrivateData lacks "cloud", slurmctld does not show those that never had a machine.
        nodes.set_down([*wrong, *(name for name in absent if name not in known)], nodes.NO_INSTANCE, run)
    elif module.params["pending"]:
        return (*wrong, *(name for name in absent if name not in known))
    return wrong


def judge(module: AnsibleModule) -> dict[str, str | None]:
    """Return for what reason each node that was looked at should get no jobs."""
    conf = read_conf(Root(), module.params["conf"])
    # What could not be measured is no reason to drain a node, and none to take a reason back.
    measured = {n: hardware.from_result(found) for n, found in module.params["seen"].items() if found}
    return {
        n: hardware.reason_against(conf, n, measurement) for n, measurement in measured.items() if measurement.counts
    }


def _shown(node: nodes.NodeState | None) -> str:
    return f"{'+'.join(node.states)} {node.reason}".rstrip() if node else "not known yet"


def arrange(module: AnsibleModule, reason: str) -> dict[str, Any]:
    """Take nodes out, and bring nodes back."""
    asked = module.params
    known = read_before(module)
    before = known or {}
    down = set_down(module, before)
    would_be_held = module.check_mode and asked["pending"] and known is not None and job_control.slurmctld_answers(run)
    held = asked["absent"] is not None and known is not None and (would_be_held or job_control.is_held(run))
    judged = judge(module)
    made = nodes.plan(before, asked["keep_out"], asked["put_to_work"], asked["prefix"], judged)
    if made.missing and known is not None:
        unless_foreseen(module, f"slurmctld knows no node named {', '.join(made.missing)}: is slurm.conf up to date?")
    resumed = made.resume
    not_answering: list[str] = []
    if not module.check_mode:
        if held:
            job_control.release_new_jobs(run)
        nodes.drain(made.drain, reason, run)
        for unfit, names in made.unfit.items():
            nodes.drain(names, unfit, run)
        awaited = [n for n in asked["put_to_work"] if n not in made.left_out and not judged.get(n)]
        not_answering = wait_for(awaited, asked["timeout"])
        resumed = tuple(name for name in made.resume if name not in not_answering)
        nodes.resume(resumed, run)
        # slurmctld takes a resumed node for silent until it has asked it anew, and gives it no jobs before.
        not_answering += wait_for(list(resumed), asked["timeout"])
    after = [f"{n}: DOWN {nodes.NO_INSTANCE}\n" for n in down] + [f"{n}: DRAIN {reason}\n" for n in made.drain]
    after += [f"{n}: DRAIN {unfit}\n" for unfit, names in made.unfit.items() for n in names]
    touched = [*down, *made.drain, *(n for names in made.unfit.values() for n in names), *resumed]
    return {
        "changed": bool(touched) or held,
        "set_down": list(down),
        "drained": list(made.drain),
        "resumed": list(resumed),
        "left_out": dict(made.left_out),
        "unfit": {n: judged[n] for n in asked["put_to_work"] if judged.get(n)},
        "not_answering": not_answering,
        "diff": {
            "before": "".join(f"{n}: {_shown(before.get(n))}\n" for n in touched),
            "after": "".join(after + [f"{n}: RESUME\n" for n in resumed]),
        },
    }


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "keep_out": {"type": "list", "elements": "str", "default": []},
            "put_to_work": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str"},
            "hold": {"type": "bool", "default": False},
            "pending": {"type": "bool", "default": False},
            "seen": {"type": "dict", "default": {}},
            "conf": {"type": "path", "default": "/etc/slurm"},
            "prefix": {"type": "str", "default": "hpcai: site:"},
            "reason": {"type": "str", "default": "could not be configured"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    asked = module.params
    if not asked["prefix"].startswith(nodes.OUR_PREFIX):
        module.fail_json(msg=f"prefix must start with {nodes.OUR_PREFIX!r}, or other people's reasons could be taken.")
    if asked["hold"] and (asked["absent"] or asked["keep_out"] or asked["put_to_work"]):
        module.fail_json(msg="hold stands alone: absent, keep_out and put_to_work belong to a later task.")
    try:
        reason = f"{asked['prefix']} {asked['reason']}"
        answer = hold_jobs_back(module) if asked["hold"] else arrange(module, reason)
    except CommandFailed as error:
        module.fail_json(msg=str(error))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
