#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_boot
short_description: Do now what a node does by itself at each boot
version_added: "0.1.0"
description:
  - Runs the steps of the boot phase, the same that systemd runs at each boot before slurmd starts, in the same order.
    It is C(hpcnode boot run), and what it leaves is what C(hpcnode boot status) shows.
  - A playbook calls it once before it starts slurmd. Then a node is in the state in which its next boot leaves it, and
    what keeps it from taking jobs is found in the run and not at that boot.
  - Goes on after a step that failed, so that one run names all that is wrong.
  - A step changes only what is not as it should be, and has a limit in seconds after which it is ended and counts as
    failed.
author:
  - hpcai.azure contributors (@hpcai)
options:
  steps:
    description:
      - Names of the steps to run, in whatever order; they run in that of the boot.
      - By default all but V(join), which is a part of slurmd's own start.
    type: list
    elements: str
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Can run in check mode and says what each step would change, without changing anything.
    details:
      - A blocking step that fails is only a warning there, because in check mode the tasks before it, which may mend
        that, have not done so either.
  diff_mode:
    description: Shows the changes, one a line, by their steps. What a step changes is not always a file.
    support: partial
  idempotent:
    description: A second run changes nothing, unless a disk or the driver has lost something in between.
  platform:
    description: Works on the running machine; an image at rest is not booted.
notes:
  - A step that C(boot_skip) in C(/etc/hpcai/node.json) names is skipped, here and at boot
    (C(node_tools_boot_skip) of the role C(node_tools)).
seealso:
  - module: hpcai.azure.node_tools
  - name: The boot phase
    description: The steps, their order and limits, and what to do about one that failed.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_boot.rst
"""

EXAMPLES = r"""
- name: Bring the node into the state that each boot brings it into
  hpcai.azure.node_boot:

- name: Look once more for the disks and the directories on them
  hpcai.azure.node_boot:
    steps: [scratch, directories]
"""

RETURN = r"""
steps:
  description: What became of each step, in the order of the boot.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the step.
      type: str
    blocking:
      description: Whether slurmd does not start if it fails.
      type: bool
    verdict:
      description: V(pass); V(warn), not as it should be, but jobs may run; V(fail); V(unknown), it could not be told;
        V(skip), there is nothing of this kind on this machine.
      type: str
    summary:
      description: What is the case, or what is wrong and where. One line.
      type: str
    action:
      description: What to do about it, if anything has to be done.
      type: str
    changes:
      description: What was changed, or in check mode would be.
      type: list
      elements: str
    details:
      description: What was measured; other keys for each step.
      type: dict
    seconds:
      description: How long it took.
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
  description: Names of the steps that keep slurmd from starting. In check mode those that would as things are.
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
