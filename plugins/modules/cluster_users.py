#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cluster_users
short_description: Create the cluster's users and groups with the same UIDs and GIDs on every machine
version_added: "0.1.0"
description:
  - Creates local groups and users with exactly the UIDs and GIDs that you give, because NFS and Slurm identify users by
    number only.
  - Before it changes anything, it refuses a name or a number that another account uses, and an existing account with
    other numbers. It never changes the numbers of an account.
  - Accounts have no password. Users log in with their SSH keys.
  - Also run it when you bake an image, so that a node that joins automatically has the users before slurmd starts.
author:
  - hpcai.azure contributors (@hpcai)
options:
  groups:
    description:
      - The groups. A primary group that is neither listed here nor on the machine is created with the name of its user.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the group.
        type: str
        required: true
      gid:
        description: GID of the group, V(1000) or more.
        type: int
        required: true
      state:
        description: V(absent) removes the group if it has this GID.
        type: str
        choices: [present, absent]
        default: present
  users:
    description: The users. A user that is no longer listed stays. To remove it, list it with C(state=absent).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the user.
        type: str
        required: true
      uid:
        description: UID of the user, V(1000) or more.
        type: int
        required: true
      gid:
        description: GID of the primary group. Defaults to O(users[].uid), with a group for this user alone.
        type: int
      groups:
        description:
          - Names of additional groups, which must exist on the machine or be listed in O(groups).
          - The user is removed from the groups of O(groups) that are not listed here. Other memberships stay.
        type: list
        elements: str
        default: []
      home:
        description: Home directory. Defaults to a directory named after the user below O(home_base).
        type: str
      shell:
        description: Login shell.
        type: str
        default: /bin/bash
      comment:
        description: Comment, such as the full name. Only set when the account is created.
        type: str
        default: ''
      ssh_keys:
        description:
          - Public keys, written as a block to C(~/.ssh/authorized_keys) on the machine that creates the home directory
            (see O(homes)). Other lines stay.
        type: list
        elements: str
        default: []
      state:
        description: V(absent) removes the account if it has this UID. Its files stay.
        type: str
        choices: [present, absent]
        default: present
  home_base:
    description: Parent folder of the home directories.
    type: path
    default: /home
  homes:
    description:
      - Where to create home directories. V(auto) creates them only on a local disk of this machine, that is, on the
        server of a shared file system and not on its clients. A file system that is not available is skipped.
      - V(always) also creates them on a shared file system, which may deny this to root. V(never) creates none.
    type: str
    choices: [auto, always, never]
    default: auto
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  diff_mode:
    description: Shows the names of what changes.
  platform:
    description: Needs the commands of C(passwd) (Debian) or C(shadow-utils) (EL).
notes:
  - C(/etc/hpcai/users.json) lists the users and groups that this module manages.
  - Accounts from a directory service (LDAP) are ignored.
seealso:
  - module: hpcai.azure.compute_access
"""

EXAMPLES = r"""
- name: Create two users who share a group
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
  description: Actions that were done, or in check mode would be, in order.
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
