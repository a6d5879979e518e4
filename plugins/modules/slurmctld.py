#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurmctld
short_description: Keep slurmctld running on the configuration that lies on disk
version_added: "0.1.0"
description:
  - Compares what the running slurmctld has taken of its configuration with the files of O(conf_dir), key by key, and
    does the least that the difference needs, which is nothing, C(scontrol reconfigure), or a restart. Comments and the
    order of lines are no difference. Starts and enables slurmctld where it does not run.
  - For each changed key RV(reasons) says which it is, and where it is written what it needs. A key that is not known
    needs a restart.
  - What slurmctld has taken is written down in C(/run/hpcai/slurmctld.taken.json), as digests, for one process. After a
    crash, a boot or a restart by somebody else, files that are older than the process count as taken, and if a file is
    younger, slurmctld is restarted.
  - It is restarted too if its unit, a drop-in or its environment file is younger than the process.
  - Waits until slurmctld answers. Jobs go on in each case.
  - Refuses a change by which slurmctld would lose jobs that it has, such as the removal of a partition with jobs,
    unless O(lose_jobs).
author:
  - hpcai.azure contributors (@hpcai)
options:
  conf_dir:
    description: The folder of C(slurm.conf) and of the files beside it.
    type: path
    default: /etc/slurm
  lose_jobs:
    description:
      - Whether slurmctld may take a configuration by which it loses jobs. That is the removal of a partition that has
        jobs, and another C(SelectType), C(SwitchType), C(StateSaveLocation) or C(ClusterName) while there are any.
    type: bool
    default: false
  pending:
    description:
      - The texts of files of O(conf_dir) that an earlier task would have written, by name; an empty text stands for a
        file that it would have removed. They count in check mode alone, where that task has not written them, so that
        the module says what they need, and so does M(hpcai.azure.slurmd) after it.
    type: dict
    default: {}
  unit_pending:
    description:
      - Whether an earlier task changed a drop-in of slurmctld's unit. It counts in check mode alone, where that task
        has not written it.
    type: bool
    default: false
  timeout:
    description: Seconds for slurmctld to answer.
    type: int
    default: 60
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    details:
      - A unit that systemd does not know is no failure there, because in check mode the task that installs its package
        has not done so either.
  diff_mode:
    description: Shows the commands, and the reason for each.
  idempotent:
    description: A second run with unchanged files changes nothing.
  platform:
    description: Works with Slurm 22.05 and later.
seealso:
  - module: hpcai.azure.slurmd
  - module: hpcai.azure.slurm_nodes
"""

EXAMPLES = r"""
- name: Run slurmctld on what lies in /etc/slurm
  hpcai.azure.slurmctld:
  register: controller

- name: Run slurmd on it, after slurmctld
  hpcai.azure.slurmd:
    controller: "{{ hostvars['ctl'].controller.for_slurmd }}"
"""

RETURN = r"""
commands:
  description: The verbs given to C(systemctl), in their order; V(reconfigure) is C(scontrol)'s.
  returned: success
  type: list
  elements: str
  sample: [reconfigure]
reasons:
  description: Why each of them was needed.
  returned: success
  type: list
  elements: str
  sample:
    - "slurm.conf MaxJobCount changed (slurm.conf(5))"
for_slurmd:
  description:
    - What the module M(hpcai.azure.slurmd) compares a node with. Digests of the files that slurmctld ships, and of each
      key that a slurmd takes only when it is restarted.
  returned: success
  type: dict
  sample:
    release: [22, 5]
    files: {"slurm.conf": "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"}
    handed_out: false
    part:
      entries: {"slurm.conf TaskPlugin": "2c26b46b68ffc68f"}
      hardware: {"compute-[0,3]": "fcde2b2edba56bf4"}
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import conf_changes, slurmctld


def refuse_to_lose_jobs(made: slurmctld.Plan) -> None:
    """Fail if slurmctld would lose jobs.

    :raises CommandFailed: it would, or does not say which jobs it has.
    """
    for what, jobs in slurmctld.jobs_at_stake(made.losing, run).items():
        shown = ", ".join(jobs[:10]) + (", ..." if len(jobs) > 10 else "")
        raise CommandFailed(
            f"{what}: slurmctld would lose {len(jobs)} jobs by it ({shown}). Nothing was done. Let them end, cancel "
            f"them, or set lose_jobs (in the role slurm: slurm_lose_jobs)."
        )


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "conf_dir": {"type": "path", "default": slurmctld.FOLDER},
            "lose_jobs": {"type": "bool", "default": False},
            "pending": {"type": "dict", "default": {}},
            "unit_pending": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    root, folder = Root(), module.params["conf_dir"]
    try:
        facts, files = slurmctld.read_facts(root, run, folder), conf_changes.file_digests(root, folder)
        if module.check_mode and module.params["pending"]:
            pending = {name: str(text) for name, text in module.params["pending"].items()}
            facts, files = slurmctld.preview(facts, pending, root, folder)
        unit_pending = module.check_mode and module.params["unit_pending"]
        made = slurmctld.plan(facts, may_come=module.check_mode, pending=unit_pending)
        if made.losing and not module.params["lose_jobs"]:
            refuse_to_lose_jobs(made)
        if not module.check_mode:
            slurmctld.apply(made, facts, module.params["timeout"], root, run)
    except CommandFailed as error:
        module.fail_json(msg=str(error))
    shown = daemon.Plan(made.verbs, made.reasons)
    handed_out = module.check_mode and slurmctld.RECONFIGURE in made.verbs
    module.exit_json(
        changed=bool(made.verbs),
        commands=list(made.verbs),
        reasons=list(made.reasons),
        for_slurmd=slurmctld.for_slurmd(facts, files, handed_out=handed_out),
        diff=dict(daemon.as_diff(facts.service, daemon.DesiredState(running=True, enabled=True), shown)),
    )


if __name__ == "__main__":
    main()
