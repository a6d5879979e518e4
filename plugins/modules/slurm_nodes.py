#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_nodes
short_description: Drain Slurm nodes, and resume only nodes that this collection drained
version_added: "0.1.0"
description:
  - Drains the nodes of O(keep_out) with O(reason), and resumes the nodes of O(put_to_work) whose drain reason starts
    with O(prefix). It never overwrites a drain reason that somebody else set, and never resumes such a node.
  - Sets the spare nodes of O(absent) (nodes that have no machine yet) to state down, because slurmctld would treat them
    as idle. Run a task with O(hold) first, so that no job starts on a spare node until the node is down.
  - With O(seen), compares the hardware of the nodes of O(put_to_work) with C(slurm.conf). A node that lacks something
    is drained with a reason that starts with C(hpcai:) C(hardware:) and names what is missing. When a later run finds
    that the node matches again, it resumes the node.
  - Before it resumes nodes, it waits until the nodes of O(put_to_work) answer. It does not resume nodes that do not
    answer within O(timeout), and reports them.
  - Run it where C(scontrol) may change nodes, normally on the controller as root.
author:
  - hpcai.azure contributors (@hpcai)
options:
  keep_out:
    description: Names of nodes to drain.
    type: list
    elements: str
    default: []
  put_to_work:
    description: Names of nodes that should run jobs.
    type: list
    elements: str
    default: []
  absent:
    description:
      - Names of spare nodes, which are declared so that a later machine can join automatically. If a spare never had a
        machine and Slurm would start jobs on it, the module sets it to state down. The reason says that there is no
        machine.
      - If a machine has registered its address for a node of this list, the module assumes in two cases only that the
        machine was deleted. Either slurmctld has set the node down because it does not respond, or the drain reason
        starts with C(hpcai:) C(retire:). The module then sets the node down as a spare node. In all other cases it does
        not change the node, because the inventory may be older than the machine.
      - A task with this option and without O(hold) releases the jobs that an earlier task with O(hold) holds back. The
        list may be empty. A task without this option does not release them.
      - With O(hold), the module only resets nodes of this list that slurmctld still knows as nodes of removed
        instances. It removes their addresses, drains and reasons, and sets them down, because Azure may reuse an
        instance id.
    type: list
    elements: str
  hold:
    description:
      - Hold back new jobs with a reservation of all nodes, C(hpcai-new-nodes). Running jobs continue. Use it before
        slurmctld is restarted with new names of spare nodes, so that no job starts on a spare node before the next task
        sets it down with O(absent).
      - The module fails if O(keep_out) or O(put_to_work) is set in the same task.
      - If slurmctld refuses the reservation, the module only warns.
      - The reservation ends automatically after five minutes. If no slurmctld answers, the module does nothing.
    type: bool
    default: false
  pending:
    description:
      - Whether an earlier task changed C(slurm.conf). Only used in check mode, in which slurmctld does not know new
        names of O(absent) yet. The module then predicts which nodes would be set down.
    type: bool
    default: false
  seen:
    description:
      - Dictionary with node names as keys. The value is RV(hpcai.azure.slurmd#module:node), which M(hpcai.azure.slurmd)
        returned for the node. Only nodes that are listed both here and in O(put_to_work) are
        compared.
      - More hardware than configured is not a difference, and values that C(slurm.conf) does not set are not compared.
        With C(config_overrides) in C(SlurmdParameters), only missing device files are differences.
    type: dict
    default: {}
  conf:
    description: Folder of the C(slurm.conf) that O(seen) is compared with.
    type: path
    default: /etc/slurm
  prefix:
    description:
      - Start of the drain reason of nodes of O(keep_out). Nodes of O(put_to_work) are resumed if their drain reason
        starts with this text. The text must start with V(hpcai:).
    type: str
    default: "hpcai: site:"
  reason:
    description: Drain reason for the nodes of O(keep_out). The module puts O(prefix) before it.
    type: str
    default: could not be configured
  timeout:
    description: Seconds to wait for the nodes of O(put_to_work) to answer. With V(0) they are checked once.
    type: int
    default: 60
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Reports in check mode what it would do, without changing anything or waiting.
    details:
      - If slurmctld does not answer in check mode, or does not know a node, the module only warns, because the tasks
        that start and configure slurmctld have not run either.
  diff_mode:
    description: Shows each changed node's state and reason before and after.
  platform:
    description: Works with Slurm 22.05 and later.
"""

EXAMPLES = r"""
- name: Drain a node that could not be configured, and resume two others
  hpcai.azure.slurm_nodes:
    keep_out: [compute-3]
    put_to_work: [compute-0, compute-17]

- name: Hold back new jobs until the spare nodes are set down
  hpcai.azure.slurm_nodes:
    hold: true

- name: Set spare nodes down, and release new jobs
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
  description: Nodes of O(keep_out) that were drained. For drained nodes of O(put_to_work), see RV(unfit).
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
  description: Nodes of O(put_to_work) that stay drained because somebody else drained them, each with its reason.
  returned: success
  type: dict
  sample: {"compute-17": "bad fan, ticket 4711"}
unfit:
  description:
    - Nodes of O(put_to_work) that lack configured hardware, or whose slurmd must be restarted when their jobs have
      ended, each with the reason. This is also the drain reason in Slurm, unless somebody else set another one.
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
    """Wait until all nodes answer slurmctld, and return those that still do not after the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        known = nodes.read_nodes(run)
        silent = [name for name in names if name not in known or not known[name].answers]
        if not silent or time.monotonic() >= deadline:
            return silent
        time.sleep(1)


def unless_foreseen(module: AnsibleModule, problem: str) -> None:
    """Fail with the problem. In check mode only warn, because earlier tasks would perhaps have fixed it.

    :raises CommandFailed: not in check mode.
    """
    if not module.check_mode:
        raise CommandFailed(problem)
    module.warn(f"{problem} Check mode cannot tell whether this run would have fixed it. If not, the real run fails.")


def read_before(module: AnsibleModule) -> dict[str, nodes.NodeState] | None:
    """Return the nodes that slurmctld knows, or None if it does not answer in check mode."""
    try:
        return nodes.read_nodes(run)
    except CommandFailed as error:
        unless_foreseen(module, f"{error}.")
        return None


def hold_jobs_back(module: AnsibleModule) -> dict[str, Any]:
    """Hold back new jobs, if a slurmctld runs that could start them."""
    held = job_control.slurmctld_answers(run)
    if held and not module.check_mode:
        try:
            job_control.hold_new_jobs(run)
        except CommandFailed as error:
            # Only a warning, because a job could be given a spare node for a few seconds only.
            module.warn(f"{error}. Until the spare nodes are set down, a pending job could be given one.")
            held = False
    known = read_before(module) if held and module.params["absent"] else None
    gone = nodes.former(known or {}, module.params["absent"] or ())
    if not module.check_mode:
        nodes.forget_machines(gone, run)
    nothing: dict[str, Any] = {"drained": [], "resumed": [], "not_answering": []}
    return {**nothing, "changed": held or bool(gone), "set_down": list(gone), "left_out": {}, "unfit": {}}


def set_down(module: AnsibleModule, known: dict[str, nodes.NodeState]) -> tuple[str, ...]:
    """Set down the spare nodes that would be given jobs or still have a retired machine, and return them."""
    absent = module.params["absent"] or ()
    wrong, gone = nodes.absent_to_set_down(known, absent), nodes.retired(known, absent)
    # Without "cloud" in the site's PrivateData, slurmctld does not list nodes that never had a machine.
    unlisted = tuple(name for name in absent if name not in known)
    if not module.check_mode:
        nodes.forget_machines(gone, run)
        nodes.set_down([*wrong, *unlisted], nodes.NO_INSTANCE, run)
    elif module.params["pending"]:
        return (*wrong, *gone, *unlisted)
    return (*wrong, *gone)


def judge(module: AnsibleModule) -> dict[str, str | None]:
    """Return for each measured node why it should get no jobs, or None if it may."""
    conf = read_conf(Root(), module.params["conf"])
    # A failed measurement neither drains a node nor removes a drain reason.
    measured = {n: hardware.from_result(found) for n, found in module.params["seen"].items() if found}
    return {
        n: hardware.reason_against(conf, n, measurement) for n, measurement in measured.items() if measurement.counts
    }


def _shown(node: nodes.NodeState | None) -> str:
    return f"{'+'.join(node.states)} {node.reason}".rstrip() if node else "not known yet"


def arrange(module: AnsibleModule, reason: str) -> dict[str, Any]:
    """Drain and resume nodes."""
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
        # slurmctld marks a resumed node as not responding, and gives it no jobs, until it has contacted it again.
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
        module.fail_json(msg=f"prefix must start with {nodes.OUR_PREFIX!r}, to protect the drain reasons of others.")
    if asked["hold"] and (asked["keep_out"] or asked["put_to_work"]):
        module.fail_json(msg="hold excludes keep_out and put_to_work: use them in a later task.")
    try:
        reason = f"{asked['prefix']} {asked['reason']}"
        answer = hold_jobs_back(module) if asked["hold"] else arrange(module, reason)
    except CommandFailed as error:
        module.fail_json(msg=str(error))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
