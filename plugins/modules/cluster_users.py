#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cluster_users
short_description: Give a machine the cluster's users and groups, with the same numbers everywhere
version_added: "0.1.0"
description:
  - Makes local groups and users with exactly the numbers that are asked for. NFS and Slurm know people by number only.
  - Refuses, before it touches anything, a name or a number that is somebody else's, and an account that is there with
    other numbers. It never changes the numbers of an account.
  - Accounts have no password. People log in by their keys.
  - Run it when an image is baked, too. A node that joins by itself then has the users before slurmd starts.
author:
  - hpcai.azure contributors (@hpcai)
options:
  groups:
    description: The groups. A primary group that is neither here nor on the machine is called as its user.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the group.
        type: str
        required: true
      gid:
        description: Its number, V(1000) or more.
        type: int
        required: true
      state:
        description: V(absent) removes the group, if it has this number.
        type: str
        choices: [present, absent]
        default: present
  users:
    description: The users. One that is no longer listed stays; list it with C(state=absent) to remove it.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the user.
        type: str
        required: true
      uid:
        description: Its number, V(1000) or more.
        type: int
        required: true
      gid:
        description: Number of its primary group. By default that of the user, with a group of its own.
        type: int
      groups:
        description:
          - Names of further groups, which must be on the machine or in O(groups).
          - The user is taken out of those of O(groups) that are not named here. Other memberships stay.
        type: list
        elements: str
        default: []
      home:
        description: Its home. By default its name below O(home_base).
        type: str
      shell:
        description: Its shell.
        type: str
        default: /bin/bash
      comment:
        description: Its full name or the like. Only a new account gets it.
        type: str
        default: ''
      ssh_keys:
        description:
          - Public keys, written as a block into C(~/.ssh/authorized_keys) where its home is made. Other lines stay.
        type: list
        elements: str
        default: []
      state:
        description: V(absent) removes the account, if it has this number. Its files stay.
        type: str
        choices: [present, absent]
        default: present
  home_base:
    description: Folder in which homes lie.
    type: path
    default: /home
  homes:
    description:
      - Where homes are made. V(auto) makes them where they lie on a disk of this machine, that is on the server of a
        shared file system and not on its clients. A file system that is away is not touched.
      - V(always) makes them on a shared file system too, which may refuse root to do so. V(never) makes none.
    type: str
    choices: [auto, always, never]
    default: auto
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  diff_mode:
    description: Names what changes.
  platform:
    description: Needs the commands of C(passwd) (Debian) or C(shadow-utils) (EL).
notes:
  - Who is the cluster's is written to C(/etc/hpcai/users.json).
  - Accounts of a directory (LDAP) are not looked at.
seealso:
  - module: hpcai.azure.compute_access
"""

EXAMPLES = r"""
- name: Two users who share a group
  hpcai.azure.cluster_users:
    groups:
      - name: weather
        gid: 5000
    users:
      - name: alice
        uid: 4001
        groups: [weather]
        ssh_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1x alice@laptop"]
      - name: bob
        uid: 4002
        groups: [weather]
    home_base: /shared/home
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be, in its order.
  returned: success
  type: list
  elements: str
  sample:
    - add group weather (5000)
    - add user alice (4001:4001)
    - make home /shared/home/alice
    - write /shared/home/alice/.ssh/authorized_keys
    - write /etc/hpcai/users.json
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users import homes
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.ensure import ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.options import UserProblem, parse

STATE: dict[str, Any] = {"type": "str", "choices": ["present", "absent"], "default": "present"}
GROUP: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "gid": {"type": "int", "required": True},
    "state": STATE,
}
USER: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "gid": {"type": "int"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "home": {"type": "str"},
    "shell": {"type": "str", "default": "/bin/bash"},
    "comment": {"type": "str", "default": ""},
    "ssh_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "state": STATE,
}


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "groups": {"type": "list", "elements": "dict", "options": GROUP, "default": []},
            "users": {"type": "list", "elements": "dict", "options": USER, "default": []},
            "home_base": {"type": "path", "default": "/home"},
            "homes": {"type": "str", "choices": list(homes.MODES), "default": homes.AUTO},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        options = parse(asked["groups"], asked["users"], asked["home_base"])
        done = ensure(Root("/"), options, asked["homes"], run, module.check_mode)
    except (CommandFailed, ConfigError, UserProblem, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(done.actions), actions=list(done.actions), diff=dict(done.diff))


if __name__ == "__main__":
    main()
