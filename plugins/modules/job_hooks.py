#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: job_hooks
short_description: Install scripts that Slurm has run before and after each job, and from time to time
version_added: "0.1.0"
description:
  - Puts scripts into C(/etc/hpcai/prolog.d), C(/etc/hpcai/epilog.d) and C(/etc/hpcai/health.d), and their limits into
    C(/etc/hpcai/job_hooks.json). Each role keeps its own set, by O(name), and a set loses the scripts that it no longer
    names. Files that nobody's set has are left alone.
  - Slurm calls C(/usr/libexec/hpcai/prolog), C(epilog) and C(health), which M(hpcai.azure.node_tools) installs. They
    run the scripts of their folder in the order of the names, each with a limit, and write what it said to
    C(/var/log/hpcai/jobs).
  - The first script of a prolog that fails ends the prolog. Slurm drains the node, C(hpcnode) puts the script's last
    line into the reason, and a batch job goes to another node. All scripts of an epilog run. If one failed, Slurm
    drains the node, too. What a health script answers changes nothing by itself.
author:
  - hpcai.azure contributors (@hpcai)
options:
  name:
    description: Who wants these scripts. Other sets stay as they are.
    type: str
    required: true
  prolog:
    description:
      - Scripts to run before a job starts on the node, by name. A name is two digits, C(-), and letters, digits, C(.),
        C(_) or C(-), for example C(50-gpu); the digits give the order.
      - Each is a mapping of C(content), the text of the script, and C(limit), seconds that it may take. Without
        C(limit) that of the kind counts. V(null) in the place of the mapping leaves the script out.
      - A file of the controller becomes content by the lookup P(ansible.builtin.file#lookup).
    type: dict
    default: {}
  epilog:
    description: Scripts to run after a job, in the form of O(prolog).
    type: dict
    default: {}
  health:
    description: Scripts to run from time to time, in the form of O(prolog).
    type: dict
    default: {}
  limits:
    description:
      - Seconds by kind. C(script) for each script without a limit of its own, C(total) for all of a kind together.
      - Slurm's own limits must be higher; the role P(hpcai.azure.slurm#role) derives them from the same numbers.
      - A kind that is not named has its default, V(30) and V(100), of C(health) V(20) and V(50). Without this option
        all stay as they are.
    type: dict
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    description: Shows each script and the settings before and after.
notes:
  - A script runs as root, without a terminal, and must not call C(scontrol) or C(squeue), since slurmctld waits for it.
  - What a script leaves running must have its own output, and goes on.
  - Refuses to overwrite a script of the same name that it did not put there.
seealso:
  - module: hpcai.azure.node_tools
  - name: Prolog, epilog and health scripts
    description: What happens to nodes and jobs when a script fails, with worked examples.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_hooks.rst
"""

EXAMPLES = r"""
- name: Refuse jobs where a GPU is missing, and note who used the node
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

- name: Give prologs more time
  hpcai.azure.job_hooks:
    name: site
    limits:
      prolog:
        script: 120
        total: 300

- name: Take the scripts of this set away
  hpcai.azure.job_hooks:
    name: site
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be, in its order.
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
