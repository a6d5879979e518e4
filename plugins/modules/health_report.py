#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: health_report
short_description: Write one report on the health of all nodes
version_added: "0.1.0"
description:
  - Takes what M(hpcai.azure.node_health_info) returned for each node, finds the values that are unlike those of the
    other nodes, and writes C(report.html) and C(report.json).
  - The page needs no network and no second file. It shows nodes by checks, the distribution of each measured value
    against its limit, and each node with what to do.
  - A value is odd if its modified z-score (Iglewicz and Hoaglin) is beyond 3.5 among the nodes of its VM size, at least
    four of them. A value with a unit must also differ by 5 % from the median. Where the value has a limit, only the
    limit's side counts. A word is odd if more than half of the nodes have another one.
  - A node that gave no result is in the report as V(no_answer).
  - Runs where Ansible runs, whatever host the task is for. The playbook C(hpcai.azure.health_check) does all of it.
author:
  - hpcai.azure contributors (@hpcai)
extends_documentation_fragment:
  - hpcai.azure.internal
options:
  path:
    description: The folder, on the machine where Ansible runs. It is made if it is missing.
    type: path
    default: health-report
  hosts:
    description: Inventory names of the nodes that were asked.
    type: list
    elements: str
    required: true
  variable:
    description: Name of the variable in which the result of M(hpcai.azure.node_health_info) is registered.
    type: str
    required: true
  tier:
    description: The tier that was run. A node that answers for another one counts as V(no_answer).
    type: str
    required: true
  cluster:
    description: The cluster's name, for the title.
    type: str
    default: ""
  limit:
    description: What the run was limited to, so that nobody takes a part for the whole.
    type: str
    default: ""
attributes:
  action:
    description: Runs on the machine where Ansible runs, because that is where all answers are.
    support: full
  check_mode:
    description: Makes the report and returns what is in it, without writing files.
    support: full
  diff_mode:
    description: Shows the table of the report that is replaced, and that of the new one.
    support: full
  idempotent:
    description: The same answers make the same files.
    support: full
  platform:
    description: Nothing runs on a node.
    platforms: linux
    support: full
seealso:
  - module: hpcai.azure.node_health_info
"""

EXAMPLES = r"""
- name: Run the checks, and go on where a node does not answer
  hpcai.azure.node_health_info:
    tier: periodic
  register: checked
  ignore_errors: true
  ignore_unreachable: true

- name: Write the report
  hpcai.azure.health_report:
    path: ./health-report
    hosts: "{{ ansible_play_hosts_all }}"
    variable: checked
    tier: periodic
    limit: "{{ ansible_limit | default('') }}"
  run_once: true
"""

RETURN = r"""
verdict:
  description: The verdict on the whole. A node that gave no result makes it V(unknown), unless another one fails.
  returned: success
  type: str
  sample: fail
counts:
  description: How many nodes have which verdict, or gave none.
  returned: success
  type: dict
  sample: {"fail": 2, "no_answer": 1, "unknown": 0, "warn": 2, "pass": 595, "skip": 0}
outliers:
  description: How many values are unlike those of the other nodes.
  returned: success
  type: int
  sample: 3
table:
  description:
    - The report in short, line by line. It ends with the nodes on physical hosts that had a hardware fault before,
      where M(hpcai.azure.vmss_impact) has written such hosts down in the same folder.
  returned: success
  type: list
  elements: str
  sample:
    - "Health of trainer, tier periodic, 12 nodes: 1 fail, 11 pass"
    - ""
    - "NODE       VERDICT  PHYSICAL HOST  WHAT"
    - "compute-7  fail     BN4PrdHPC0003  gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there"
html:
  description: Where the page is.
  returned: success
  type: str
  sample: /home/azureuser/ops/health-report/report.html
json:
  description: Where the same is for programs. Its C(schema) is V(1).
  returned: success
  type: str
  sample: /home/azureuser/ops/health-report/report.json
"""
