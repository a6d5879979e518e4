#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_tools
short_description: Install the node command hpcnode and its units
version_added: "0.1.0"
description:
  - Installs C(hpcnode), which does on a node, at boot and without Ansible, what the modules of this collection do.
  - C(hpcnode) is the code of the modules themselves. It comes with this module, so the node needs no package index and
    nothing else is copied, and it always has the version of the collection that installed it, also an older one.
  - Installs the units of the boot phase and enables them, C(hpcai-boot.target) and a service for each step, such as
    C(hpcai-scratch.service). They run at the next boot; M(hpcai.azure.node_boot) runs the same steps at once. A unit
    that is masked stays masked; if slurmd requires it, slurmd does not start then.
  - A new version is built beside the old one and takes its place in one step. A boot, or a C(hpcnode) that runs
    meanwhile, sees the one or the other. What was changed by hand is put right and reported as RV(restored).
  - An C(hpcnode) that runs, such as one that watches checkpoints, goes on with the version it was started from. That
    version stays on the disk, and is removed by a later run of this module that finds nobody using it.
  - Nothing is sent to a node that has it all. The task first compares a digest of the code there with the controller's,
    and where they are equal, C(hpcnode tools check) says whether anything else would change. Only then the module runs.
  - Removes nvidia-ml-py, which version 0.1.0 unpacked in C(/usr/lib/hpcai/site).
  - Makes the folders C(/etc/hpcai) and C(/var/lib/hpcai).
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(present) installs this version, whatever is there.
      - V(absent) removes C(hpcnode) and its units. The settings in C(/etc/hpcai) and the state in C(/var/lib/hpcai)
        stay.
    type: str
    choices: [present, absent]
    default: present
  interpreter:
    description:
      - Absolute path of the Python that runs C(hpcnode), 3.9 or later. It runs isolated from C(PYTHON*) variables and
        packages of a user.
      - Defaults to the one that runs this module, as C(/usr/bin/python3) if that is the same.
    type: path
  root:
    description:
      - Folder below which a machine's files lie, for an image that is not running. Units are enabled there as well,
        but systemd is not told.
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    description: Shows each path that is written or removed, before and after. A new version is one path.
  idempotent:
    description: A second run with the same collection changes nothing.
  platform:
    description: Works where systemd is 249 or later and Python 3.9 or later.
notes:
  - Refuses, and changes nothing, if C(/usr/bin/hpcnode) or one of the units is there and was not made by this module.
  - Units that C(systemctl disable) disabled are enabled again. A step that shall not run belongs in C(boot_skip) of
    C(/etc/hpcai/node.json), which the role writes.
seealso:
  - module: hpcai.azure.node_boot
  - name: Role hpcai.azure.node_tools
    description: Uses this module, and writes the node's settings.
    link: https://github.com/hpcai/azure/tree/main/roles/node_tools
"""

EXAMPLES = r"""
- name: Install hpcnode
  hpcai.azure.node_tools:

- name: Install hpcnode into an image that is mounted here
  hpcai.azure.node_tools:
    root: /mnt/image
    interpreter: /usr/bin/python3

- name: Remove it
  hpcai.azure.node_tools:
    state: absent
"""

RETURN = r"""
version:
  description: Version of the collection, and so of C(hpcnode).
  returned: success
  type: str
  sample: 0.1.0
commands:
  description: The sub-commands of that C(hpcnode).
  returned: success
  type: list
  elements: str
  sample: [sku, boot, scratch, clocks, nccl, pins]
interpreter:
  description: The Python that runs C(hpcnode).
  returned: success
  type: str
  sample: /usr/bin/python3
written:
  description: What was written, a new version as one folder.
  returned: success
  type: list
  elements: str
  sample:
    - /usr/lib/hpcai/trees/hpcnode-0.1.0-8f3b2c41d07e
    - /usr/lib/hpcai/lib
removed:
  description: What was removed, such as an older version.
  returned: success
  type: list
  elements: str
  sample: []
restored:
  description: Those of RV(written) and RV(removed) that this very version had been installed with, and that somebody
    else had changed, removed or added.
  returned: success
  type: list
  elements: str
  sample: [/usr/lib/hpcai/trees/hpcnode-0.1.0-8f3b2c41d07e/hpcai_node/cli/main.py]
nft_needed:
  description: Whether nft is not installed, with which M(hpcai.azure.metadata_access) loads its rules.
  returned: success
  type: bool
  sample: false
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import NAMES
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import NoRoot, existing_root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, must, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.layout import choose_interpreter
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.payload import ToolsError

SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "interpreter": {"type": "path"},
    "root": {"type": "path", "default": "/"},
}


def main() -> NoReturn:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    try:
        root = existing_root(params["root"])
        interpreter = choose_interpreter(params["interpreter"])
        expected, result = disk.compare(root, interpreter, absent=params["state"] == "absent")
        if result["changed"] and not module.check_mode:
            done = disk.apply(root, expected)
            if done.touches_units and root.is_this_machine and root.exists("/run/systemd/system"):
                must(run(["systemctl", "daemon-reload"]))
    except (ToolsError, CommandFailed, NoRoot, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(commands=list(NAMES), **result)


if __name__ == "__main__":
    main()
