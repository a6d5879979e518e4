#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_clocks
short_description: Set the clocks of NVIDIA GPUs to their maximum, to chosen values, or to the default
version_added: "0.1.0"
description:
  - Sets the graphics and memory clocks of all or some GPUs of a node, and persistence mode on request.
  - NVIDIA has two kinds of settings. I(Application clocks) (C(nvidia-smi -ac)) can be read back, and newer drivers do
    not have them any more. I(Locked clocks) (C(nvidia-smi -lgc), C(-lmc)) take precedence over them, and no function of
    the driver reads them back. The module takes application clocks where the driver has them, else locked clocks, and
    says which.
  - What was locked is therefore noted in C(/run/hpcai/clocks.json), for this boot and this load of the driver only. A
    result that rests on that note says RV(gpus[].recorded=true).
  - V(default) undoes both kinds.
  - Where neither kind works, RV(gpus[].supported) is V(false) and RV(gpus[].reason) holds the driver's words.
  - One GPU that fails does not keep the others from being set. The module fails at the end, with the results of all.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(max) sets the highest clocks that the GPU supports.
      - V(explicit) sets O(graphics_mhz) and O(memory_mhz).
      - V(default) undoes application clocks and locked clocks.
    type: str
    choices: [max, explicit, default]
    default: max
  graphics_mhz:
    description:
      - Graphics (SM) clock for O(state=explicit), in MHz. It must be one that the GPU supports.
      - Defaults to the highest that goes with the memory clock.
    type: int
  memory_mhz:
    description:
      - Memory clock for O(state=explicit), in MHz. It must be one that the GPU supports.
      - Defaults to the highest.
    type: int
  gpus:
    description:
      - Which GPUs, by index, UUID or PCI address (C(0001:00:00.0)). V(all) for all of them.
      - NVML does not promise that a GPU has the same index after a reboot. Prefer PCI addresses where
        O(persistent=true).
      - The UUID of a MIG instance means the GPU that it is part of, since clocks belong to the whole GPU.
    type: list
    elements: str
    default: [all]
  method:
    description:
      - V(auto) takes application clocks where the driver has them, else locked clocks.
      - V(application) and V(locked) take that kind only.
      - Of no consequence for O(state=default).
    type: str
    choices: [auto, application, locked]
    default: auto
  persistence:
    description:
      - Whether persistence mode is on. Left as it is by default.
      - Without it the driver forgets all clocks when its last client leaves. Set V(true), unless C(nvidia-persistenced)
        keeps it on.
    type: bool
  on_unsupported:
    description: Whether a GPU or driver that cannot do what is asked for makes the module fail, or only warn.
    type: str
    choices: [fail, warn]
    default: fail
  persistent:
    description:
      - V(true) writes these options to C(/etc/hpcai/clocks.json), for C(hpcnode clocks apply) at each boot. For
        O(state=default) without O(persistence) it removes that file, as each boot begins with the default.
      - V(false) leaves the file alone.
    type: bool
    default: false
  timeout:
    description:
      - Seconds that one question to the driver may take. A driver that does not answer makes the GPU in question fail.
      - Without persistence mode the first question starts all the GPUs, which takes some seconds for each.
    type: float
    default: 30
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description:
      - Can run in check mode and says what it would do, without changing anything.
      - Whether the driver would refuse application clocks that it shows cannot be told without trying.
  diff_mode:
    description: Shows persistence mode and clocks of each GPU that changes, before and after, and why.
  idempotent:
    description:
      - A second run changes nothing.
      - While persistence mode is off, locked clocks are set anew by each run, because the driver may have forgotten
        them.
  platform:
    description: Works on Linux with NVIDIA's driver; reads through NVML, the driver's own library.
notes:
  - Needs root.
  - What somebody else did to the locks since (C(nvidia-smi -lgc), C(-rgc), a GPU reset) cannot be read. A clock above
    the noted lock disproves it, and it is set anew; one below it without a reason of the driver's is warned of.
  - GPUs with HBM refuse a locked memory clock. That is no failure, and RV(gpus[].memory_lock) tells it.
seealso:
  - ref: GPU clocks <ansible_collections.hpcai.azure.docsite.guide_gpu_clocks>
    description: The two kinds of settings, what can be known of them, and what older procedures get wrong.
"""

EXAMPLES = r"""
- name: Run all GPUs at their maximum, now and after each boot
  hpcai.azure.gpu_clocks:
    state: max
    persistence: true
    persistent: true

- name: Lock the graphics clock of two GPUs for comparable measurements
  hpcai.azure.gpu_clocks:
    state: explicit
    graphics_mhz: 1095
    method: locked
    gpus: [0, 1]

- name: Undo whatever was set
  hpcai.azure.gpu_clocks:
    state: default
"""

RETURN = r"""
via:
  description: How the driver was asked, always V(nvml).
  returned: when the driver could be asked
  type: str
  sample: nvml
gpus:
  description: A result for each GPU that was meant, also when the module fails.
  returned: when the driver could be asked
  type: list
  elements: dict
  contains:
    index:
      description: The driver's number of the GPU.
      type: int
    uuid:
      description: Its UUID; null if the GPU could not be read.
      type: str
    busid:
      description: Its PCI address in Linux's spelling.
      type: str
    name:
      description: Its model.
      type: str
    mig:
      description: Whether MIG mode is on; null where the GPU has no MIG.
      type: bool
    mig_instances:
      description: UUIDs of its MIG instances.
      type: list
      elements: str
    persistence:
      description: Whether persistence mode is on.
      type: bool
    changed:
      description: Whether this GPU was changed.
      type: bool
    failed:
      description: Whether it failed; RV(gpus[].msg) says why.
      type: bool
    msg:
      description: What failed; null if nothing did.
      type: str
    supported:
      description: Whether GPU and driver can do what is asked for; null if the GPU failed.
      type: bool
    reason:
      description: The driver's words for what it cannot do, also where another way was found.
      type: str
    method:
      description: V(application) or V(locked); null for the default.
      type: str
    recorded:
      description: Whether our own note says so, and not the driver, that the locks are as wanted.
      type: bool
    clocks:
      description:
        - C(highest), C(application), C(default_application), C(locked) and C(current), each with C(memory_mhz) and
          C(graphics_mhz). C(locked) comes from our own note; null means that nothing is known.
      type: dict
    memory_lock:
      description: V(locked), or the driver's words where it refused to lock the memory clock.
      type: str
    actions:
      description: The changes that were made; in check mode those that would be.
      type: list
      elements: str
    reasons:
      description: Why they were needed.
      type: list
      elements: str
  sample:
    - index: 0
      uuid: GPU-00000000-1111-2222-3333-444444444444
      busid: "0001:00:00.0"
      name: NVIDIA A100-SXM4-40GB
      mig: false
      mig_instances: []
      persistence: true
      changed: true
      failed: false
      msg: null
      supported: true
      reason: null
      method: application
      recorded: false
      clocks:
        highest: {memory_mhz: 1215, graphics_mhz: 1410}
        application: {memory_mhz: 1215, graphics_mhz: 1410}
        default_application: {memory_mhz: 1215, graphics_mhz: 1095}
        locked: {memory_mhz: null, graphics_mhz: null}
        current: {memory_mhz: 1215, graphics_mhz: 1410}
      memory_lock: null
      actions: [set_application 1215 1410, unlock_graphics]
      reasons:
        - application clocks are memory 1215 MHz, graphics 1095 MHz
        - whether clocks are locked cannot be read
"""

from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError, connect
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.lock import Locked
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import clocks


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            **clocks.ARGUMENTS,
            "persistent": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    options = dict(module.params)
    persistent, root = options.pop("persistent"), Root()
    try:
        clock_options = clocks.parse(options)
        driver = connect(root, clock_options.timeout)
        try:
            outcome = clocks.ensure(root, driver, clock_options, module.check_mode)
        finally:
            driver.close()
        boot = clocks.write_options(root, clock_options, module.check_mode) if persistent else {}
    except (GpuError, Locked, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    answer: dict[str, Any] = {
        "changed": outcome.changed or bool(boot),
        "via": outcome.via,
        "gpus": list(outcome.gpus),
        "diff": [diff for diff in (dict(outcome.diff), boot) if diff],
    }
    for warning in outcome.warnings:
        module.warn(warning)
    if outcome.problems:
        module.fail_json(msg="; ".join(outcome.problems), **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
