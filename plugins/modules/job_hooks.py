#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: job_hooks
short_description: Install scripts that Slurm runs before and after each job, and periodically
version_added: "0.1.0"
description:
  - Installs scripts in C(/etc/hpcai/prolog.d), C(/etc/hpcai/epilog.d) and C(/etc/hpcai/health.d), and their timeouts in
    C(/etc/hpcai/job_hooks.json). Each role manages its own set of scripts, identified by O(name). A script that is no
    longer listed in its set is removed. Files that belong to no set stay unchanged.
  - Slurm calls C(prolog), C(epilog) and C(health) in C(/usr/libexec/hpcai), which M(hpcai.azure.node_tools) installs.
    These programs run the scripts of their folder in the order of the scripts' names, each with a timeout. They write
    the output to C(/var/log/hpcai/jobs).
  - A script that exceeds its timeout is ended, and counts as failed. If a prolog script fails, the remaining prolog
    scripts are skipped, and the node is drained as described below. The drain reason then contains the last line of the
    script's output, or the timeout. A batch job is requeued, and a job of C(srun) or C(salloc) is cancelled. If a
    prolog script ends with the exit status 75, the node is not at fault. The job is then requeued or cancelled in the
    same way, but the node is not drained.
  - If an epilog script fails, the others still run, and the node is drained. The result of a health script has no
    effect on the node.
  - Without the role P(hpcai.azure.health_checks#role), Slurm drains a node whose prolog or epilog fails. With this
    role, the arbiter drains the node instead. The arbiter is a service on the controller that limits how many nodes are
    drained. If the arbiter does not drain the node, for example because that limit is reached, the node can get further
    jobs.
author:
  - hpcai.azure contributors (@hpcai)
options:
  name:
    description: Name of this set of scripts. Other sets stay as they are.
    type: str
    required: true
  prolog:
    description:
      - Scripts to run before a job starts on the node, as a mapping of names to scripts. A name consists of two digits,
        C(-), and letters, digits, C(.), C(_) or C(-), for example C(50-gpu). The digits define the order.
      - Each value is a mapping of C(content), the text of the script, and C(limit), its timeout in seconds. Without
        C(limit), the timeout C(script) of O(limits) applies. A script with V(null) instead of the mapping is not
        installed.
      - To read the content from a file on the control node, use the lookup
        P(ansible.builtin.file#lookup).
    type: dict
    default: {}
  epilog:
    description: Scripts to run after a job, in the form of O(prolog).
    type: dict
    default: {}
  health:
    description: Scripts to run periodically, in the form of O(prolog).
    type: dict
    default: {}
  limits:
    description:
      - Timeouts in seconds for each kind (C(prolog), C(epilog) and C(health)). C(script) applies to each script without
        its own limit. C(total) applies to all scripts of a kind together. If C(total) is reached, the remaining scripts
        are not started, and this counts as a failure.
      - Slurm's own timeouts must be higher. The role P(hpcai.azure.slurm#role) derives them from the same numbers.
      - For C(prolog) and C(epilog), C(script) defaults to V(30) and C(total) to V(100). For C(health), C(script)
        defaults to V(20) and C(total) to V(50). If O(limits) is set, timeouts that it does not contain get these
        defaults. If O(limits) is not set, all timeouts stay as they are.
    type: dict
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    description: Shows each script and the settings before and after.
notes:
  - A script runs as root, without a terminal. It must not call C(scontrol) or C(squeue), because slurmctld waits for
    the script.
  - A script may leave processes running in the background, but must redirect the output of these processes.
  - The module fails if another set has a script of the same kind and name, or if a file with this name exists that has
    other content and belongs to no set.
seealso:
  - module: hpcai.azure.node_tools
  - name: Prolog, epilog and health scripts
    description: What happens to nodes and jobs when a script fails, with worked examples.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_hooks.rst
"""

EXAMPLES = r"""
- name: Refuse jobs if a GPU is missing, and record who used the node
  hpcai.azure.job_hooks:
    name: site
    prolog:
      50-gpu:
        content: |
          #!/bin/sh
          found=$(ls -d /proc/driver/nvidia/gpus/*/ | wc -l)
          [ "$found" -eq 8 ] || { echo "$found of 8 GPUs answer"; exit 1; }
        limit: 10
    epilog:
      90-note:
        content: "{{ lookup('ansible.builtin.file', 'files/note.sh') }}"

- name: Allow more time for prologs
  hpcai.azure.job_hooks:
    name: site-limits
    limits:
      prolog:
        script: 120
        total: 300

- name: Remove the scripts of this set
  hpcai.azure.job_hooks:
    name: site
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/hpcai/prolog.d/50-gpu
    - write /etc/hpcai/job_hooks.json
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.install import (
    apply,
    plan,
    scripts_from,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.options import KINDS
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import diff_of


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "prolog": {"type": "dict", "default": {}},
            "epilog": {"type": "dict", "default": {}},
            "health": {"type": "dict", "default": {}},
            "limits": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    asked, root = module.params, Root("/")
    try:
        desired = {kind: scripts_from(kind, asked[kind]) for kind in KINDS}
        made = plan(root, asked["name"], desired, asked["limits"])
        if not module.check_mode:
            apply(root, made)
    except (ConfigError, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in made.warnings:
        module.warn(warning)
    module.exit_json(changed=bool(made.actions), actions=made.actions, diff=diff_of(made.files))


if __name__ == "__main__":
    main()
