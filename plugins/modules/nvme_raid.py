#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvme_raid
short_description: Create a scratch file system on a virtual machine's local NVMe disks
version_added: "0.1.0"
description:
  - Creates a RAID 0 array of the local NVMe disks, creates a file system on it and mounts it. With one disk there is no
    RAID, and the file system is directly on the disk.
  - Finds the disks by their model, not by their names, so it touches neither the operating system's disk nor remote
    disks.
  - Checks the current state and does only what is missing. If an array that the module created is complete but not
    mounted, the module mounts it, whatever C(/dev/md) number the kernel has assigned. If disks of this array are
    missing or blank, as after a redeployment, the module creates a new, empty array of the disks that exist now. If
    their number is not the expected one, O(on_count_mismatch) applies.
  - Refuses to destroy data that it did not create. If a disk has a partition, a file system, a mount, or a superblock
    of another array, the module changes nothing and reports the disk and the reason. O(force_devices) overrides this
    for single disks.
  - Data on the scratch is not permanent. Azure wipes the disks when it deallocates, redeploys or service-heals the
    virtual machine. When one disk is lost, this module creates the array again, and the data of all disks is lost.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(present) creates the scratch and mounts it.
      - V(absent) unmounts it, stops the array and removes the superblocks and signatures of this module from its disks.
        An adopted array is only unmounted. Fails if the file system is in use.
      - V(configured) only checks the options and, if O(persistent), saves them for the next boot. O(owner) and O(group)
        must exist. Disks are not needed and not checked, so use it in an image, and for a VM size without local NVMe
        disks.
    type: str
    choices: [present, absent, configured]
    default: present
  devices:
    description:
      - Disks to use, such as C(/dev/nvme0n1) or a link to it below C(/dev/disk). Defaults to all disks of O(models).
      - Any model is accepted, except C(MSFT NVMe Accelerator), which is always refused because it is a remote disk.
      - Two names of one disk are an error, because the number of names is the number of disks that must exist.
    type: list
    elements: str
    default: []
  models:
    description: Models of the disks to use if O(devices) is empty.
    type: list
    elements: str
    default: [Microsoft NVMe Direct Disk, Microsoft NVMe Direct Disk v2]
  expected_count:
    description:
      - Expected number of disks. It is saved in the settings for the next boot.
      - Defaults to the number of O(devices), else to O(nvme_count). Otherwise at least one disk is expected, and if
        disks of an array that the module created are missing, as many disks as the array had.
      - With V(0), a machine without such disks stays as it is. If the machine has such disks, O(on_count_mismatch)
        applies.
    type: int
  nvme_count:
    description:
      - Number of disks of the VM size, usually the inventory's C(azure_sku.nvme_count). It applies to this run, if
        neither O(expected_count) nor O(devices) gives a number.
      - It is not saved in the settings for the next boot. At boot the node looks up its own VM size, so the settings of
        an image fit each size.
    type: int
  on_count_mismatch:
    description:
      - What to do if there are more or fewer disks than expected.
      - V(warn) and V(ignore) continue with the disks that exist.
    type: str
    choices: [fail, warn, ignore]
    default: fail
  array_name:
    description: Name of the md array. The module recognizes its own array by this name in the members' superblocks.
    type: str
    default: hpcai-scratch
  chunk:
    description:
      - Stripe unit of the array, a power of two from V(4K) to V(64M).
      - The default suits large sequential reads and writes, such as those of training data and checkpoints. Each disk
        gets large requests, and a request of 4 MiB still uses all eight disks of an ND size.
    type: str
    default: 512K
  filesystem:
    description: The file system. It is aligned to the array's stripes. The module does not run TRIM on the disks first.
    type: str
    choices: [xfs, ext4]
    default: xfs
  label:
    description: Label of the file system, at most 12 bytes for XFS and 16 bytes for ext4.
    type: str
    default: hpcaiscratch
  mountpoint:
    description: Where to mount the file system. The folder is created if it is missing, and refused if it is not empty.
    type: path
    default: /scratch
  mount_options:
    description:
      - Mount options. If they change, the file system is remounted.
      - The default has no C(discard), because it slows down each deletion, and Azure wipes the disks anyway.
    type: list
    elements: str
    default: [noatime]
  owner:
    description: Owner of the mounted folder, by name or number.
    type: str
    default: root
  group:
    description: Group of the mounted folder, by name or number.
    type: str
    default: root
  mode:
    description:
      - Permissions of the mounted folder, as octal digits in quotes. A number without quotes is refused, because YAML
        reads V(01777) as another number.
      - The default is that of C(/tmp). All users may create files, and may remove only their own files.
    type: raw
    default: '1777'
  force_devices:
    description:
      - Disks that may be wiped although they contain data that this module did not create.
      - A disk in use is refused even if it is listed here. A disk is in use if it belongs to the operating system, is
        mounted, is swap, or is a member of a running array.
      - Applies to this run only. It is not saved in the settings for the next boot.
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Use a healthy array that this module did not create, if it has a file system and consists only of disks that
        O(devices) or O(models) selects.
      - The module mounts it and does not change it otherwise. It never formats, stops or wipes the array, and
        O(chunk), O(filesystem), O(label), O(owner), O(group) and O(mode) do not apply to it. O(state=absent) unmounts
        it.
      - After Azure has wiped the disks, the module creates its own array instead.
    type: bool
    default: false
  persistent:
    description:
      - Save these options in C(/etc/hpcai/scratch.json), so that C(hpcai-scratch.service) does the same at each boot
        before slurmd starts. The module M(hpcai.azure.node_tools) installs that service.
      - Nothing is written to C(/etc/fstab), C(mdadm.conf) or the initramfs, so a boot without the disks does not hang.
      - V(false) removes C(/etc/hpcai/scratch.json).
    type: bool
    default: true
  lock_timeout:
    description: Seconds to wait for another run on this machine to end, such as the run at boot. After this time the
      module fails.
    type: float
    default: 60
  root:
    description: Root folder of the machine's files. Values other than V(/) are allowed in check mode only.
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  diff_mode:
    description: Shows the array, its disks, the file system, the mount and the settings for the boot, before and after.
  platform:
    description: Needs Python 3.9 or later. Tested with mdadm 4.2, util-linux 2.38, xfsprogs 6.1 and e2fsprogs 1.47.
requirements:
  - mdadm, if there is more than one disk
  - xfsprogs or e2fsprogs, for O(filesystem)
  - wipefs, mount and umount of util-linux
notes:
  - The module fails if an earlier run created the array or file system with another O(chunk), O(filesystem) or
    O(label). To create the scratch again with the new options, use O(state=absent) and then O(state=present).
  - A disk counts as blank if wipefs finds no signature on it. Raw data without a signature cannot be detected.
  - The module recognizes its own file systems by their UUID, which is derived from the array's UUID or the disk's
    serial number and begins with C(68706361-69). The module needs no state file, which a new image could lose.
seealso:
  - module: hpcai.azure.node_tools
  - name: The scratch
    description: How scratch, boot and redeployment work together, and what each refusal means.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_scratch.rst
"""

EXAMPLES = r"""
- name: Create the scratch from all local NVMe disks of the VM size
  hpcai.azure.nvme_raid:
    nvme_count: "{{ azure_sku.nvme_count | default(omit) }}"

- name: Save the options in an image, so that nodes with this image use them at boot
  hpcai.azure.nvme_raid:
    state: configured
    chunk: 1M

- name: Use an existing array that another tool created
  hpcai.azure.nvme_raid:
    adopt: true
    mountpoint: /mnt/resource_nvme

- name: Use three disks of another model, one of which still contains an old file system
  hpcai.azure.nvme_raid:
    devices: [/dev/nvme1n1, /dev/nvme2n1, /dev/nvme3n1]
    force_devices: [/dev/nvme3n1]

- name: Remove the scratch and all its data
  hpcai.azure.nvme_raid:
    state: absent
"""

RETURN = r"""
actions:
  description: Actions that the module took, in order. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - create a RAID 0 of nvme0n1 nvme1n1
    - make xfs hpcaiscratch on the new array
    - mount the new array on /scratch
    - make /scratch root:root 1777
    - write /etc/hpcai/scratch.json
array:
  description: The device that is mounted. Null if there is none, or if check mode cannot know it.
  returned: success
  type: str
  sample: /dev/md127
devices:
  description: The disks of the scratch.
  returned: success
  type: list
  elements: str
  sample: [/dev/nvme0n1, /dev/nvme1n1]
filesystem:
  description: The file system, or null if there is none.
  returned: success
  type: str
  sample: xfs
mountpoint:
  description: Where the file system is mounted, or null if it is not mounted.
  returned: success
  type: str
  sample: /scratch
size_bytes:
  description: Size of the device in bytes. If check mode cannot know it, the total size of the disks.
  returned: success
  type: int
  sample: 7681501126656
adopted:
  description: Whether the array was created by another tool (O(adopt)).
  returned: success
  type: bool
  sample: false
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import existing_root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch import options as scratch
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.disk_count import stated_count, with_count
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.ensure import as_results, ensure

ARGUMENTS: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent", "configured"], "default": "present"},
    **scratch.ARGUMENTS,
    "nvme_count": {"type": "int"},
    "persistent": {"type": "bool", "default": True},
    "lock_timeout": {"type": "float", "default": 60},
    "root": {"type": "path", "default": "/"},
}


def main() -> NoReturn:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    options = {name: module.params[name] for name in scratch.DEFAULTS}
    persistent = module.params["persistent"] and module.params["state"] != "absent"
    try:
        nvme_count = scratch.disk_count("nvme_count", module.params["nvme_count"])
        requested = scratch.parse(options)
        disks = stated_count(requested, nvme_count)
        outcome = ensure(
            module.params["state"],
            with_count(requested, disks) if disks else requested,
            existing_root(module.params["root"]),
            run,
            check=module.check_mode,
            lock_timeout_s=module.params["lock_timeout"],
            settings=scratch.as_settings(options) if persistent else None,
        )
    except (CommandFailed, ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    for warning in outcome.warnings:
        module.warn(warning)
    module.exit_json(**as_results(outcome), diff={"before": dict(outcome.before), "after": dict(outcome.after)})


if __name__ == "__main__":
    main()
