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
  - NVIDIA has two kinds of settings. I(Application clocks) (C(nvidia-smi -ac)) can be read back, but newer drivers no
    longer have them. I(Locked clocks) (C(nvidia-smi -lgc), C(-lmc)) take precedence, but no function of the driver
    reads them back. The module uses application clocks if the driver has them, else locked clocks, and reports which
    kind it used.
  - Because locked clocks cannot be read back, the module records them in C(/run/hpcai/clocks.json). The record is valid
    only for this boot and this load of the driver. A result that relies on this record has
    RV(gpus[].recorded=true).
  - O(state=default) resets both kinds.
  - If neither kind works, RV(gpus[].supported) is V(false) and RV(gpus[].reason) contains the driver's message.
  - If one GPU fails, the others are still set. The module then fails at the end, with the results of all GPUs.
author:
  - hpcai.azure contributors (@hpcai)
options:
  state:
    description:
      - V(max) sets the highest clocks that the GPU supports.
      - V(explicit) sets O(graphics_mhz) and O(memory_mhz).
      - V(default) resets application clocks and locked clocks. If clocks are saved for each boot, also set
        O(persistent=true). Otherwise the next boot sets the saved clocks again.
    type: str
    choices: [max, explicit, default]
    default: max
  graphics_mhz:
    description:
      - Graphics (SM) clock for O(state=explicit), in MHz. The GPU must support it.
      - Defaults to the highest clock that the GPU supports together with the memory clock.
    type: int
  memory_mhz:
    description:
      - Memory clock for O(state=explicit), in MHz. The GPU must support it.
      - Defaults to the highest clock that the GPU supports.
    type: int
  gpus:
    description:
      - The GPUs, by index, UUID or PCI address (C(0001:00:00.0)). V(all) means all GPUs.
      - NVML does not guarantee that a GPU has the same index after a reboot. Prefer PCI addresses with
        O(persistent=true).
      - The UUID of a MIG instance selects the GPU that contains the instance, because clocks apply to the entire GPU.
    type: list
    elements: str
    default: [all]
  method:
    description:
      - V(auto) uses application clocks if the driver has them, else locked clocks.
      - V(application) and V(locked) use only that kind.
      - Ignored for O(state=default).
    type: str
    choices: [auto, application, locked]
    default: auto
  persistence:
    description:
      - Whether to set persistence mode on or off. By default it stays as it is.
      - Without persistence mode, the driver forgets all clocks when its last client exits. Set V(true), unless
        C(nvidia-persistenced) keeps persistence mode on.
    type: bool
  on_unsupported:
    description: Whether the module fails or only warns if a GPU or driver does not support the requested setting.
    type: str
    choices: [fail, warn]
    default: fail
  persistent:
    description:
      - V(true) writes these options to C(/etc/hpcai/clocks.json). At each boot, the node reads this file before slurmd
        starts, and sets the clocks again. For O(state=default) without O(persistence), V(true) removes the file,
        because each boot starts with the default clocks.
      - V(false) does not change the file.
    type: bool
    default: false
  timeout:
    description:
      - Timeout in seconds for one query to the driver. If the driver does not answer for a GPU, this GPU counts as
        failed.
      - Without persistence mode, the first query starts all GPUs, which takes some seconds per GPU.
    type: float
    default: 30
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  check_mode:
    description:
      - Reports in check mode what it would do, without changing anything.
      - Check mode cannot tell whether the driver would refuse application clocks that it lists.
  diff_mode:
    description: Shows persistence mode and clocks of each GPU that changes, before and after, and why.
  idempotent:
    description:
      - A second run changes nothing.
      - While persistence mode is off, each run sets locked clocks again, because the driver may have forgotten them.
  platform:
    description: Works on Linux with NVIDIA's driver. Uses NVML, the driver's own library.
notes:
  - Needs root.
  - The module cannot read whether somebody else has changed locked clocks after its last run, for example with
    C(nvidia-smi -lgc), C(nvidia-smi -rgc) or a GPU reset. If the current clock is above the recorded lock, the lock is
    gone, and the module sets it again. If the current clock is below the recorded lock, and the driver gives no reason
    for the lower clock, the module warns.
  - GPUs with HBM refuse to lock the memory clock. This is not a failure, and RV(gpus[].memory_lock) reports it.
seealso:
  - ref: GPU clocks <ansible_collections.hpcai.azure.docsite.guide_gpu_clocks>
    description: The two kinds of settings, what can be read back, and what older procedures get wrong.
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

- name: Reset all clocks to the default
  hpcai.azure.gpu_clocks:
    state: default
"""

RETURN = r"""
via:
  description: How the driver was queried, always V(nvml).
  returned: when the driver could be queried
  type: str
  sample: nvml
gpus:
  description: A result for each selected GPU, also if the module fails.
  returned: when the driver could be queried
  type: list
  elements: dict
  contains:
    index:
      description: The driver's index of the GPU.
      type: int
    uuid:
      description: UUID of the GPU, or null if the GPU could not be read.
      type: str
    busid:
      description: PCI address in Linux's spelling.
      type: str
    name:
      description: Model of the GPU.
      type: str
    mig:
      description: Whether MIG mode is on, or null if the GPU has no MIG.
      type: bool
    mig_instances:
      description: UUIDs of the GPU's MIG instances.
      type: list
      elements: str
    persistence:
      description: Whether persistence mode is on.
      type: bool
    changed:
      description: Whether this GPU was changed.
      type: bool
    failed:
      description: Whether this GPU failed. RV(gpus[].msg) gives the reason.
      type: bool
    msg:
      description: What failed, or null if nothing failed.
      type: str
    supported:
      description: Whether GPU and driver support the requested setting, or null if the GPU failed.
      type: bool
    reason:
      description: The driver's message about what it does not support, also if another method worked.
      type: str
    method:
      description: V(application) or V(locked). Null with O(state=default).
      type: str
    recorded:
      description: Whether only the module's own record, and not the driver, confirms that the locks are as requested.
      type: bool
    clocks:
      description:
        - Clocks, each with C(memory_mhz) and C(graphics_mhz). Null means that a value is unknown or not set.
        - C(highest) is the highest clock that the GPU supports, and C(current) the clock at this moment. C(application)
          is the application clock that is set, and C(default_application) its default. C(locked) is the locked clock
          according to the module's own record.
      type: dict
    memory_lock:
      description:
        - V(locked), or the driver's message if the driver refused to lock the memory clock. Null if the module did not
          use locked clocks.
      type: str
    actions:
      description: Changes that the module made. In check mode, the changes that it would make.
      type: list
      elements: str
    reasons:
      description: Why the changes were needed.
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
