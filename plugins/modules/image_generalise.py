#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_generalise
short_description: Take out of a machine what is its own, before an image is made of it
version_added: "0.1.0"
description:
  - Removes keys, ids, logs, leases, histories, caches and all that tells one machine from another, so that the machine
    can be captured as an image.
  - B(Nobody can log in afterwards), nor is the machine of any use but to be captured. Let it be the last task for the
    host. It needs no further connection, nor do later tasks that run on the controller.
  - What is mounted into the image while it is made, such as a folder with packages of the host, is left alone and
    reported.
  - Afterwards looks for private keys that are still there, and warns.
author:
  - hpcai.azure contributors (@hpcai)
options:
  confirm:
    description:
      - Has to be V(true), except in check mode. Otherwise nothing is done, and the module fails.
    type: bool
    default: false
  keep:
    description: Kinds of things that stay. A key or id that stays will be the same in every machine made of the image.
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
      - Further files and folders to remove, as absolute paths. They may hold C(*), C(?) and C([...]), and begin with
        C(~/) for the homes of root and of all people.
    type: list
    elements: str
    default: []
  root:
    description: Folder below which the machine's files lie, for an image that is not running.
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description: Can run in check mode and lists what it would remove, without changing anything.
  diff_mode:
    description: Shows which paths go, and which stay as empty files.
  idempotent:
    description: A second run on a machine at rest finds nothing. A running machine writes new logs meanwhile.
  platform:
    description: Works on Debian, Ubuntu and Enterprise Linux, running or at rest.
notes:
  - On a running machine, services that would write again what was removed are stopped first. These are the Azure agent,
    rsyslog, and those that write the random seed and the records of logins when the machine goes down. The journal goes
    on in memory only.
  - Accounts stay. Their ssh folders and passwords go, so nobody can use them before Azure has provisioned the new
    machine.
  - With C(pipelining) for this task, Ansible needs no file on the machine, and nothing of Ansible remains.
seealso:
  - name: Role hpcai.azure.image
    description: Its entry point C(generalise) uses this module and says how to capture the machine.
    link: https://github.com/hpcai/azure/tree/main/roles/image
"""

EXAMPLES = r"""
- name: Make the machine ready to be captured
  hpcai.azure.image_generalise:
    confirm: true
  vars:
    ansible_pipelining: true

- name: Do so with an image that is mounted here, and keep its logs
  hpcai.azure.image_generalise:
    confirm: true
    root: /mnt/image
    keep: [logs]
"""

RETURN = r"""
removed:
  description: What was removed. A folder stands for all that is in it.
  returned: success
  type: list
  elements: str
  sample: [/etc/ssh/ssh_host_ed25519_key, /etc/munge/munge.key]
emptied:
  description: Files that stay and are empty now.
  returned: success
  type: list
  elements: str
  sample: [/etc/machine-id, /var/log/dpkg.log]
forgot_size:
  description: Whether the VM size went from C(/etc/hpcai/node.json). Sizes described by hand stay there.
  returned: success
  type: bool
  sample: false
locked:
  description: Accounts whose password went.
  returned: success
  type: list
  elements: str
  sample: [azureuser]
stopped:
  description: Services that were stopped; in check mode, that would be.
  returned: success
  type: list
  elements: str
  sample: [walinuxagent.service]
left_alone:
  description: What was found and belongs to somebody else, as C(path) and C(reason).
  returned: success
  type: list
  elements: dict
  sample:
    - path: /var/cache/apt
      reason: /var/cache/apt is a bind mount
private_keys:
  description: Files with a private key that are still there.
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
            msg="This takes all keys away: nobody can log in afterwards, and the machine is good for an image only. "
            "Set confirm (role image: image_generalise_confirm) to true if that is wanted; check mode lists what goes."
        )
    try:
        root = existing_root(params["root"])
        mounts = read_image_mounts(root)
        stopped = generalise.writers(root, params["keep"], run)
        if not module.check_mode:
            generalise.stop_writers(root, stopped, params["keep"], run)
        # Ansible runs this module out of an archive below /tmp, and removes that when it ends.
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
