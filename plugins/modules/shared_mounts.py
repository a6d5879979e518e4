#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: shared_mounts
short_description: Mount shared file systems such as NFS and Lustre without blocking the boot
version_added: "0.1.0"
description:
  - Writes a systemd mount unit for each file system, and by default an automount unit, which mounts the file system at
    the first access. Mounts that this module created before and that are no longer listed are unmounted.
  - An unavailable server does not block the boot. With O(mounts[].automount=true), a failed mount is retried at the
    next access. With O(mounts[].automount=false), the machine tries once at boot, for at most O(mounts[].timeout)
    seconds. slurmd waits for the end of this attempt, and then starts even if the attempt has failed. Run the module
    again to mount the file system after that.
  - If SELinux is enabled and a mount is NFS, sets SELinux's boolean C(use_nfs_home_dirs), because otherwise sshd cannot
    read keys in homes on NFS. Resets it when no NFS mount is left, unless it was on before.
  - Unless O(mounts[].hide=true), refuses a mount that would hide the home directory of a local account, because that
    user could not log in with an SSH key while the server is unavailable.
author:
  - hpcai.azure contributors (@hpcai)
options:
  mounts:
    description: The file systems to mount.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Mount point, such as V(/shared).
        type: str
        required: true
      source:
        description: What to mount. V(SERVER:/PATH) for NFS, V(ADDRESS@tcp:/NAME) for Lustre.
        type: str
        required: true
      type:
        description: Type of the file system.
        type: str
        choices: [nfs4, nfs, lustre]
        default: nfs4
      options:
        description:
          - Mount options, which replace all defaults for the type. The defaults are
            C(vers=4.2,hard,proto=tcp,nconnect=8,rsize=1048576,wsize=1048576) for V(nfs4), the same with C(vers=3) for
            V(nfs), and C(flock) for V(lustre).
          - The module always adds C(nofail) and C(_netdev), and also C(noatime), C(nosuid) and C(nodev), unless the
            list contains their opposites, such as C(suid).
        type: list
        elements: str
      automount:
        description: Whether to mount the file system at the first access. Otherwise it is mounted at boot, if the
          server answers.
        type: bool
        default: true
      timeout:
        description: Timeout in seconds for one mount attempt, V(1) to V(300).
        type: int
        default: 30
      hide:
        description: Whether the mount may hide home directories of local accounts.
        type: bool
        default: false
  state:
    description:
      - V(present) writes, enables and starts the units. It also mounts each file system immediately, even
        with O(mounts[].automount=true), to find out whether this is possible.
      - V(configured) only writes and enables the units. Use it when you bake an image.
    type: str
    choices: [present, configured]
    default: present
  when_unreachable:
    description: What to do if a file system cannot be mounted now. Its units are kept, whether the task fails or warns.
    type: str
    choices: [fail, warn]
    default: fail
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Reports in check mode what it would do, without changing or mounting anything.
  platform:
    description: Needs systemd and the client of the file system.
notes:
  - With C(hard), processes that use a mounted file system wait while its server is unavailable. With C(soft) they would
    get errors, and could lose written data.
  - C(/etc/hpcai/shared_fs.json) lists the mounts of this module.
seealso:
  - module: hpcai.azure.nfs_exports
"""

EXAMPLES = r"""
- name: Mount a folder of the controller, and an Azure Managed Lustre file system
  hpcai.azure.shared_mounts:
    mounts:
      - path: /shared
        source: 10.0.0.4:/shared
      - path: /lustre
        source: 10.0.1.7@tcp:/lustrefs
        type: lustre
        automount: false

- name: Mount an Azure NetApp Files volume, which supports NFS only up to version 4.1
  hpcai.azure.shared_mounts:
    mounts:
      - path: /data
        source: 10.0.2.4:/volume1
        options: [vers=4.1, hard, nconnect=8, rsize=262144, wsize=262144]
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/systemd/system/shared.mount
    - write /etc/systemd/system/shared.automount
    - write /etc/hpcai/shared_fs.json
    - enable shared.automount
    - start shared.automount
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError, arguments_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import diff_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs import mounting
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs.options import (
    MOUNT_DEFAULTS,
    MOUNT_KEYS,
    MOUNT_REQUIRED,
    parse,
)

MOUNT = arguments_of(MOUNT_KEYS, MOUNT_DEFAULTS, MOUNT_REQUIRED)


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "dict", "options": MOUNT, "default": []},
            "state": {"type": "str", "choices": ["present", "configured"], "default": "present"},
            "when_unreachable": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
        },
        supports_check_mode=True,
    )
    root, live = Root("/"), module.params["state"] == "present"
    problems: list[str] = []
    try:
        mounts = parse(module.params["mounts"])
        made = mounting.plan(root, mounts, run, live)
        if not module.check_mode:
            mounting.apply(root, made, run, live)
            problems = mounting.unreachable(mounts, run) if live else []
    except (CommandFailed, ConfigError, OSError) as error:
        module.fail_json(msg=str(error))
    answer: dict[str, Any] = {"changed": bool(made.actions), "actions": made.actions, "diff": diff_of(made.files)}
    if problems and module.params["when_unreachable"] == "fail":
        module.fail_json(msg="; ".join(problems), **answer)
    for problem in problems:
        module.warn(problem)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
