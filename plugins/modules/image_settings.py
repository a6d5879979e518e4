#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_settings
short_description: Apply system settings for HPC jobs to a node image
version_added: "0.1.0"
description:
  - Configures process limits, kernel settings and modules, the Azure agent, automatic package updates, and the time
    source of chrony. Components that the machine does not have are skipped.
  - If the base image itself sets one of the requested process limits or kernel settings, even to another value, the
    module leaves it unchanged and reports it. To set it anyway, list it in O(insist). Azure's HPC images set many of
    these.
  - Works on a running machine and on a mounted image that is not booted. On a running machine, kernel settings take
    effect immediately. Everything else takes effect at the next boot or service start.
  - A running container uses the kernel, limits and clock of its host. There the module writes kernel settings to their
    files, but does not apply them to the kernel, and it sets neither limits nor the time source.
  - If an option is not given, the module removes what an earlier run wrote for this option. Settings of the Azure agent
    and of C(dnf-automatic) stay as they are.
author:
  - hpcai.azure contributors (@hpcai)
options:
  limits:
    description:
      - Process limits by their names in C(limits.conf), such as C(memlock), for all logins, including root. C(memlock)
        and C(nofile) also apply to services without a value of their own.
      - A limit with the value null is not set.
    type: dict
    default: {}
  sysctl:
    description: Kernel settings, as a mapping of names to values. A setting with the value null is not set.
    type: dict
    default: {}
  insist:
    description:
      - Names of limits and kernel settings to set even if the base image sets them to another value.
    type: list
    elements: str
    default: []
  modules:
    description: Kernel modules to load at boot. A module that no kernel of the image has is skipped.
    type: list
    elements: str
    default: []
  module_options:
    description: Options of kernel modules. For each module, a mapping of options to values.
    type: dict
    default: {}
  agent:
    description:
      - Settings of the Azure agent by their names in C(/etc/waagent.conf). Other lines and comments stay. If the file
        does not exist, nothing is written.
    type: dict
    default: {}
  scratch:
    description:
      - Mount point of the scratch, the file system on the node's local NVMe disks. If the Azure agent would mount the
        temporary disk there, the module gives this disk another mount point. This is done only if O(agent) is not
        empty.
    type: path
    default: /scratch
  updates:
    description:
      - V(off) disables automatic updates. V(leave) keeps the setting of the base image. V(security) allows security
        updates only.
      - On Debian and Ubuntu, V(security) excludes kernels, GPU drivers, RDMA and Slurm. On Enterprise Linux, it
        excludes no packages, and it enables none of the timers of C(dnf-automatic).
    type: str
    choices: ["off", security, leave]
    default: leave
  network_rules:
    description:
      - Whether to remove udev rules that bind network interface names to the network cards of another machine. If
        V(true), the module also reports whether a running machine has accelerated networking.
    type: bool
    default: false
  time:
    description:
      - V(azure) makes chrony use the clock of the Azure host. V(auto) does so only on a running machine in Azure,
        because chronyd would not start elsewhere. V(leave) keeps the setting of the base image.
    type: str
    choices: [auto, azure, leave]
    default: leave
  root:
    description: Root folder of the machine's files, for a mounted image that is not booted.
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  platform:
    description:
      - Works on Debian, Ubuntu and Enterprise Linux 9, on a running machine and on a mounted image that is not booted.
seealso:
  - module: hpcai.azure.image_generalise
  - name: Role hpcai.azure.image
    description: The role uses this module, and defines the values.
    link: https://github.com/hpcai/azure/tree/main/roles/image
"""

EXAMPLES = r"""
- name: Allow processes to lock memory, enlarge the ARP table, and disable automatic updates
  hpcai.azure.image_settings:
    limits:
      memlock: unlimited
    sysctl:
      net.ipv4.neigh.default.gc_thresh3: 16384
    updates: "off"
"""

RETURN = r"""
written:
  description: Files that were written or removed, and settings of the running kernel that were changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/security/limits.d/90-hpcai-image.conf, /proc/sys/vm/zone_reclaim_mode]
left_alone:
  description: Settings that the base image itself sets, and that the module therefore left unchanged.
  returned: success
  type: list
  elements: str
  sample: ["vm.zone_reclaim_mode is 1 (sysctl)"]
remarks:
  description: Remarks about the machine or the image.
  returned: success
  type: list
  elements: str
  sample: ["accelerated networking: eth0 runs over enP1s1 (mlx5_core)"]
base:
  description: The base image.
  returned: success
  type: dict
  contains:
    os:
      description: Operating system and version.
      type: str
      sample: ubuntu-22.04
    hpc_image:
      description: Whether the base image is one of Azure's HPC images.
      type: bool
    versions:
      description: Versions of the components, as an HPC image lists them.
      type: dict
      sample: {NVIDIA: 580.126.16}
    present:
      description: Which of driver, persistenced, fabricmanager, dcgm and rdma are installed.
      type: list
      elements: str
    gpus:
      description: How many NVIDIA GPUs the running machine has on its PCI bus.
      type: int
    container:
      description: Whether this is a running container, which has the kernel, limits and clock of its host.
      type: bool
    booted:
      description: Whether this is a running machine with its own kernel, and neither a container nor a mounted image.
      type: bool
    secure_boot:
      description: Whether this is a running machine whose firmware has Secure Boot turned on.
      type: bool
"""

from dataclasses import asdict
from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import existing_root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image import services, settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.image.facts import read_base
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import BrokenBlock


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "limits": {"type": "dict", "default": {}},
            "sysctl": {"type": "dict", "default": {}},
            "insist": {"type": "list", "elements": "str", "default": []},
            "modules": {"type": "list", "elements": "str", "default": []},
            "module_options": {"type": "dict", "default": {}},
            "agent": {"type": "dict", "default": {}},
            "scratch": {"type": "path", "default": "/scratch"},
            "updates": {"type": "str", "choices": list(services.UPDATE_MODES), "default": services.UPDATES_LEAVE},
            "network_rules": {"type": "bool", "default": False},
            "time": {"type": "str", "choices": list(services.TIME_MODES), "default": services.TIME_LEAVE},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    given = dict(module.params)
    root_path = given.pop("root")
    options = settings.ImageOptions(network=given.pop("network_rules"), **given)
    try:
        root = existing_root(root_path)
        base = read_base(root)
        planned = settings.plan(root, options)
        made = settings.changes(planned)
        if made and not module.check_mode:
            settings.apply(root, planned, run)
    except (BrokenBlock, CommandFailed, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(made),
        written=made,
        left_alone=settings.in_words([text for change in planned for text in change.left_alone]),
        remarks=settings.in_words([text for change in planned for text in change.remarks]),
        base=asdict(base),
        diff=settings.as_diff(planned),
    )


if __name__ == "__main__":
    main()
