#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: pyxis_plugin
short_description: Build the pyxis plugin for the Slurm that is installed
version_added: "0.1.0"
description:
  - Builds pyxis from the archive of its source, for exactly the Slurm that is installed, because Slurm loads a plugin
    of its own version only. It is built again when Slurm, its package, pyxis or the source changes, or somebody changed
    the plugin, and only then. C(/var/lib/hpcai/pyxis.json) records what it was made of.
  - The plugin lies in C(/usr/lib/hpcai/pyxis/SLURM-PYXIS/), and C(/usr/lib/hpcai/pyxis/spank_pyxis.so), which stands in
    C(plugstack.conf), is a link to it. Jobs that run keep the one that they have loaded.
  - It is unpacked and compiled as the user C(nobody), in a folder below C(/var/tmp) that is removed.
author:
  - hpcai.azure contributors (@hpcai)
options:
  source:
    description:
      - The archive of the source on the node, such as C(v0.24.0.tar.gz) as GitHub has it. It has to stay there, because
        the next change of Slurm needs it again.
    type: path
    required: true
  sha256:
    description: Its SHA-256 digest. Without it the file counts as it is; the record has its digest.
    type: str
    default: ''
  version:
    description: Version of pyxis.
    type: str
    required: true
  prefix:
    description: Folder below which Slurm is, with C(bin/scontrol) and the headers C(include/slurm/spank.h).
    type: path
    default: /usr
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description: Says whether it would build, and why.
  diff_mode:
    description: Shows the record before and after.
  platform:
    description: Needs Python 3.9 or later, make, a C compiler and Slurm's headers.
seealso:
  - module: hpcai.azure.enroot_setup
  - module: hpcai.azure.container_node
"""

EXAMPLES = r"""
- name: Build pyxis for this node's Slurm
  hpcai.azure.pyxis_plugin:
    source: /usr/share/hpcai/pyxis/pyxis-0.24.0.tar.gz
    version: 0.24.0
"""

RETURN = r"""
plugin:
  description: Path of the plugin for C(plugstack.conf).
  returned: success
  type: str
  sample: /usr/lib/hpcai/pyxis/spank_pyxis.so
reason:
  description: Why it was built, or in check mode would be; empty where it was as it should be.
  returned: success
  type: str
  sample: it is for Slurm 22.05.8, and not 23.11.4
slurm:
  description: Version of the Slurm that it is for.
  returned: success
  type: str
  sample: 23.11.4
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.build import BuildFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.pyxis import (
    LINK,
    as_diff,
    bring,
    look,
)


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "path", "required": True},
            "sha256": {"type": "str", "default": ""},
            "version": {"type": "str", "required": True},
            "prefix": {"type": "path", "default": "/usr"},
        },
        supports_check_mode=True,
    )
    asked, root = module.params, Root("/")
    try:
        plan = look(asked["source"], asked["sha256"], asked["version"], root, run, asked["prefix"])
        if plan.reason and not module.check_mode:
            bring(plan, asked["source"], root, run)
    except (BuildFailed, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(plan.reason), plugin=LINK, reason=plan.reason, slurm=plan.wanted.slurm, diff=as_diff(plan)
    )


if __name__ == "__main__":
    main()
