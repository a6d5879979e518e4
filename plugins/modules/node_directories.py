#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_directories
short_description: Make the directories that jobs and services need on a node's scratch, now and at each boot
version_added: "0.1.0"
description:
  - Makes directories on the scratch, with owner, group and mode. Each role keeps its own set, by O(name), in
    C(/etc/hpcai/directories.json), and C(hpcai-directories.service) makes them again at each boot, because the scratch
    may be new then.
  - Where the VM size has no local NVMe disks, a folder on Azure's temporary disk takes their place, mounted at
    O(mountpoint), or else a plain folder on the operating system's disk. A warning says which, how large it is, and
    that it is slow. O(fallback) allows less.
  - Where the VM size has such disks and nothing is mounted at O(mountpoint), it fails. Nothing is ever put on the
    operating system's disk in their place.
  - Never follows a symbolic link below O(mountpoint), where each user may put one, and never changes what lies below a
    directory that exists. Where users can write, what another user has put in the place of a
    directory is moved aside, with a warning.
author:
  - hpcai.azure contributors (@hpcai)
options:
  name:
    description:
      - Who wants these directories. Other sets stay as they are.
      - Needed unless O(state=absent).
    type: str
  folders:
    description:
      - The directories of this set. Missing parents belong to root and have mode C(0755).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path below O(mountpoint), or an absolute one that lies there.
        type: str
        required: true
      owner:
        description: Owner, by name or number. Looked up when the directory is made, at each boot too.
        type: str
        default: root
      group:
        description: Group, by name or number.
        type: str
        default: root
      mode:
        description: Permissions, octal digits in quotes. Refused if all users may write and the sticky bit is not set.
        type: raw
        default: '0755'
  state:
    description:
      - V(present) keeps the set and makes the directories of all sets.
      - V(configured) only keeps it. That is the state for an image, which has no scratch.
      - V(absent) forgets the set. Without O(name) it forgets all of them, and unmounts the folder on the temporary
        disk. What lies in the directories stays.
    type: str
    choices: [present, configured, absent]
    default: present
  mountpoint:
    description:
      - Where the scratch is. Without it, as it was kept before, or C(/scratch).
    type: path
  fallback:
    description:
      - What may take the place of NVMe disks, in this order. An empty list allows nothing.
      - Without it, as it was kept before, or V(temporary_disk) and V(directory).
    type: list
    elements: str
    choices: [temporary_disk, directory]
  temporary_mounts:
    description:
      - Mountpoints that are the temporary disk's. What is mounted at the first of them is used.
      - Without it, as it was kept before, or an empty list. That finds the disk by udev's links
        (C(/dev/disk/azure/resource), C(/dev/disk/cloud/azure_resource)), or, where Azure's udev rules are missing, as
        in a container, takes a local file system that is mounted at C(/mnt) or C(/mnt/resource).
      - A path that is no mount is never used. It would be the operating system's disk.
    type: list
    elements: path
  nvme_count:
    description:
      - How many local NVMe disks the VM size has, V(azure_sku.nvme_count). Holds for this run.
      - Settings in C(/etc/hpcai/scratch.json) that say how many, win. Without both, the node finds out by its VM size.
    type: int
  wait:
    description: Seconds to wait for cloud-init or the Azure agent to mount the temporary disk, if one of them is to.
    type: float
    default: 30
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    details:
      - Where disks are expected and not mounted yet, because in check mode the task before did not do so either, a
        warning says so, and all directories are named.
  diff_mode:
    description: Shows the settings before and after.
notes:
  - Files keep their owner and mode when those of their directory change.
seealso:
  - module: hpcai.azure.nvme_raid
  - name: The scratch
    description: How scratch, boot, temporary disk and redeployment play together.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_scratch.rst
"""

EXAMPLES = r"""
- name: Give jobs a folder each user may write to, and one project a folder of its own
  hpcai.azure.node_directories:
    name: site
    folders:
      - path: jobs
        mode: '1777'
      - path: data/weather
        owner: alice
        group: weather
        mode: '2775'

- name: Keep the same in an image
  hpcai.azure.node_directories:
    name: site
    state: configured
    folders:
      - path: jobs
        mode: '1777'

- name: Have no scratch rather than a slow one
  hpcai.azure.node_directories:
    name: site
    fallback: []
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be, in its order.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/hpcai/directories.json
    - make /scratch/jobs root:root 1777
kind:
  description:
    - What the scratch is. V(mount) is a file system that is mounted there, such as that of the NVMe disks,
      V(temporary_disk) and V(directory) are what takes its place.
    - Null where check mode cannot know it, and with another O(state).
  returned: success
  type: str
  sample: mount
mountpoint:
  description: Where it is; null if all was forgotten.
  returned: success
  type: str
  sample: /scratch
size_bytes:
  description: Size of its file system; 0 where it was not looked at.
  returned: success
  type: int
  sample: 7681501126656
free_bytes:
  description: What users may still write there; 0 where it was not looked at.
  returned: success
  type: int
  sample: 7627861917696
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import check_seconds
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories import options
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.apply import unmount_fallback
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.directories.ensure import Outcome, ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.options import disk_count
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

ARGUMENTS: dict[str, dict[str, Any]] = {
    "name": {"type": "str"},
    "folders": {"type": "list", "elements": "dict", "options": options.FOLDER_ARGUMENTS, "default": []},
    "state": {"type": "str", "choices": ["present", "configured", "absent"], "default": "present"},
    **options.LOCATION_ARGUMENTS,
    "nvme_count": {"type": "int"},
    "wait": {"type": "float", "default": 30},
}


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_if=[("state", "present", ["name"]), ("state", "configured", ["name"])],
        supports_check_mode=True,
    )
    asked, check, root = module.params, module.check_mode, Root("/")
    done = Outcome(None, "")
    try:
        disk_count("nvme_count", asked["nvme_count"])
        check_seconds("wait", asked["wait"], zero=True)
        unmounted: tuple[str, ...] = ()
        if asked["state"] == "absent":
            change = options.without_set(root, asked["name"])
            unmounted = () if asked["name"] else unmount_fallback(root, run, check)
        else:
            change = options.with_set(
                root, asked["name"], asked["folders"], {key: asked[key] for key in options.LOCATION_ARGUMENTS}
            )
        if not check:
            change.file.apply()
        if asked["state"] == "present" and change.options:
            done = ensure(change.options, root, run, check, asked["nvme_count"], asked["wait"])
    except (CommandFailed, UnknownVmSize, ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    if done.problems:
        module.fail_json(msg="; ".join(done.problems), actions=[*change.actions, *done.actions])
    for warning in (*change.warnings, *done.warnings):
        module.warn(warning)
    actions = [*unmounted, *change.actions, *done.actions]
    module.exit_json(
        changed=bool(actions),
        actions=actions,
        kind=done.kind,
        mountpoint=change.options.mountpoint if change.options else None,
        size_bytes=done.size_bytes,
        free_bytes=done.free_bytes,
        diff=change.file.as_diff(),
    )


if __name__ == "__main__":
    main()
