#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_installed
short_description: Check which Slurm version a machine has, and record it
version_added: "0.1.0"
description:
  - With O(state=allowed) checks, before packages are installed, that an existing Slurm would not change its version or
    source without O(upgrade), and that a preinstalled Slurm exists.
  - With O(state=recorded) determines the version and writes the record C(/etc/ansible/facts.d/hpcai_slurm.fact). Later
    runs read from it that nothing has to be installed, and other roles read from it for which Slurm to build.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description: V(allowed) checks before the installation. V(recorded) checks and records after it.
    type: str
    choices: [allowed, recorded]
    default: recorded
  functions:
    description: Functions of the machine.
    type: list
    elements: str
    choices: [controller, login, compute, accounting]
    required: true
  source:
    description: Source of the machine's Slurm.
    type: str
    choices: [distribution, repository, preinstalled]
    required: true
  version:
    description: The required version, or its beginning. Empty for any version.
    type: str
    default: ""
  packages:
    description: Packages that the role installs.
    type: list
    elements: str
    default: []
  client:
    description: The package whose version is that of Slurm. If empty, only the daemons are queried.
    type: str
    default: ""
  prefix:
    description: Installation prefix of Slurm, with its commands in C(bin) and C(sbin).
    type: path
    default: /usr
  upgrade:
    description: Whether an existing Slurm may change to another version or source.
    type: bool
    default: false
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Reports in check mode what it would record, without changing anything.
    details:
      - An unknown version is not a failure in check mode, because nothing was installed.
  diff_mode:
    description: Shows the record before and after.
  platform:
    description: Works with packages of dpkg or rpm, and on a machine with a Slurm that was not installed from packages.
"""

EXAMPLES = r"""
- name: Check that the image has a preinstalled Slurm
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
  description: Version of the installed Slurm, or null if there is none.
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
