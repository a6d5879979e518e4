#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nfs_exports
short_description: Export folders over NFS to the cluster's subnets only
version_added: "0.1.0"
description:
  - Writes C(/etc/exports.d/hpcai.exports), creates missing folders, and reloads the exports of a running server.
  - Refuses to export C(/) or folders of the operating system.
  - Refuses C(0.0.0.0/0), which would allow every client. Unless O(allow_public) is set, it also refuses networks that
    are not private, because an NFS server trusts the UIDs that its clients send.
author:
  - hpcai.azure contributors (@hpcai)
options:
  exports:
    description:
      - The folders to export. The module's file C(/etc/exports.d/hpcai.exports) contains only these folders. A folder
        that is removed from the list is no longer exported, and an empty list removes the file.
      - Exports in other files stay as they are.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The folder, such as V(/shared).
        type: str
        required: true
      options:
        description: Options of exports(5).
        type: list
        elements: str
        default: [rw, sync, no_subtree_check, root_squash]
      networks:
        description: Networks or addresses that may mount this folder. If empty, the networks in the top-level option
          O(networks) may mount it.
        type: list
        elements: str
        default: []
      owner:
        description: Owner of the folder, if it is created.
        type: str
        default: root
      group:
        description: Group of the folder, if it is created.
        type: str
        default: root
      mode:
        description: Permissions of the folder, if it is created, as octal digits in quotes.
        type: raw
        default: '0755'
  networks:
    description:
      - Networks or addresses that may mount the folders. V(local) is the subnet of the network interface that has the
        server's default route.
    type: list
    elements: str
    default: [local]
  allow_public:
    description:
      - Whether to allow networks that are not private (RFC 1918, RFC 4193). C(0.0.0.0/0) is always refused.
    type: bool
    default: false
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    description: Shows the file before and after.
  platform:
    description: Needs the kernel's NFS server with C(exportfs), and C(ip) for V(local).
notes:
  - This module does not start the server (C(nfs-server)).
seealso:
  - module: hpcai.azure.shared_mounts
"""

EXAMPLES = r"""
- name: Export a shared folder, and read-only software, to two subnets of the cluster
  hpcai.azure.nfs_exports:
    exports:
      - path: /shared
      - path: /apps
        options: [ro, sync, no_subtree_check, root_squash]
    networks: [10.0.0.0/24, 10.0.1.0/24]
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - make /shared root:root 0755
    - write /etc/exports.d/hpcai.exports
    - exportfs -ra
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError, arguments_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disks import Refused
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs import exports

EXPORT = arguments_of(exports.EXPORT_KEYS, exports.EXPORT_DEFAULTS, exports.EXPORT_REQUIRED)


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "exports": {"type": "list", "elements": "dict", "options": EXPORT, "default": []},
            "networks": {"type": "list", "elements": "str", "default": ["local"]},
            "allow_public": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    root, check = Root("/"), module.check_mode
    try:
        requested = exports.parse(module.params["exports"])
        text = exports.text(requested, module.params["networks"], run, module.params["allow_public"])
        actions = exports.make_folders(root, requested, check)
        file = exports.plan(root, text)
        if file.changes:
            actions.append(f"{'remove' if text is None else 'write'} {file.path}")
        if not check:
            file.apply()
        if exports.is_running(run) and (file.changes or exports.is_stale(root, text)):
            actions.append("exportfs -ra")
            if not check:
                exports.refresh(run)
    except (CommandFailed, ConfigError, Refused, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(actions), actions=actions, diff=file.as_diff())


if __name__ == "__main__":
    main()
