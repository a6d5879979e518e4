#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurmd
short_description: Run slurmd with the cluster's newest configuration, without disturbing jobs
version_added: "0.1.0"
description:
  - Starts and enables slurmd. Restarts it only after a change of its unit, a drop-in, one of O(files), or a part of the
    cluster's configuration that slurmd reads only at its start, such as C(TaskPlugin) or C(plugstack.conf). All other
    changes reach slurmd when C(scontrol reconfigure) runs on the controller.
  - C(/run/hpcai/slurmd.taken.json) records digests of the configuration with which this slurmd process started. If
    slurmd was reconfigured since its start and this record is missing, the module also restarts slurmd.
  - A restart of slurmd does not end jobs, as long as its unit has C(KillMode=process). But a restart after a change of
    C(job_container.conf) would disturb running jobs. So after a change of this file, the module does not restart slurmd
    while a job runs on the node, even if there is another reason for a restart. RV(waits) reports this. To restart
    slurmd, run the module again when no job runs.
  - Returns digests of the node's configuration and the output of C(slurmd -C). M(hpcai.azure.slurm_nodes) compares them
    with the configuration of the controller before it resumes the node.
author:
  - hpcai.azure contributors (@hpcai)
options:
  controller:
    description:
      - The value RV(hpcai.azure.slurmctld#module:for_slurmd) of M(hpcai.azure.slurmctld). Run that module first, so
        that slurmd fetches the configuration that slurmctld has loaded.
      - If empty, the module compares the configuration that slurmd fetched last with the one that it used at its start.
    type: dict
    default: {}
  files:
    description: Files that slurmd reads when it starts, except those that it fetches from slurmctld.
    type: list
    elements: path
    default: [/etc/hpcai/slurmd.env, /etc/default/slurmd, /etc/sysconfig/slurmd]
  conf_cache:
    description: Folder in which slurmd keeps the fetched files.
    type: path
    default: /var/lib/slurm/slurmd/conf-cache
  pending:
    description:
      - Whether an earlier task would change one of O(files), the unit or a drop-in. Only used in check mode. In check
        mode that task writes nothing, so the module needs this option to predict the restart.
    type: bool
    default: false
  settle:
    description: Seconds that slurmd must run after a start or restart before the module counts this as a success.
    type: float
    default: 1
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
  platform:
    description: Works with Slurm 22.05 and later, on nodes that fetch their configuration (configless).
seealso:
  - module: hpcai.azure.slurmctld
  - module: hpcai.azure.slurm_nodes
"""

EXAMPLES = r"""
- name: Run slurmd with the configuration that slurmctld has loaded
  hpcai.azure.slurmd:
    controller: "{{ hostvars['ctl'].controller.for_slurmd }}"
  register: compute

- name: Compare the hardware of the nodes with slurm.conf
  hpcai.azure.slurm_nodes:
    put_to_work: [compute-0]
    seen:
      compute-0: "{{ hostvars['compute-0'].compute.node }}"
  delegate_to: ctl
"""

RETURN = r"""
commands:
  description:
    - Commands of C(systemctl) that the module ran, in order. In check mode, the commands that it would run.
  returned: success
  type: list
  elements: str
  sample: [restart]
reasons:
  description: Why the commands were needed.
  returned: success
  type: list
  elements: str
  sample:
    - "slurm.conf GresTypes changed (slurm.conf(5))"
waits:
  description: Reasons for a restart of slurmd that is postponed until no job runs on the node.
  returned: success
  type: list
  elements: str
  sample: []
node:
  description:
    - Configuration and hardware of the node. C(held) contains digests of the fetched files, C(hardware) the output of
      C(slurmd -C), C(missing_files) the device files of C(gres.conf) that do not exist, and C(waits) is RV(waits).
  returned: success
  type: dict
  sample:
    held: {"slurm.conf": "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"}
    hardware: {"CPUs": 96, "Boards": 1, "SocketsPerBoard": 2, "CoresPerSocket": 48, "ThreadsPerCore": 1,
               "RealMemory": 907088}
    missing_files: []
    waits: []
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import check_seconds
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import slurmd

FILES = ["/etc/hpcai/slurmd.env", "/etc/default/slurmd", "/etc/sysconfig/slurmd"]


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "controller": {"type": "dict", "default": {}},
            "files": {"type": "list", "elements": "path", "default": FILES},
            "conf_cache": {"type": "path", "default": slurmd.HELD},
            "pending": {"type": "bool", "default": False},
            "settle": {"type": "float", "default": 1},
        },
        supports_check_mode=True,
    )
    root, asked, cache = Root(), module.params, module.params["conf_cache"]
    try:
        settle = check_seconds("settle", module.params["settle"], zero=True)
        facts = slurmd.read_facts(asked["files"], asked["controller"], root, run, cache)
        pending = module.check_mode and asked["pending"]
        made = slurmd.plan(facts, may_come=module.check_mode, pending=pending)
        if not module.check_mode:
            slurmd.apply(made, facts, settle, root, run, cache)
    except (CommandFailed, ValueError) as error:
        module.fail_json(msg=str(error))
    for reason in made.waits:
        module.warn(f"slurmd is not restarted: {reason}.")
    shown = daemon.Plan(made.verbs, made.reasons)
    node = slurmd.describe(made, facts, root, run, cache)
    files = asked["controller"].get("files")
    if module.check_mode and files and ("restart" in made.verbs or asked["controller"].get("handed_out")):
        # In a real run slurmd would have fetched them by now.
        node["held"] = files
    module.exit_json(
        changed=bool(made.verbs),
        commands=list(made.verbs),
        reasons=list(made.reasons),
        waits=list(made.waits),
        node=node,
        diff=dict(daemon.as_diff(facts.service, daemon.DesiredState(running=True, enabled=True), shown)),
    )


if __name__ == "__main__":
    main()
