#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_state
short_description: Dump and restore the queue and the accounting of a Slurm controller
version_added: "0.1.0"
description:
  - O(state=dumped) copies slurmctld's C(StateSaveLocation) and slurmdbd's database into a new folder below O(path),
    while the daemons run. The folder gets its final name only when the dump is complete. Afterwards the module removes
    the oldest dumps, so that O(keep) dumps remain.
  - O(state=restored) restores a dump on a controller that has lost its own state. It stops slurmctld and slurmdbd
    during the restore.
  - On a host with only slurmctld or only slurmdbd, only the data of that daemon is dumped and restored.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(dumped) creates a dump at each run.
      - V(restored) restores a dump only once. If this machine was already restored from O(path), nothing is done, even
        with O(force=true), because any newer dumps in O(path) are from this machine itself.
      - V(configured) only saves the settings for C(hpcnode slurm), and for the timer that creates dumps with it.
    type: str
    choices: [dumped, restored, configured]
    required: true
  path:
    description:
      - Folder of the dumps. With O(state=restored), this is one dump, or a folder of dumps, of which the newest is
        used.
      - Required unless O(state=configured). With O(state=configured), an empty value means that no dumps are created.
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
    description: Name of slurmdbd's database. Empty on a host without this database.
    type: str
    default: ""
  keep:
    description: Number of dumps to keep.
    type: int
    default: 7
  force:
    description:
      - Restore even if slurmctld's state or the database contains jobs. With V(false), the module then fails, and
        changes nothing. A restore renames the old C(StateSaveLocation), with C(.before-restore) at the end. It replaces
        the database, and the old content of the database is lost.
    type: bool
    default: false
  start:
    description: Start slurmdbd and slurmctld after a restore. Set V(false) if later tasks configure and start them.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Reports in check mode what it would do or refuse, without changing anything.
  diff_mode:
    description: Shows the settings before and after.
    support: partial
    details:
      - Dumps are not shown.
  idempotent:
    support: partial
    details:
      - O(state=dumped) creates a dump at each run.
  platform:
    description: Works with Slurm 22.05 and later, and MariaDB 10.5 and later.
notes:
  - To keep running jobs, restore before slurmctld runs on the new machine for the first time. If slurmctld starts
    without its state, it makes the nodes end the jobs that it does not know.
"""

EXAMPLES = r"""
- name: Dump the queue and the accounting to a share before the controller gets a new image
  hpcai.azure.slurm_state:
    state: dumped
    path: /mnt/backup/slurm
    cluster: hpcai
    state_save_location: /var/lib/slurm/slurmctld
    database: slurm_acct_db

- name: Restore the newest dump
  hpcai.azure.slurm_state:
    state: restored
    path: /mnt/backup/slurm
    cluster: hpcai
    state_save_location: /var/lib/slurm/slurmctld
    database: slurm_acct_db
"""

RETURN = r"""
dump:
  description: The dump that was created or restored. Empty if no dump was created or restored, also in check mode with
    O(state=dumped).
  returned: success
  type: str
  sample: /mnt/backup/slurm/hpcai-20261122T083000Z
before:
  description: The folder to which a restore moved the old C(StateSaveLocation). Empty if nothing was moved.
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
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.state import CONFIG, LOCK, Refused, StatePaths

_WAIT_S = 600


def configure(module: AnsibleModule, place: StatePaths, root: Root) -> dict[str, Any]:
    """Save the settings."""
    settings = {name: getattr(place, name) for name in ("cluster", "state", "database", "path", "keep")}
    file = change_of(root.at(f"{FOLDER}/{CONFIG}.json"), as_config(settings))
    if not module.check_mode:
        file.apply()
    return {"changed": file.changes, "dump": "", "before": [], "diff": file.as_diff()}


def act(module: AnsibleModule, place: StatePaths, root: Root) -> dict[str, Any]:
    """Create or restore a dump."""
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
    place = StatePaths(asked["cluster"], asked["state_save_location"], asked["database"], asked["path"], asked["keep"])
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
