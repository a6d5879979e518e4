#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_generalise
short_description: Remove a machine's identity, keys and logs before it is captured as an image
version_added: "0.1.0"
description:
  - Removes keys, ids, logs, DHCP leases, shell histories, caches and everything else that is specific to one machine,
    so that the machine can be captured as an image.
  - B(Nobody can log in to the machine afterwards.) You can only capture it as an image. Make this the last task for the
    host. Later tasks can still run on the control node.
  - If something is mounted into the image, such as a package cache of the machine that bakes the image, the module
    leaves its content unchanged and reports it.
  - At the end, the module searches for remaining private keys, and warns about them.
author:
  - hpcai.azure contributors (@hpcai)
options:
  confirm:
    description:
      - Must be V(true), except in check mode. Otherwise the module fails and changes nothing.
    type: bool
    default: false
  keep:
    description:
      - Kinds of data to keep. A key or id that is kept will be the same on every machine of this image.
      - V(agent) and V(cloud_init) are what the Azure agent and cloud-init store about the machine. V(users_keys) are
        the SSH folders of root and of all users. V(cluster) is what Slurm and C(hpcnode) store about the cluster and
        the node.
      - V(host_keys) are the keys of sshd. V(leases) are DHCP leases and what network services store about the machine.
        V(host_name) is the host name and C(/etc/resolv.conf). V(histories) are the histories of shells and other
        programs. V(passwords) are the passwords of root and of all users.
      - V(disk_names) are the names that identify the machine to NVMe over Fabrics targets. V(backups) are the backups
        of the account files, such as C(/etc/passwd-). V(temporary) are temporary files, including those of Ansible.
    type: list
    elements: str
    default: []
    choices:
      - agent
      - cloud_init
      - host_keys
      - users_keys
      - munge_key
      - cluster
      - machine_id
      - random_seed
      - host_name
      - leases
      - disk_names
      - histories
      - backups
      - package_caches
      - temporary
      - logs
      - passwords
  extra:
    description:
      - Additional files and folders to remove, as absolute paths. They may contain C(*), C(?) and C([...]), and may
        start with C(~/) for the homes of root and of all users.
    type: list
    elements: str
    default: []
  root:
    description: Root folder of the machine's files, for a mounted image that is not booted.
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description: Lists in check mode what it would remove, without changing anything.
  diff_mode:
    description: Shows which paths are removed, and which stay as empty files.
  idempotent:
    description:
      - On a mounted image that is not booted, a second run changes nothing. A running machine writes new logs, and a
        second run removes these.
  platform:
    description:
      - Works on Debian, Ubuntu and Enterprise Linux, on a running machine and on a mounted image that is not booted.
notes:
  - On a running machine, services that would write the removed files again are stopped first. These are the Azure
    agent, rsyslog, and the services that write the random seed and the records of logins at shutdown. The journal
    continues in memory only.
  - Accounts stay. Their SSH folders and passwords are removed, so nobody can log in to them before Azure has
    provisioned the new machine.
  - Use C(pipelining) for this task. Ansible then writes no file to the machine, so no file of Ansible remains in the
    image.
seealso:
  - name: Role hpcai.azure.image
    description: Its entry point C(generalise) uses this module. Its documentation explains how to capture the machine.
    link: https://github.com/hpcai/azure/tree/main/roles/image
"""

EXAMPLES = r"""
- name: Make the machine ready to be captured
  hpcai.azure.image_generalise:
    confirm: true
  vars:
    ansible_pipelining: true

- name: Do the same for an image that is mounted here, and keep its logs
  hpcai.azure.image_generalise:
    confirm: true
    root: /mnt/image
    keep: [logs]
"""

RETURN = r"""
removed:
  description: Removed paths. A folder is listed once for all its content.
  returned: success
  type: list
  elements: str
  sample: [/etc/ssh/ssh_host_ed25519_key, /etc/munge/munge.key]
emptied:
  description: Files that were emptied.
  returned: success
  type: list
  elements: str
  sample: [/etc/machine-id, /var/log/dpkg.log]
forgot_size:
  description:
    - Whether the VM size was removed from C(/etc/hpcai/node.json). VM sizes that you described yourself stay in this
      file.
  returned: success
  type: bool
  sample: false
locked:
  description: Accounts whose password was removed, so that nobody can log in to them with a password.
  returned: success
  type: list
  elements: str
  sample: [azureuser]
stopped:
  description: Services that the module stopped. In check mode, the services that it would stop.
  returned: success
  type: list
  elements: str
  sample: [walinuxagent.service]
left_alone:
  description: Paths that were found but not removed, each with C(path) and C(reason).
  returned: success
  type: list
  elements: dict
  sample:
    - path: /var/cache/apt
      reason: /var/cache/apt is a bind mount
private_keys:
  description: Remaining files that contain a private key.
  returned: success
  type: list
  elements: str
  sample: [/etc/ssl/private/ssl-cert-snakeoil.key]
"""

import sys
from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import NoRoot, existing_root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image import generalise, identity
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.generalise import (
    MountsUnknown,
    read_image_mounts,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.identity import NAMES


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "confirm": {"type": "bool", "default": False},
            "keep": {"type": "list", "elements": "str", "default": [], "choices": list(NAMES)},
            "extra": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not (params["confirm"] or module.check_mode):
        module.fail_json(
            msg="This removes all keys: nobody can log in afterwards, and the machine can only be captured. "
            "To continue, set confirm (role image: image_generalise_confirm) to true. Check mode lists what it removes."
        )
    try:
        root = existing_root(params["root"])
        mounts = read_image_mounts(root)
        stopped = generalise.writers(root, params["keep"], run)
        if not module.check_mode:
            generalise.stop_writers(root, stopped, params["keep"], run)
        # Ansible runs this module from an archive below /tmp, and removes it afterwards.
        made = generalise.plan(root, mounts, params["keep"], params["extra"], [path for path in sys.path if path])
        if made.changes and not module.check_mode:
            generalise.apply(root, made)
    except (MountsUnknown, NoRoot, OSError) as error:
        module.fail_json(msg=str(error))
    removed = [action.path for action in made.actions if action.kind == generalise.REMOVE]
    keys = identity.find_private_keys(root, removed)
    if keys:
        module.warn(f"These private keys will be the same in every machine of this image: {', '.join(keys)}")
    module.exit_json(
        changed=made.changes or bool(stopped),
        removed=removed,
        emptied=[action.path for action in made.actions if action.kind == generalise.EMPTY],
        forgot_size=any(action.kind == generalise.FORGET for action in made.actions),
        locked=list(made.locked),
        stopped=list(stopped),
        left_alone=[{"path": path, "reason": reason} for path, reason in made.left_alone],
        private_keys=list(keys),
        diff=generalise.as_diff(made),
    )


if __name__ == "__main__":
    main()
