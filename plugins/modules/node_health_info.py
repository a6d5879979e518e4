#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_health_info
short_description: Run health checks on a node and return the results
version_added: "0.1.0"
description:
  - Runs the checks of a tier (the checks for one occasion, such as the boot), as C(hpcnode health run) does. Returns
    their verdicts with the measured values, the limits and what to do.
  - If a check could not measure, its verdict is V(unknown), never V(pass).
  - Each check has a timeout, after which it is aborted.
  - Nothing needs to be installed on the node. If a check needs a missing tool, its verdict is V(unknown).
author:
  - hpcai.azure contributors (@hpcai)
options:
  tier:
    description:
      - The tier of checks to run. V(prolog) and V(periodic) take seconds, V(epilog) and V(boot) at most a minute. These
        four tiers disturb no job.
      - V(deep) measures bandwidths for minutes and disturbs every job on the node. While it runs, Ansible shows which
        check is running. If you interrupt Ansible, the module starts no further checks after three minutes.
    type: str
    choices: [prolog, periodic, epilog, boot, deep]
    default: periodic
  only:
    description:
      - Names of checks of this tier. By default all checks run.
      - With this option, the record of the tier's last run in C(/run/hpcai/health) is not changed.
    type: list
    elements: str
    default: []
  fail_on:
    description:
      - The least severe verdict for which the task fails. The task also fails for worse verdicts.
      - V(unknown) is worse than V(warn), and V(fail) is worse than V(unknown). If all checks were skipped, this counts
        as V(unknown).
      - By default the task never fails because of a verdict, so that a play can gather the verdicts of all nodes.
    type: str
    choices: [never, fail, unknown, warn]
    default: never
  progress:
    description:
      - Folder to which the module writes its progress. For the tier V(deep), the action plugin of the same name sets
        this option and reads the folder. Do not set it in a task.
    type: path
    version_added: "0.2.0"
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Does the same in check mode, because it does not change the configuration of the node.
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Never reports a change.
  platform:
    description: Works on a running machine only.
notes:
  - Records of the runs are saved in C(/run/hpcai/health) and C(/var/lib/hpcai/health), as C(hpcnode health run) does.
    Some findings from logs are saved there until the machine restarts, a reset of the GPU repairs the fault, or
    somebody runs C(hpcnode health clear).
  - To skip a check or change its limit, set C(health_checks_config) of the role C(health_checks), which writes
    C(/etc/hpcai/health.json).
seealso:
  - module: hpcai.azure.node_boot
  - name: Health checks
    description: The checks and their limits, how to run them, and how to read the results.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_health.rst
"""

EXAMPLES = r"""
- name: Run the periodic tier, and continue with any verdict
  hpcai.azure.node_health_info:
  register: checked

- name: Fail if the node lost a GPU
  hpcai.azure.node_health_info:
    tier: prolog
    only: [gpu_count]
    fail_on: fail
"""

RETURN = r"""
health:
  description: The run, as C(hpcnode health run --json) prints it.
  returned: always
  type: dict
  contains:
    schema:
      description: Version of the schema of this document.
      type: int
    command:
      description: Always V(health).
      type: str
    status:
      description: The exit status that C(hpcnode health run) would return.
      type: int
    tier:
      description: The tier.
      type: str
    time:
      description: Start of the run, in UTC, ISO 8601.
      type: str
    seconds:
      description: Duration in seconds.
      type: float
    verdict:
      description: The worst verdict of all checks. The order from worst to best is V(fail), V(unknown), V(warn),
        V(pass). V(skip) if all checks were skipped.
      type: str
    node:
      description: Identity of the machine. C(host) is the physical host. C(boot_id) is the kernel's id of this boot.
        C(image) is the version of the collection that made the image, and C(collection) is the version that ran the
        checks. Unknown values are empty.
      type: dict
    checks:
      description:
        - The checks in the order of their run. C(summary) says what was found, and C(limit) which limits were used.
        - C(hint) says what to do in words. C(action) is V(nothing), V(observe), V(reset_gpu), V(reboot) or V(replace).
          C(cause) is V(node), or V(user) if a user's job caused the problem.
        - C(fault) is the code of Azure's node health checks (AzNHC) for the problem, or empty.
        - C(latched) is true if the verdict comes from a finding of an earlier run.
        - C(findings) lists each problem with its device, and C(readings) each measured value.
      type: list
      elements: dict
    problems:
      description: Problems that no check reports, such as a record that could not be written.
      type: list
      elements: str
  sample:
    schema: 1
    command: health
    status: 1
    tier: periodic
    time: "2026-11-22T16:40:00Z"
    seconds: 0.812
    verdict: fail
    node:
      name: batch-7
      vm_id: 5f3c1f0a-0000-0000-0000-000000000001
      vm_size: Standard_ND96asr_v4
      host: SN1PPF2B0E1234
      boot_id: 11111111-2222-3333-4444-555555555555
      image: "0.1.0"
      collection: "0.1.0"
    checks:
      - name: gpu_count
        verdict: fail
        summary: "7 of 8 GPUs: 0003:00:00.0 not on the PCI bus"
        hint: Redeploy or replace the instance
        action: replace
        fault: NHC2009
        cause: node
        seconds: 0.021
        latched: false
        limit: "8"
        findings: []
        readings: []
    problems: []
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.catalog import NoSuchCheck
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PERIODIC, TIERS
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.perform import (
    FAIL_ON,
    NEVER,
    as_result,
    perform,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.progress import Abandoned, reporting
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run
from ansible_collections.hpcai.azure.plugins.module_utils._node.version import VERSION

SPEC = {
    "tier": {"type": "str", "choices": list(TIERS), "default": PERIODIC},
    "only": {"type": "list", "elements": "str", "default": []},
    "fail_on": {"type": "str", "choices": list(FAIL_ON), "default": NEVER},
    "progress": {"type": "path"},
}


def main() -> NoReturn:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        with reporting(module.params["progress"]) as report:
            done = perform(
                module.params["tier"],
                module.params["only"],
                Root(),
                run,
                VERSION,
                begin=lambda name, number, of: report(f"check {number} of {of}: {name}"),
            )
    except (Abandoned, NoSuchCheck) as error:
        module.fail_json(msg=str(error))
    result = as_result(done.recorded_document, module.params["fail_on"])
    for problem in result.pop("warnings"):
        module.warn(problem)
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
