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
  - Before the module changes anything, it looks for conflicts. It fails if a UID or GID belongs to another account or
    group, or if an existing account or group has other numbers. It never changes the numbers of an account.
  - If O(users[].password_hash) is not set, nobody can log in to the account with a password. The module removes a
    password that somebody has set. The user logs in with an SSH key.
  - Also run this module when you bake an image. Then a node of this image has the users before slurmd starts, even if
    Ansible never configures this node.
author:
  - hpcai.azure contributors (@hpcai)
options:
  groups:
    description:
      - The groups. If the primary group of a user is neither listed here nor on the machine, the module creates it,
        with the name of the user.
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
        description: V(absent) removes the group. If the group has another GID, the module fails.
        type: str
        choices: [present, absent]
        default: present
  users:
    description: The users. A user that you no longer list stays. To remove a user, list it with C(state=absent).
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
        description:
          - GID of the primary group. By default it is the same as O(users[].uid), so that each user has a separate
            group.
        type: int
      groups:
        description:
          - Names of additional groups, which must exist on the machine or be listed in O(groups).
          - The user is removed from those groups of O(groups) that are not listed here. Memberships in all other groups
            stay.
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
          - Public keys. The machine that creates the home directory (see O(homes)) writes them as a block to
            C(~/.ssh/authorized_keys). Other lines of this file stay.
        type: list
        elements: str
        default: []
      password_hash:
        description:
          - Hash of the password as in V(/etc/shadow), for example from an Ansible Vault. Never set the password itself.
            The module accepts SHA-512 (C($6$)), yescrypt (C($y$)) and bcrypt (C($2b$)), and otherwise fails.
            C(openssl passwd -6) or C(mkpasswd) create such hashes.
          - Each run sets this hash again, so a change that the user makes on the machine does not last. The module does
            not unlock an account that was locked with C(usermod --lock).
        type: str
      state:
        description:
          - V(absent) removes the account. If the account has another UID, the module fails. The account's files stay.
        type: str
        choices: [present, absent]
        default: present
  home_base:
    description: Parent folder of the home directories.
    type: path
    default: /home
  homes:
    description:
      - Where to create home directories. V(auto) creates a home directory only if it is on a local disk of this
        machine. On a shared file system, the server therefore creates the home directories, and the clients do not,
        even while the file system is not mounted.
      - V(always) also creates them on a shared file system, whose server may refuse this to root. V(never) creates
        none.
    type: str
    choices: [auto, always, never]
    default: auto
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  diff_mode:
    description: Shows the actions, such as which user is added, without passwords and keys.
  platform:
    description: Needs the commands of the package C(passwd) (Debian) or C(shadow-utils) (EL).
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
  description: Actions that the module took, in order. In check mode, the actions that it would take.
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

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError, arguments_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, feed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users import homes
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.ensure import ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.options import (
    GROUP_DEFAULTS,
    GROUP_KEYS,
    GROUP_REQUIRED,
    USER_DEFAULTS,
    USER_KEYS,
    USER_REQUIRED,
    parse,
)

GROUP = arguments_of(GROUP_KEYS, GROUP_DEFAULTS, GROUP_REQUIRED)
USER = arguments_of(USER_KEYS, USER_DEFAULTS, USER_REQUIRED)


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
        done = ensure(Root("/"), options, asked["homes"], run, feed, module.check_mode)
    except (CommandFailed, ConfigError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(done.actions), actions=list(done.actions), diff=dict(done.diff))


if __name__ == "__main__":
    main()
