#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_tools
short_description: Install the node command hpcnode and its systemd units
version_added: "0.1.0"
description:
  - Installs the command C(hpcnode). It does the same as the collection's modules for nodes, but on the node itself and
    without Ansible, for example at boot.
  - C(hpcnode) consists of the code of these modules. It is copied together with this module, so the node needs no
    package index. C(hpcnode) always has the version of the collection that installed it last, even if the node had a
    newer one.
  - Installs and enables the systemd units that prepare a node at each boot before slurmd starts. These are
    C(hpcai-boot.target) and a service for each step, such as C(hpcai-scratch.service). They run at the next boot.
    M(hpcai.azure.node_boot) runs the same steps immediately. A masked unit stays masked. slurmd requires some of these
    units, and does not start if one of those is masked.
  - Installs manual pages, C(man hpcnode) and one for each command such as C(man hpcnode-stage), and the completion of
    commands and options in bash and zsh.
  - A new version is built next to the old one and replaces it atomically, so that a boot or a C(hpcnode) command during
    the update uses either the old or the new version. Manual changes are undone and reported in RV(restored).
  - A running C(hpcnode), such as one that watches checkpoints, continues with its old version. That version stays on
    the disk, and a later run of this module removes it when no process uses it.
  - The code is not sent to a node that is up to date. The task first compares a digest of the code on the node with
    the digest on the control node. If they are equal, C(hpcnode tools check) checks for other changes.
    The module runs only if something would change.
  - Removes nvidia-ml-py, which version 0.1.0 unpacked in C(/usr/lib/hpcai/site).
  - Creates the folders C(/etc/hpcai) and C(/var/lib/hpcai).
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(present) installs this version, and replaces an older or newer one.
      - V(absent) removes C(hpcnode) and its units. The settings in C(/etc/hpcai) and the state in C(/var/lib/hpcai)
        stay.
    type: str
    choices: [present, absent]
    default: present
  interpreter:
    description:
      - Absolute path of the Python that runs C(hpcnode), 3.9 or later. C(hpcnode) ignores C(PYTHON*) variables and
        users' packages.
      - Defaults to the Python that runs this module. If C(/usr/bin/python3) leads to the same program, this path is
        used instead.
    type: path
  root:
    description:
      - Root folder of the machine's files, for a mounted image that is not booted. Units are enabled there too, but
        systemd is not reloaded.
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    description: Shows each path that is written or removed, before and after. A new version is shown as one path.
  idempotent:
    description: A second run with the same collection changes nothing.
  platform:
    description: Needs systemd 249 or later, and Python 3.9 or later.
notes:
  - Fails, and changes nothing, if C(/usr/bin/hpcnode) or another file that it would write, such as a unit or a manual
    page, exists and was not created by this module.
  - Units that were disabled with C(systemctl disable) are enabled again. To skip a step, list it in
    C(node_tools_boot_skip) of the role C(node_tools), which writes C(/etc/hpcai/node.json).
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

- name: Remove hpcnode
  hpcai.azure.node_tools:
    state: absent
"""

RETURN = r"""
version:
  description: Version of the collection and of C(hpcnode).
  returned: success
  type: str
  sample: 0.1.0
commands:
  description: The sub-commands of C(hpcnode).
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
  description: Paths that were written. A new version is listed as one folder. C(/usr/lib/hpcai/lib) is the link to the
    folder of the current version.
  returned: success
  type: list
  elements: str
  sample:
    - /usr/lib/hpcai/trees/hpcnode-0.1.0-8f3b2c41d07e
    - /usr/lib/hpcai/lib
removed:
  description: Paths that were removed, such as an older version.
  returned: success
  type: list
  elements: str
  sample: []
restored:
  description: Paths of RV(written) and RV(removed) that were changed, removed or added manually since this version was
    installed.
  returned: success
  type: list
  elements: str
  sample: [/usr/lib/hpcai/trees/hpcnode-0.1.0-8f3b2c41d07e/hpcai_node/cli/main.py]
nft_needed:
  description: Whether C(nft) is missing. M(hpcai.azure.metadata_access) needs it to load its rules.
  returned: success
  type: bool
  sample: false
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import NAMES, all_commands
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.pages import all_pages
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
        expected, result = disk.compare(
            root, interpreter, all_pages(all_commands()), absent=params["state"] == "absent"
        )
        if result["changed"] and not module.check_mode:
            done = disk.apply(root, expected)
            if done.touches_units and root.is_this_machine and root.exists("/run/systemd/system"):
                must(run(["systemctl", "daemon-reload"]))
    except (ToolsError, CommandFailed, NoRoot, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(commands=list(NAMES), **result)


if __name__ == "__main__":
    main()
