#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_installed
short_description: Check which Slurm a machine has, and record it
version_added: "0.1.0"
description:
  - With O(state=allowed) checks, before packages are installed, that no Slurm would become another one unasked, and
    that a Slurm which is not to be installed at all is there.
  - With O(state=recorded) finds out the version and writes the record C(/etc/ansible/facts.d/hpcai_slurm.fact), by
    which later runs know that nothing has to be installed, and others know for which Slurm they build.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description: What to do, as the description says.
    type: str
    choices: [allowed, recorded]
    default: recorded
  functions:
    description: What the machine is.
    type: list
    elements: str
    choices: [controller, login, compute, accounting]
    required: true
  source:
    description: Where its Slurm comes from.
    type: str
    choices: [distribution, repository, preinstalled]
    required: true
  version:
    description: The version that is wanted, or its beginning. Empty for any.
    type: str
    default: ""
  packages:
    description: Packages that are installed.
    type: list
    elements: str
    default: []
  client:
    description: The package whose version is Slurm's. Empty to ask the daemons only.
    type: str
    default: ""
  prefix:
    description: Below which C(bin) and C(sbin) have Slurm's commands.
    type: path
    default: /usr
  upgrade:
    description: Whether a Slurm that is there may become one of another version or source.
    type: bool
    default: false
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Says what it would record, without changing anything.
    details:
      - A version that cannot be told is no failure there, because in check mode nothing was installed.
  diff_mode:
    description: Shows the record before and after.
  platform:
    description: Works where dpkg or rpm keep the packages, and on a machine with a Slurm of its own.
"""

EXAMPLES = r"""
- name: Check that the image has its own Slurm
  hpcai.azure.slurm_installed:
    state: allowed
    functions: [compute]
    source: preinstalled
    prefix: /opt/slurm

- name: Record what is installed
  hpcai.azure.slurm_installed:
    functions: [compute]
    source: distribution
    packages: [munge, slurm-client, slurmd]
    client: slurm-client
"""

RETURN = r"""
version:
  description: Version of the Slurm that is installed; null if there is none.
  returned: success
  type: str
  sample: 22.05.8
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import change_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import installed


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["allowed", "recorded"], "default": "recorded"},
            "functions": {
                "type": "list",
                "elements": "str",
                "choices": ["controller", "login", "compute", "accounting"],
                "required": True,
            },
            "source": {"type": "str", "choices": ["distribution", "repository", "preinstalled"], "required": True},
            "version": {"type": "str", "default": ""},
            "packages": {"type": "list", "elements": "str", "default": []},
            "client": {"type": "str", "default": ""},
            "prefix": {"type": "path", "default": "/usr"},
            "upgrade": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked, root = module.params, Root()
    wanted = installed.SlurmOptions(
        functions=tuple(asked["functions"]),
        source=asked["source"],
        version=asked["version"],
        packages=tuple(asked["packages"]),
        client=asked["client"],
        prefix=asked["prefix"].rstrip("/"),
        may_upgrade=asked["upgrade"],
    )
    record, version = installed.read_record(root), installed.read_version(wanted, run)
    try:
        if asked["state"] == "allowed":
            installed.check_before(wanted, record, version, root)
            module.exit_json(changed=False, version=version)
        if not module.check_mode:
            installed.check_after(wanted, version)
        change = change_of(root.at(installed.RECORD), installed.record_of(wanted, record, version))
        if not module.check_mode:
            change.apply()
    except (installed.NotThisSlurm, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=change.changes, version=version, diff=change.as_diff())


if __name__ == "__main__":
    main()
