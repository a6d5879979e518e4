#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_state
short_description: Dump the queue and the accounting of a Slurm controller, and bring them back
version_added: "0.1.0"
description:
  - O(state=dumped) copies slurmctld's C(StateSaveLocation) and slurmdbd's database into a new folder below O(path),
    while the daemons run. The folder appears when it is complete. The oldest beyond O(keep) are removed afterwards.
  - O(state=restored) brings a dump back onto a controller that has lost its own state. It stops slurmctld and slurmdbd
    for that.
  - A host that has only one of the two, dumps and restores that one.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(dumped) makes a dump, each time.
      - V(restored) brings one back, once. A machine that was restored from O(path) before is left alone, because the
        dumps that came afterwards are its own.
      - V(configured) only keeps the settings, for C(hpcnode slurm) and its timer.
    type: str
    choices: [dumped, restored, configured]
    required: true
  path:
    description:
      - Folder of the dumps; for V(restored) one dump, or a folder of them, of which the newest is taken.
      - Needed unless O(state=configured), where an empty one means that no dumps are made.
    type: str
    default: ""
  cluster:
    description: Slurm's name of the cluster.
    type: str
    required: true
  state_save_location:
    description: slurmctld's C(StateSaveLocation). Empty on a host without slurmctld.
    type: str
    default: ""
  database:
    description: Name of slurmdbd's database. Empty on a host without it.
    type: str
    default: ""
  keep:
    description: How many dumps are kept.
    type: int
    default: 7
  force:
    description:
      - Restore also over jobs that the controller has. The C(StateSaveLocation) that was there lies beside it
        afterwards, in a folder that ends with C(.before-restore). The database is replaced.
    type: bool
    default: false
  start:
    description: Start slurmdbd and slurmctld after a restore. Without, the tasks that configure them do.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Says what it would do, and refuses what it would refuse, without changing anything.
  diff_mode:
    description: Shows the settings before and after.
    support: partial
    details:
      - A dump has no before.
  idempotent:
    support: partial
    details:
      - O(state=dumped) makes a dump each time.
  platform:
    description: Works with Slurm 22.05 and later, and MariaDB 10.5 and later.
notes:
  - A restore before slurmctld has run on the new machine keeps the running jobs. A slurmctld that starts without its
    state has the nodes end jobs that it does not know.
"""

EXAMPLES = r"""
- name: Keep the queue and the accounting on a share before the controller gets a new image
  hpcai.azure.slurm_state:
    state: dumped
    path: /mnt/backup/slurm
    cluster: hpcai
    state_save_location: /var/lib/slurm/slurmctld
    database: slurm_acct_db

- name: Bring them back
  hpcai.azure.slurm_state:
    state: restored
    path: /mnt/backup/slurm
    cluster: hpcai
    state_save_location: /var/lib/slurm/slurmctld
    database: slurm_acct_db
"""

RETURN = r"""
dump:
  description: The dump that was made or brought back; empty where none was, as in check mode before one is made.
  returned: success
  type: str
  sample: /mnt/backup/slurm/hpcai-20261122T083000Z
before:
  description: Folders with what a restore replaced.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/slurm/slurmctld.before-restore]
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import FOLDER, as_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import Locked, only_one
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import change_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.dump import make_dump
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.restore import is_done, restore
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.state import CONFIG, LOCK, Place, Refused

_WAIT_S = 600


def configure(module: AnsibleModule, place: Place, root: Root) -> dict[str, Any]:
    """Keep the settings."""
    settings = {name: getattr(place, name) for name in ("cluster", "state", "database", "path", "keep")}
    file = change_of(root.at(f"{FOLDER}/{CONFIG}.json"), as_config(settings))
    if not module.check_mode:
        file.apply()
    return {"changed": file.changes, "dump": "", "before": [], "diff": file.as_diff()}


def act(module: AnsibleModule, place: Place, root: Root) -> dict[str, Any]:
    """Make a dump, or bring one back."""
    asked = module.params
    if asked["state"] == "dumped":
        made = "" if module.check_mode else make_dump(place, run)
        return {"changed": True, "dump": made, "before": []}
    if is_done(asked["path"], root):
        return {"changed": False, "dump": "", "before": []}
    dump, aside = restore(
        asked["path"],
        place,
        root,
        run,
        force=asked["force"],
        start=asked["start"],
        check_only=module.check_mode,
    )
    return {"changed": True, "dump": dump, "before": list(aside)}


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["dumped", "restored", "configured"], "required": True},
            "path": {"type": "str", "default": ""},
            "cluster": {"type": "str", "required": True},
            "state_save_location": {"type": "str", "default": ""},
            "database": {"type": "str", "default": ""},
            "keep": {"type": "int", "default": 7},
            "force": {"type": "bool", "default": False},
            "start": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    asked, root = module.params, Root("/")
    if asked["state"] != "configured" and not asked["path"].startswith("/"):
        module.fail_json(msg=f"path must be the absolute path of a folder of dumps, not {asked['path']!r}.")
    place = Place(asked["cluster"], asked["state_save_location"], asked["database"], asked["path"], asked["keep"])
    try:
        if asked["state"] == "configured":
            answer = configure(module, place, root)
        else:
            with only_one(LOCK, _WAIT_S):
                answer = act(module, place, root)
    except (Refused, Locked, CommandFailed, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
