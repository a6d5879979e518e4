#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: beeond_node
short_description: Prepare a node for BeeOND, a BeeGFS file system for each job
version_added: "0.1.0"
description:
  - Writes the settings that C(hpcnode beeond) reads (C(/etc/hpcai/beeond.json)), and a systemd template unit for each
    BeeGFS daemon.
  - Also writes and enables C(hpcai-beeond-sweep.service), which runs at boot before slurmd. It removes the BeeOND file
    systems (data, units and mounts) of jobs that were running when the node went down. It does not touch other files.
  - M(hpcai.azure.job_hooks) installs the scripts that call C(hpcnode beeond) before and after a job.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description: V(absent) removes the settings and the units. It does not stop the BeeGFS of a running job.
    type: str
    choices: [present, absent]
    default: present
  settings:
    description:
      - A mapping of settings. A missing key gets its default. The keys are C(mount_point), C(data_root),
        C(metadata_nodes), C(port_shift), C(daemons), C(rdma), C(interfaces), C(deadline_s), C(deadline_per_node_s),
        C(start_limit_s), C(stop_limit_s), C(least_free_mib), C(release), C(client) and C(servers). The role C(beeond)
        has a variable for each key.
    type: dict
    default: {}
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
seealso:
  - module: hpcai.azure.job_hooks
  - name: Guide to BeeOND
    description: What a job gets, what happens when a node fails, and how the file system is removed.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_beeond.rst
"""

EXAMPLES = r"""
- name: Give jobs a BeeGFS at /beeond
  hpcai.azure.beeond_node:
    settings:
      mount_point: /beeond
      data_root: /scratch/beeond
      metadata_nodes: 2

- name: Remove the settings and the units
  hpcai.azure.beeond_node:
    state: absent
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/systemd/system/hpcai-beeond-storage@.service
    - write /etc/hpcai/beeond.json
    - enable hpcai-beeond-sweep.service
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.install import apply, plan, plan_absent
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import diff_of


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "settings": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    root = Root("/")
    try:
        absent = module.params["state"] == "absent"
        made = plan_absent(root) if absent else plan(root, module.params["settings"])
        if not module.check_mode:
            apply(made, root, run)
    except (CommandFailed, ConfigError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(made.actions), actions=made.actions, diff=diff_of(made.files))


if __name__ == "__main__":
    main()
