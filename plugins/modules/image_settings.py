#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_settings
short_description: Give a node image the settings of a machine for HPC jobs
version_added: "0.1.0"
description:
  - Writes limits of processes, settings and modules of the kernel, the Azure agent's settings, who updates packages,
    and how chrony follows the time, each where the machine has the thing at all.
  - What the base image sets already, as Azure's HPC images do, is left alone and reported.
  - Works on a running machine and on an image at rest. The running kernel gets its settings at once, unless this is a
    container, whose kernel belongs to others. All else counts from the next boot, or the next start of a service.
  - A running container has the limits and the clock of its host. Neither is set there.
  - Without an option, what an earlier run wrote for it is removed. The Azure agent's settings stay as they are.
author:
  - hpcai.azure contributors (@hpcai)
options:
  limits:
    description:
      - Limits of processes by their names in C(limits.conf), such as C(memlock), for all who log in, root too.
        C(memlock) and C(nofile) also for services that state none themselves.
      - A value of null leaves that limit alone.
    type: dict
    default: {}
  sysctl:
    description: Settings of the kernel by name. A value of null leaves that one alone.
    type: dict
    default: {}
  insist:
    description:
      - Names of limits and settings of the kernel that are set even where the base image has them with another value.
    type: list
    elements: str
    default: []
  modules:
    description: Modules of the kernel to load at boot. One that no kernel of the image has is left out.
    type: list
    elements: str
    default: []
  module_options:
    description: Options of modules, as a mapping of module to option to value.
    type: dict
    default: {}
  agent:
    description:
      - Settings of the Azure agent by their names in C(/etc/waagent.conf). Other lines, and comments, stay. Where
        there is no such file, nothing is written.
    type: dict
    default: {}
  scratch:
    description: Where scratch is mounted. If the agent mounts its temporary disk there, it is sent elsewhere.
    type: path
    default: /scratch
  updates:
    description:
      - V(off) stops updates that nobody asked for. V(security) lets security updates in, but none of kernels, GPU
        drivers, RDMA and Slurm. V(leave) leaves it to the base image.
    type: str
    choices: ["off", security, leave]
    default: leave
  network_rules:
    description:
      - Whether to remove rules that tie names of network cards to the cards of another machine. With this the module
        also says whether a running machine's network is accelerated.
    type: bool
    default: false
  time:
    description:
      - V(azure) lets chrony follow the clock of the Azure host. V(auto) does so on a running machine of Azure only,
        because elsewhere chronyd would not start. V(leave) leaves it to the base image.
    type: str
    choices: [auto, azure, leave]
    default: leave
  root:
    description: Folder below which the machine's files lie, for an image that is mounted here.
    type: path
    default: /
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  platform:
    description: Works on Debian, Ubuntu and Enterprise Linux 9, running or at rest.
seealso:
  - module: hpcai.azure.image_generalise
  - name: Role hpcai.azure.image
    description: Uses this module, and has the values.
    link: https://github.com/hpcai/azure/tree/main/roles/image
"""

EXAMPLES = r"""
- name: Let processes lock memory, and neighbours be many
  hpcai.azure.image_settings:
    limits:
      memlock: unlimited
    sysctl:
      net.ipv4.neigh.default.gc_thresh3: 16384
    updates: "off"
"""

RETURN = r"""
written:
  description: Files that were written or removed, and settings of the running kernel that were given anew.
  returned: success
  type: list
  elements: str
  sample: [/etc/security/limits.d/90-hpcai-image.conf, /proc/sys/vm/zone_reclaim_mode]
left_alone:
  description: What the base image has already.
  returned: success
  type: list
  elements: str
  sample: ["vm.zone_reclaim_mode is 1 (sysctl)"]
remarks:
  description: What somebody should know.
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
      description: Its operating system and version.
      type: str
      sample: ubuntu-22.04
    hpc_image:
      description: Whether it is one of Azure's HPC images.
      type: bool
    versions:
      description: What such an image says of its components.
      type: dict
      sample: {NVIDIA: 580.126.16}
    present:
      description: Which of driver, persistenced, fabricmanager, dcgm and rdma are there.
      type: list
      elements: str
    gpus:
      description: How many NVIDIA GPUs the running machine has on its PCI bus.
      type: int
    container:
      description: Whether it is a running container, whose kernel, limits and clock are its host's.
      type: bool
    booted:
      description: Whether it is a running machine with a kernel of its own, no container and no image at rest.
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
    wish = dict(module.params)
    root_path = wish.pop("root")
    options = settings.ImageOptions(network=wish.pop("network_rules"), **wish)
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
