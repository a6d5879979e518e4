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
  - Run the module with O(state=allowed) before packages are installed. If O(upgrade=false), it fails if the
    installation would change the version or source of an existing Slurm. If O(upgrade=true), it fails on a host with
    slurmctld or slurmdbd if the required version cannot read the state of the installed version. With
    O(source=preinstalled), it also fails if a program or systemd unit that the machine needs is missing.
  - With O(state=recorded), the module determines the version and records it in
    C(/etc/ansible/facts.d/hpcai_slurm.fact). It fails if the version is unknown or is not O(version).
  - The role P(hpcai.azure.slurm#role) reads this record to find out whether anything has to be installed. The role
    P(hpcai.azure.enroot_pyxis#role) reads it to select the packages with Slurm's header files.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description: Use V(allowed) before the installation. It only checks. Use V(recorded) afterwards.
    type: str
    choices: [allowed, recorded]
    default: recorded
  functions:
    description: Functions of the machine in the cluster.
    type: list
    elements: str
    choices: [controller, login, compute, accounting, restd]
    required: true
  source:
    description: Source of the machine's Slurm. V(distribution) means packages of the operating system, V(repository)
      packages of another repository, and V(preinstalled) a Slurm that the image contains already.
    type: str
    choices: [distribution, repository, preinstalled]
    required: true
  version:
    description: The required version, or its beginning such as V(22.05). If empty, any version is accepted.
    type: str
    default: ""
  packages:
    description: Packages that the role P(hpcai.azure.slurm#role) installs. The module adds their names to the record.
    type: list
    elements: str
    default: []
  client:
    description: Name of the package from whose version the module reads Slurm's version, such as C(slurm-client). If
      this option is empty or the package is not installed, the module runs the daemons and C(sinfo) with their option
      for the version.
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
                "choices": ["controller", "login", "compute", "accounting", "restd"],
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
