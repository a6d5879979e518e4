#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_boot
short_description: Configure what a node does with its GPUs at each boot
version_added: "0.1.0"
description:
  - Writes C(/etc/hpcai/gpu.json) and C(/etc/hpcai/clocks.json), the settings that C(hpcnode) reads at each boot. Also
    enables C(nvidia-persistenced) if it is installed.
  - The module needs neither a GPU nor a driver, so you can bake an image on a machine without GPUs. The settings take
    effect at the next boot. To apply them at once, use M(hpcai.azure.gpu_clocks) and M(hpcai.azure.node_boot).
  - You can use this module together with M(hpcai.azure.gpu_clocks) and its option
    O(hpcai.azure.gpu_clocks#module:persistent=true). With the same options, both modules write the same C(clocks.json).
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(absent) removes both files. Each boot then checks for the GPUs that the VM size should have, and does not set
        clocks. If C(nvidia-persistenced) was enabled, it stays enabled.
    type: str
    choices: [present, absent]
    default: present
  min_driver:
    description:
      - Oldest version of NVIDIA's driver with which the node may take jobs, such as V(535) or V(550.54.15).
      - By default any version is accepted.
    type: str
  gpu_count:
    description:
      - Number of GPUs that the node must have. V(0) skips the check.
      - Defaults to the number that its VM size should have.
    type: int
  timeout:
    description:
      - Timeout in seconds for one query to the driver at boot. If two queries in a row get no answer, the node takes no
        jobs.
    type: float
    default: 30
  clocks:
    description:
      - The clocks to set after each boot and each load of the driver. The keys are options of
        M(hpcai.azure.gpu_clocks).
      - If not given, C(/etc/hpcai/clocks.json) stays as it is.
    type: dict
    suboptions:
      state:
        description: See M(hpcai.azure.gpu_clocks).
        type: str
        choices: [max, explicit, default]
        default: max
      graphics_mhz:
        description: See M(hpcai.azure.gpu_clocks).
        type: int
      memory_mhz:
        description: See M(hpcai.azure.gpu_clocks).
        type: int
      gpus:
        description: See M(hpcai.azure.gpu_clocks).
        type: list
        elements: str
        default: [all]
      method:
        description: See M(hpcai.azure.gpu_clocks).
        type: str
        choices: [auto, application, locked]
        default: auto
      persistence:
        description: See M(hpcai.azure.gpu_clocks).
        type: bool
      on_unsupported:
        description: See M(hpcai.azure.gpu_clocks).
        type: str
        choices: [fail, warn]
        default: fail
      timeout:
        description: See M(hpcai.azure.gpu_clocks).
        type: float
        default: 30
  persistence_daemon:
    description:
      - Whether to enable C(nvidia-persistenced) if it is installed and disabled. This daemon keeps the driver loaded,
        so that the clocks are kept and jobs start without delay.
      - If C(nvidia-persistenced) is masked, or is static because a udev rule starts it, the module does not change it.
    type: bool
    default: true
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  diff_mode:
    description: Shows the files, and the state of C(nvidia-persistenced), before and after.
  platform:
    description: Works on Linux, also in a mounted image that is not booted.
seealso:
  - module: hpcai.azure.gpu_clocks
  - module: hpcai.azure.node_boot
"""

EXAMPLES = r"""
- name: Bake an image whose nodes set the GPUs' maximum clocks and require driver 550 or later
  hpcai.azure.gpu_boot:
    min_driver: "550"
    clocks:
      state: max
      persistence: true

- name: Remove the settings
  hpcai.azure.gpu_boot:
    state: absent
"""

RETURN = r"""
settings:
  description:
    - Settings of the GPU check at each boot, including defaults. If C(min_driver) is null, any version of the driver is
      accepted. If C(gpu_count) is null, the VM size determines the number of GPUs.
  returned: success
  type: dict
  sample: {min_driver: "550", gpu_count: null, timeout: 30.0}
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import clocks, gpu_boot


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **gpu_boot.ARGUMENTS,
            "clocks": {"type": "dict", "options": clocks.ARGUMENTS},
            "persistence_daemon": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    given = dict(module.params)
    state, given_clocks, daemon = given.pop("state"), given.pop("clocks"), given.pop("persistence_daemon")
    try:
        options = gpu_boot.DEFAULTS
        if state == "present":
            at_boot = None if given_clocks is None else clocks.parse(given_clocks)
            options = gpu_boot.BootOptions(gpu_boot.settings_of(given), at_boot, daemon)
        diff = gpu_boot.ensure(Root(), run, options, module.check_mode)
    except (CommandFailed, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(diff), diff=diff, settings=asdict(options.settings))


if __name__ == "__main__":
    main()
