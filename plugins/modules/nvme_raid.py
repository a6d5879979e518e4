#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvme_raid
short_description: Make a scratch file system of a virtual machine's local NVMe disks
version_added: "0.1.0"
description:
  - Builds a RAID 0 of the local NVMe disks, makes a file system on it and mounts it. With one disk there is no RAID,
    and the file system lies straight on it.
  - Finds the disks by their model, so the operating system's disk and remote disks are not touched, whatever their
    names.
  - Looks at what is there and does what is missing. It mounts an array of ours that is not mounted, under whatever
    number the kernel gave it, and builds anew where members are missing or blank, as after a redeployment.
  - Refuses to destroy anything that it did not make. A disk with a partition, a file system, a mount, or a superblock
    of another array is named, with the reason, and nothing is changed. O(force_devices) overrules that for single
    disks.
  - What lies in the scratch does not last. Azure wipes the disks when it deallocates, redeploys or heals the virtual
    machine, and this module builds the array anew when one of its disks was lost.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(present) makes the scratch and mounts it.
      - V(absent) unmounts it, stops the array and removes our superblocks and signatures from its disks. An adopted
        array is only unmounted. Fails if somebody uses it.
      - V(configured) only checks the options and keeps them for the boot, if O(persistent). O(owner) and O(group) must
        exist. Disks are neither needed nor looked at, so it is the state for an image, and for a VM size without local
        NVMe disks.
    type: str
    choices: [present, absent, configured]
    default: present
  devices:
    description:
      - Disks to use, as C(/dev/nvme0n1) or any link to it below C(/dev/disk). Without it, all disks of O(models) are
        used.
      - Their model does not matter, but for C(MSFT NVMe Accelerator), a remote disk, which is always refused.
    type: list
    elements: str
    default: []
  models:
    description: Models of the disks that are used where O(devices) names none.
    type: list
    elements: str
    default: [Microsoft NVMe Direct Disk, Microsoft NVMe Direct Disk v2]
  expected_count:
    description:
      - How many disks there must be. It is kept in the settings for the boot.
      - Without it, each of O(devices) is expected, or O(nvme_count), or any number of disks but none at all.
      - With V(0) a machine without such disks is left as it is.
    type: int
  nvme_count:
    description:
      - How many disks the VM size has, from the facts of the size, V(azure_sku.nvme_count). It counts for this run,
        where neither O(expected_count) nor O(devices) says how many.
      - It is not kept in the settings for the boot. There the node asks itself which size it has, so the settings of an
        image fit each size.
    type: int
  on_count_mismatch:
    description:
      - What to do if there are more or fewer disks than expected.
      - V(warn) and V(ignore) go on with the disks that are there.
    type: str
    choices: [fail, warn, ignore]
    default: fail
  array_name:
    description: Name of the md array. By this name, in its members' superblocks, an array is known to be ours.
    type: str
    default: hpcai-scratch
  chunk:
    description:
      - Stripe unit of the array, a power of two from V(4K) to V(64M).
      - The default suits large sequential reads and writes, as of training data and checkpoints. A request to a disk is
        large, and one of 4 MiB still reaches all eight disks of an ND size.
    type: str
    default: 512K
  filesystem:
    description: The file system. It is made for the array's stripes, and without discarding the whole disks first.
    type: str
    choices: [xfs, ext4]
    default: xfs
  label:
    description: Label of the file system. XFS holds 12 bytes, ext4 16. Nothing waits for it at boot.
    type: str
    default: hpcaiscratch
  mountpoint:
    description: Where to mount it. Made if missing, and refused if there is something in it.
    type: path
    default: /scratch
  mount_options:
    description:
      - Options of the mount. If they change, the file system is remounted.
      - There is no C(discard) among them. It slows down each deletion, and the disks are wiped by Azure anyway.
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
      - Permissions of the mounted folder, octal digits in quotes. Without quotes it is refused, because YAML reads
        V(01777) as another number.
      - By default as C(/tmp) has them. All users may put files there, and only remove their own.
    type: raw
    default: '1777'
  force_devices:
    description:
      - Disks that may be wiped although they hold something that is not ours.
      - No force beats a disk that is in use, as the operating system's, a mounted one, swap, or a member of a running
        array.
      - Holds for this run only. It is not kept in the settings for the boot.
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Use a healthy array that this module did not make, if it lies on chosen disks only and has a file system.
      - It is mounted and otherwise left alone. It is never formatted, stopped or wiped, and O(chunk), O(filesystem),
        O(label), O(owner), O(group) and O(mode) do not apply to it. O(state=absent) unmounts it.
      - When its disks have been wiped by Azure, an array of ours takes its place.
    type: bool
    default: false
  persistent:
    description:
      - Keep these options in C(/etc/hpcai/scratch.json), so that C(hpcai-scratch.service) does the same at each boot,
        as the step C(scratch) of the boot phase. The module M(hpcai.azure.node_tools) installs that service.
      - Nothing is written to C(/etc/fstab), C(mdadm.conf) or the initramfs. A boot without the disks does not hang.
      - V(false) removes the file.
    type: bool
    default: true
  lock_timeout:
    description: Seconds to wait for another run, as at boot, to end.
    type: float
    default: 60
  root:
    description: Folder below which the machine's files lie. Another than V(/) can be looked at in check mode only.
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
  - mdadm, where there is more than one disk
  - xfsprogs or e2fsprogs, for O(filesystem)
  - wipefs, mount and umount of util-linux
notes:
  - An array or file system of ours that was made with another O(chunk), O(filesystem) or O(label) is refused. Make it
    anew by O(state=absent) and then O(state=present).
  - A disk counts as blank if wipefs finds no signature on it. Raw data without any signature cannot be known.
  - File systems of ours are known by their UUID, which is derived from the array's UUID or the disk's serial number and
    begins with C(68706361-69). No record is needed that an image or a reboot could lose.
seealso:
  - module: hpcai.azure.node_tools
  - name: The scratch
    description: How scratch, boot and redeployment play together, and what each refusal means.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_scratch.rst
"""

EXAMPLES = r"""
- name: Make the scratch of all local NVMe disks, as many as the VM size has
  hpcai.azure.nvme_raid:
    nvme_count: "{{ azure_sku.nvme_count }}"

- name: Keep the options in an image, for the boot of whatever is made of it
  hpcai.azure.nvme_raid:
    state: configured
    chunk: 1M

- name: Take the array of an existing site as it is
  hpcai.azure.nvme_raid:
    adopt: true
    mountpoint: /mnt/resource_nvme

- name: Use three disks of another model, one of which still holds an old file system
  hpcai.azure.nvme_raid:
    devices: [/dev/nvme1n1, /dev/nvme2n1, /dev/nvme3n1]
    force_devices: [/dev/nvme3n1]

- name: Remove the scratch and all that is in it
  hpcai.azure.nvme_raid:
    state: absent
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be, in its order.
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
  description: The device that is mounted; null where there is none, or check mode cannot know it.
  returned: success
  type: str
  sample: /dev/md127
devices:
  description: The disks that it lies on.
  returned: success
  type: list
  elements: str
  sample: [/dev/nvme0n1, /dev/nvme1n1]
filesystem:
  description: Its file system; null where there is none.
  returned: success
  type: str
  sample: xfs
mountpoint:
  description: Where it is mounted; null where there is none.
  returned: success
  type: str
  sample: /scratch
size_bytes:
  description: Size of the device, or, where check mode cannot know it, of its disks together.
  returned: success
  type: int
  sample: 7681501126656
adopted:
  description: Whether it is an array that this module did not make.
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
            # Where disks are named, each of them is expected, by whichever path.
            with_count(requested, disks) if disks and not requested.devices else requested,
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
