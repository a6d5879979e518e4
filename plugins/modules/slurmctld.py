#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurmctld
short_description: Keep slurmctld running with the configuration on disk
version_added: "0.1.0"
description:
  - Compares the configuration that the running slurmctld has loaded with the files of O(conf_dir), key by key. If a key
    differs, it runs C(scontrol reconfigure), or restarts slurmctld if the key requires this. Comments and the order of
    lines are not compared. Starts and enables slurmctld if it does not run.
  - RV(reasons) lists each changed key, with the manual page that says whether the change requires a restart. An unknown
    key requires a restart.
  - C(/run/hpcai/slurmctld.taken.json) records digests of the configuration that this slurmctld process has loaded.
    After a crash, a boot or a manual restart, there is no record of the new process. Files that are older than this
    process then count as loaded, and if a file is newer, slurmctld is restarted.
  - Also restarts slurmctld if its unit, a drop-in or its environment file is newer than the process.
  - Waits until slurmctld answers. Running jobs continue during a reconfiguration or a restart.
  - If a change would make slurmctld lose jobs, such as the removal of a partition or of a node with jobs, the module
    fails before it reconfigures or restarts slurmctld, unless O(lose_jobs) is set.
author:
  - hpcai.azure contributors (@hpcai)
options:
  conf_dir:
    description: Folder of C(slurm.conf) and the files next to it.
    type: path
    default: /etc/slurm
  lose_jobs:
    description:
      - Whether to allow changes that make slurmctld lose jobs. These are the removal of a partition or of a node that
        has jobs, and a new C(SelectType), C(SwitchType), C(StateSaveLocation) or C(ClusterName) while there are any
        jobs.
    type: bool
    default: false
  pending:
    description:
      - Dictionary with names of files in O(conf_dir) as keys, and as values the text that an earlier task would have
        written. An empty string means that the task would have removed the file.
      - Only used in check mode, where that task has not written the files, so that this module and
        M(hpcai.azure.slurmd) can report what the changes require.
    type: dict
    default: {}
  unit_pending:
    description:
      - Whether an earlier task changed a drop-in of slurmctld's unit. Only used in check mode, where that task has not
        written it.
    type: bool
    default: false
  timeout:
    description: Seconds to wait for slurmctld to answer.
    type: int
    default: 60
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    details:
      - A unit that systemd does not know is not a failure in check mode, because the task that installs its package has
        not run either.
  diff_mode:
    description: Shows the commands and the reasons.
  idempotent:
    description: A second run with unchanged files changes nothing.
  platform:
    description: Works with Slurm 22.05 and later.
seealso:
  - module: hpcai.azure.slurmd
  - module: hpcai.azure.slurm_nodes
"""

EXAMPLES = r"""
- name: Run slurmctld with the configuration in /etc/slurm
  hpcai.azure.slurmctld:
  register: controller

- name: Run slurmd with the same configuration, after slurmctld
  hpcai.azure.slurmd:
    controller: "{{ hostvars['ctl'].controller.for_slurmd }}"
"""

RETURN = r"""
commands:
  description:
    - Commands of C(systemctl) that the module ran, in order. In check mode, the commands that it would run.
      V(reconfigure) is a command of C(scontrol).
  returned: success
  type: list
  elements: str
  sample: [reconfigure]
reasons:
  description: Why the commands were needed.
  returned: success
  type: list
  elements: str
  sample:
    - "slurm.conf MaxJobCount changed (slurm.conf(5))"
for_slurmd:
  description:
    - The data with which the module M(hpcai.azure.slurmd) compares a node. C(release) is Slurm's release. C(files)
      contains digests of the files that slurmctld sends to the nodes. C(handed_out) is true only in check mode,
      if a real run would send these files to the nodes before M(hpcai.azure.slurmd) compares them.
    - C(part) describes what slurmd reads only at its start. C(entries) contains a digest for each key or file.
      C(hardware) contains a digest of the hardware in C(slurm.conf) and C(gres.conf) for each group of equal nodes.
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

    :raises CommandFailed: it would, or it does not report its jobs.
    """
    for what, jobs in slurmctld.jobs_at_stake(made.losing, run).items():
        shown = ", ".join(jobs[:10]) + (", ..." if len(jobs) > 10 else "")
        raise CommandFailed(
            f"{what}: slurmctld would lose {len(jobs)} jobs ({shown}). slurmctld was not changed, but the controller "
            f"already has the new file. Wait until the jobs end, cancel "
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
