#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: container_node
short_description: Make a node ready for jobs in containers
version_added: "0.1.0"
description:
  - Does in one task what M(hpcai.azure.node_directories), M(hpcai.azure.enroot_setup) and M(hpcai.azure.pyxis_plugin)
    do one by one, in this order. Nothing is changed if one of them cannot know what to do.
author:
  - hpcai.azure contributors (@hpcai)
options:
  enroot:
    description: Options of M(hpcai.azure.enroot_setup).
    type: dict
    required: true
  pyxis:
    description: Options of M(hpcai.azure.pyxis_plugin). Empty leaves the plugin alone.
    type: dict
    default: {}
  folders:
    description:
      - Directories on the scratch, as in M(hpcai.azure.node_directories). They are the set C(containers) there, so each
        boot makes them again.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path below the scratch, or an absolute one that lies there.
        type: str
        required: true
      mode:
        description: Permissions, octal digits in quotes.
        type: str
        default: '0755'
  make_folders:
    description: V(false) only keeps them for the boot. That is for an image, which has no scratch.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
seealso:
  - module: hpcai.azure.enroot_setup
  - module: hpcai.azure.node_directories
  - module: hpcai.azure.pyxis_plugin
"""

EXAMPLES = r"""
- name: Make the node ready for containers
  hpcai.azure.container_node:
    enroot:
      settings:
        ENROOT_DATA_PATH: /scratch/enroot/data/user-$(id -u)
      pyxis_runtime_path: /scratch/pyxis
    pyxis:
      source: /usr/share/hpcai/pyxis/pyxis-0.24.0.tar.gz
      version: 0.24.0
    folders:
      - path: /scratch/pyxis
      - path: /scratch/enroot/data
        mode: '1777'
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be, in its order.
  returned: success
  type: list
  elements: str
  sample:
    - make /scratch/enroot/data root:root 1777
    - write /etc/enroot/enroot.conf.d/50-hpcai.conf
    - "build /usr/lib/hpcai/pyxis/spank_pyxis.so: none was built yet"
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import node
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.build import BuildFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.wanted import OptionError
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

FOLDER: dict[str, dict[str, Any]] = {
    "path": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0755"},
}


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "enroot": {"type": "dict", "required": True},
            "pyxis": {"type": "dict", "default": {}},
            "folders": {"type": "list", "elements": "dict", "options": FOLDER, "default": []},
            "make_folders": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        wanted = node.wanted(asked["enroot"], asked["pyxis"], asked["folders"], asked["make_folders"])
        done = node.prepare(wanted, Root("/"), run, module.check_mode)
    except (BuildFailed, CommandFailed, ConfigError, OptionError, UnknownVmSize, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in done.warnings:
        module.warn(warning)
    module.exit_json(changed=bool(done.actions), actions=list(done.actions), diff=list(done.diff))


if __name__ == "__main__":
    main()
