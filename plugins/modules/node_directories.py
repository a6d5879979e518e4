#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_directories
short_description: Create directories on a node's scratch, now and at each boot
version_added: "0.1.0"
description:
  - Creates directories on the scratch (the file system on the local NVMe disks), with owner, group and mode. Each role
    manages its own set of directories, identified by O(name), in C(/etc/hpcai/directories.json).
    C(hpcai-directories.service) creates them again at each boot, because the scratch may then be empty.
  - If the VM size has no local NVMe disks, the module falls back to a folder on Azure's temporary disk, which it mounts
    at O(mountpoint), or to a plain folder on the operating system's disk. The module then warns, and the warning gives
    the kind and size of this scratch. O(fallback) limits which fallbacks are allowed.
  - If the VM size has local NVMe disks and nothing is mounted at O(mountpoint), the module fails. It does not fall back
    to another disk.
  - Never follows a symbolic link below O(mountpoint), because users can create links there, and never changes the
    content of an existing directory.
  - If users can write to the parent folder of a directory, something else may have the name of this directory. Examples
    are a link, a file, or a directory that belongs neither to root nor to an owner named in O(folders[].owner) of any
    set. The module then warns. It removes a link, an empty file or an empty directory, and renames anything else.
author:
  - hpcai.azure contributors (@hpcai)
options:
  name:
    description:
      - Name of this set of directories. Other sets stay as they are.
      - Required unless O(state=absent).
    type: str
  folders:
    description:
      - The directories of this set. Missing parents are created with owner root and mode C(0755).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path relative to O(mountpoint), or an absolute path below it.
        type: str
        required: true
      owner:
        description: Owner, by name or number. The name is resolved when the directory is created, also at each boot.
        type: str
        default: root
      group:
        description: Group, by name or number.
        type: str
        default: root
      mode:
        description: Permissions, as octal digits in quotes. Write access for all users requires the sticky bit.
        type: raw
        default: '0755'
  state:
    description:
      - V(present) saves the set and creates the directories of all sets.
      - V(configured) only saves the set. Use it in an image, which has no scratch.
      - V(absent) removes the set from the settings. The directories and their content stay. Without O(name) it removes
        all sets, and if the scratch is a folder on the temporary disk, also unmounts this folder from O(mountpoint).
    type: str
    choices: [present, configured, absent]
    default: present
  mountpoint:
    description:
      - Mount point of the scratch. Defaults to the saved setting, else C(/scratch).
    type: path
  fallback:
    description:
      - Allowed fallbacks if there are no NVMe disks. The module tries them in the order of this list. An empty list
        allows none.
      - Defaults to the saved setting, else V(temporary_disk) and V(directory).
    type: list
    elements: str
    choices: [temporary_disk, directory]
  temporary_mounts:
    description:
      - Possible mount points of the temporary disk. The first one that is mounted is used.
      - Defaults to the saved setting, else an empty list. With an empty list, the disk is found by udev's links
        (C(/dev/disk/azure/resource), C(/dev/disk/cloud/azure_resource)). If Azure's udev rules are missing, as in a
        container, a local file system that is mounted at C(/mnt) or C(/mnt/resource) is used.
      - A path that is not a mount point never counts as the temporary disk, because it is on the operating system's
        disk.
    type: list
    elements: path
  nvme_count:
    description:
      - Number of local NVMe disks of the VM size, usually the inventory's C(azure_sku.nvme_count). Applies to this run
        only.
      - A number in C(/etc/hpcai/scratch.json) takes precedence. If neither is set, the node looks up its VM size.
    type: int
  wait:
    description: Seconds to wait until the temporary disk is mounted, if cloud-init or the Azure agent will mount it.
      After this time, the module uses the next allowed fallback, or fails if there is none.
    type: float
    default: 30
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    details:
      - In check mode, an earlier task with M(hpcai.azure.nvme_raid) has not mounted the disks. If disks are expected
        but not mounted, the module therefore warns instead of failing, and lists all directories.
  diff_mode:
    description: Shows the settings before and after.
notes:
  - If the owner or mode of a directory changes, the files in it keep their owner and mode.
seealso:
  - module: hpcai.azure.nvme_raid
  - name: The scratch
    description: How scratch, boot, temporary disk and redeployment work together.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_scratch.rst
"""

EXAMPLES = r"""
- name: Create a folder that all users may write to, and a folder for one project
  hpcai.azure.node_directories:
    name: site
    folders:
      - path: jobs
        mode: '1777'
      - path: data/weather
        owner: alice
        group: weather
        mode: '2775'

- name: Save the settings in an image, for the next boot
  hpcai.azure.node_directories:
    name: site
    state: configured
    folders:
      - path: jobs
        mode: '1777'

- name: Fail instead of falling back to a slow scratch
  hpcai.azure.node_directories:
    name: site
    fallback: []
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/hpcai/directories.json
    - make /scratch/jobs root:root 1777
kind:
  description:
    - Kind of the scratch. V(mount) is a file system at O(mountpoint), such as the one on the NVMe disks.
      V(temporary_disk) and V(directory) are fallbacks.
    - Null if check mode cannot know it, and for O(state) other than V(present).
  returned: success
  type: str
  sample: mount
mountpoint:
  description: Mount point of the scratch, or null if all sets were removed.
  returned: success
  type: str
  sample: /scratch
size_bytes:
  description: Size of the file system in bytes, or 0 if it was not read.
  returned: success
  type: int
  sample: 7681501126656
free_bytes:
  description: Bytes that are free for users, or 0 if this was not read.
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
