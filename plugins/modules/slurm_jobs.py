#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_jobs
short_description: List the jobs of the cluster, hold new ones, and cancel the running ones
version_added: "0.2.0"
description:
  - Lists all jobs that occupy nodes, and all jobs that wait for nodes. By default it changes nothing.
  - To wait until cancelled jobs have ended, repeat the task without options until RV(answers) is true and RV(jobs) is
    empty.
  - Run it where C(scontrol) may change nodes, normally on the controller as root.
  - If C(/etc/slurm/slurm.conf) does not exist, this machine runs no slurmctld. RV(answers) is then true, and RV(jobs)
    and RV(pending) are empty.
author:
  - hpcai.azure contributors (@hpcai)
options:
  hold:
    description:
      - Hold back new jobs with a reservation of all nodes, C(hpcai-new-nodes), before the running jobs are listed. The
        reservation ends automatically after five minutes. If slurmctld refuses the reservation, the module warns that
        new jobs may start, and continues.
    type: bool
    default: false
  cancel:
    description: Cancel the running jobs. Does not wait until they have ended. Pending jobs stay.
    type: bool
    default: false
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    support: none
    description: There are no files.
  idempotent:
    description: Nothing changes if no jobs run and O(hold=false).
  platform:
    description: Works with Slurm 22.05 and later.
seealso:
  - module: hpcai.azure.slurm_leave
"""

EXAMPLES = r"""
- name: List the running jobs
  hpcai.azure.slurm_jobs:
  register: running

- name: Hold new jobs, and cancel the running ones
  hpcai.azure.slurm_jobs:
    hold: true
    cancel: true
"""

RETURN = r"""
answers:
  description: Whether slurmctld answers. If it does not answer, the module does not know whether jobs run, and RV(jobs)
    and RV(pending) are empty. V(true) if this machine runs no slurmctld.
  returned: success
  type: bool
  sample: true
jobs:
  description: The running jobs. With O(cancel=true), these are the jobs that are being cancelled.
  returned: success
  type: list
  elements: str
  sample: ["4711 (alice, running)"]
pending:
  description: The jobs that wait for nodes. The waiting tasks of an array are one job.
  returned: success
  type: list
  elements: str
  sample: ["4713 (alice, pending)"]
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import job_control
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import HostlistError
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmctld import FOLDER


def hold_new_jobs(module: AnsibleModule) -> bool:
    """Hold back new jobs; return whether that was done, or in check mode would be."""
    if not module.check_mode:
        try:
            job_control.hold_new_jobs(run)
        except CommandFailed as error:
            module.warn(f"{error}. New jobs may start.")
            return False
    return True


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "hold": {"type": "bool", "default": False},
            "cancel": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if not Root("/").exists(f"{FOLDER}/slurm.conf"):
        module.exit_json(changed=False, answers=True, jobs=[], pending=[])
    if not job_control.slurmctld_answers(run):
        module.exit_json(changed=False, answers=False, jobs=[], pending=[])
    try:
        held = module.params["hold"] and hold_new_jobs(module)
        jobs, pending = job_control.all_jobs(run)
        cancels = module.params["cancel"] and bool(jobs)
        if cancels and not module.check_mode:
            job_control.cancel(jobs, run)
    except (CommandFailed, HostlistError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=held or cancels,
        answers=True,
        jobs=[str(job) for job in jobs],
        pending=[str(job) for job in pending],
    )


if __name__ == "__main__":
    main()
