#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_boot
short_description: Run the steps of the boot phase now
version_added: "0.1.0"
description:
  - Runs the same steps, in the same order, that systemd runs at each boot before slurmd starts. The command
    C(hpcnode boot run) does the same, and C(hpcnode boot status) shows the result.
  - Playbooks call this module before they start slurmd. The node is then in the same state as after a boot, and
    the playbook already reports problems that would keep slurmd from starting at the next boot.
  - Continues after a failed step, so that one run reports all problems.
  - A step changes only what differs from its settings. Each step has a timeout, after which it is aborted and counts as
    failed.
author:
  - hpcai.azure contributors (@hpcai)
options:
  steps:
    description:
      - Names of the steps to run. The steps always run in the order of the boot.
      - Defaults to all steps except V(join), which is part of slurmd's own start.
    type: list
    elements: str
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Reports in check mode what each step would change, without changing anything.
    details:
      - If a blocking step (a step without which slurmd does not start) has the verdict V(fail) or V(unknown), the task
        fails. In check mode it only warns, because earlier tasks that may fix the problem have changed nothing.
  diff_mode:
    description: Shows the changes, one per line, with their steps. Not every change is a change of a file.
    support: partial
  idempotent:
    description: A second run changes nothing, unless a disk was lost or the GPU driver was reloaded in between.
  platform:
    description: Works on a running machine only.
notes:
  - Steps that are listed in C(boot_skip) in C(/etc/hpcai/node.json) are skipped, here and at boot
    (C(node_tools_boot_skip) of the role C(node_tools)).
seealso:
  - module: hpcai.azure.node_tools
  - name: The boot phase
    description: The steps, their order and timeouts, and what to do about a failed step.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_boot.rst
"""

EXAMPLES = r"""
- name: Run all steps of the boot phase
  hpcai.azure.node_boot:

- name: Run the steps for the disks and for the directories on them again
  hpcai.azure.node_boot:
    steps: [scratch, directories]
"""

RETURN = r"""
steps:
  description: Result of each step, in the order of the boot.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the step.
      type: str
    blocking:
      description: Whether slurmd does not start if the verdict of this step is V(fail) or V(unknown).
      type: bool
    verdict:
      description: V(pass), V(warn) (a problem that allows jobs), V(fail), V(unknown) (could not be determined), or
        V(skip) (does not apply to this machine, or is disabled).
      type: str
    summary:
      description: The state, or what is wrong and where. One line.
      type: str
    action:
      description: What to do about a problem, or empty.
      type: str
    changes:
      description: Changes that the step made. In check mode, the changes that it would make.
      type: list
      elements: str
    details:
      description: What was measured. The keys depend on the step.
      type: dict
    seconds:
      description: Duration in seconds.
      type: float
  sample:
    - name: scratch
      blocking: true
      verdict: pass
      summary: "/scratch: xfs on 8 local NVMe disks"
      action: ""
      changes: [mount /scratch]
      details: {expected: 8}
      seconds: 2.14
blocking:
  description: Names of the steps whose verdict keeps slurmd from starting. In check mode, the list describes the node
    as it is now, without the changes that the steps would make.
  returned: always
  type: list
  elements: str
  sample: []
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.catalog import NoSuchStep, select_steps
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.engine import (
    as_document,
    as_result,
    perform_all,
    problems_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import run

SPEC = {"steps": {"type": "list", "elements": "str"}}


def main() -> NoReturn:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        ran = perform_all(select_steps(module.params["steps"]), Root(), run, module.check_mode)
    except NoSuchStep as error:
        module.fail_json(msg=str(error))
    result = as_result(as_document(ran, module.check_mode), problems_of(ran))
    for words in result.pop("warnings"):
        module.warn(words)
    if "msg" in result:
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
