#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_ids
short_description: Give the accounts slurm and munge the same UIDs and GIDs on every machine
version_added: "0.1.0"
description:
  - Creates the accounts C(slurm) and C(munge) and their groups with fixed ids. Run it before the packages are
    installed, because these would create the accounts with ids that differ between machines.
  - If an account exists with other ids, the module stops the account's services, changes its ids and the owner of its
    files, and starts the services again. It refuses to do so while a job runs on the machine.
  - If SELinux is enabled, the module also gives the files and folders in O(label), and everything below these folders,
    the labels that the SELinux policy defines (C(restorecon)).
author:
  - hpcai.azure contributors (@hpcai)
options:
  slurm_uid:
    description: UID of the user C(slurm).
    type: int
    required: true
  slurm_gid:
    description: GID of the group C(slurm).
    type: int
    required: true
  munge_uid:
    description: UID of the user C(munge).
    type: int
    required: true
  munge_gid:
    description: GID of the group C(munge).
    type: int
    required: true
  paths:
    description:
      - Additional folders with files of these accounts. The usual folders, such as C(/var/lib/slurm) and C(/etc/munge),
        are always included.
    type: list
    elements: path
    default: []
  label:
    description: Files and folders that get the labels of the SELinux policy, with everything below these folders. Paths
      that do not exist are skipped.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    description: Shows the actions.
  platform:
    description: Needs C(groupadd), C(useradd), C(groupmod) and C(usermod).
seealso:
  - name: Where Slurm comes from
    description: Sources, versions, ids and upgrades.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_slurm_packages.rst
"""

EXAMPLES = r"""
- name: Use the same ids on all machines
  hpcai.azure.slurm_ids:
    slurm_uid: 64030
    slurm_gid: 64030
    munge_uid: 11101
    munge_gid: 11101
    label: [/etc/slurm, /etc/munge]
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - groupadd --system --gid 11101 munge
    - useradd --system --no-create-home --uid 11101 --gid munge --home-dir /nonexistent --shell /usr/sbin/nologin munge
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import selinux
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import ids


def main() -> NoReturn:
    numbers = {
        f"{name}_{kind}": {"type": "int", "required": True} for name in ("slurm", "munge") for kind in ("uid", "gid")
    }
    paths = {name: {"type": "list", "elements": "path", "default": []} for name in ("paths", "label")}
    module = AnsibleModule(argument_spec={**numbers, **paths}, supports_check_mode=True)
    asked, root = module.params, Root()
    wanted = [ids.Account(name, asked[f"{name}_uid"], asked[f"{name}_gid"]) for name in ("slurm", "munge")]
    try:
        facts = ids.read_facts(wanted, root)
        made = ids.plan(facts, wanted)
        wrong = selinux.wrong_labels(asked["label"], root, run)
        if not module.check_mode:
            ids.apply(made, facts, root, run, asked["paths"])
            selinux.relabel(wrong, run)
    except (ids.CannotChange, CommandFailed, OSError) as error:
        module.fail_json(msg=str(error))
    actions = [*ids.actions(made), *(f"restorecon {path}" for path in wrong)]
    after = "".join(f"{action}\n" for action in actions)
    module.exit_json(changed=bool(actions), actions=actions, diff={"before": "", "after": after} if actions else {})


if __name__ == "__main__":
    main()
