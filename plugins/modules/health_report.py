#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: health_report
short_description: Write one health report page about all nodes
version_added: "0.1.0"
description:
  - Reads the results of M(hpcai.azure.node_health_info) for each node, finds outliers among the nodes, and writes
    C(report.html) and C(report.json).
  - The page needs no network and no other file. It shows what to do for each faulty node, a table of nodes and checks,
    and the distribution of each measured value with its limit. It also offers commands for the failing nodes. In these
    commands the nodes have their Slurm names, which the module takes from the inventory.
  - A value is an outlier if its modified z-score (Iglewicz and Hoaglin) is beyond 3.5 among the nodes of the same VM
    size. This needs at least four nodes. A value with a unit must also differ by at least 5 % from the median. If the
    value has a limit, only deviations towards the limit count.
  - Some values are words, such as the version of the driver. If more than half of the nodes have the same word, any
    other word is an outlier. This also needs at least four nodes of the same VM size.
  - Also shows the newest results of the benchmarks, if M(hpcai.azure.benchmark_report) has saved them in the same
    folder. A failed benchmark counts as a warning.
  - A node that returned no result is in the report as V(no_answer).
  - The playbook C(hpcai.azure.health_check) runs the checks and this module.
author:
  - hpcai.azure contributors (@hpcai)
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.internal
options:
  path:
    description: Folder for the report, on the control node. It is created if it does not exist.
    type: path
    default: health-report
  hosts:
    description: Inventory names of the nodes that were checked.
    type: list
    elements: str
    required: true
  variable:
    description: Name of the variable in which the result of M(hpcai.azure.node_health_info) is registered.
    type: str
    required: true
  tier:
    description: The tier (set of checks) that was run. A node with a result of another tier counts as V(no_answer).
    type: str
    required: true
  cluster:
    description: The cluster's name, for the title.
    type: str
    default: ""
  limit:
    description:
      - The value of C(--limit) of the run. The page shows it, so that readers know that the report covers only a part
        of the cluster.
    type: str
    default: ""
attributes:
  check_mode:
    description: Builds the report and returns its summary, without writing files.
    support: full
  diff_mode:
    description: Shows the table of the old report and of the new one.
    support: full
  idempotent:
    description: The same results give the same files.
    support: full
seealso:
  - module: hpcai.azure.node_health_info
"""

EXAMPLES = r"""
- name: Run the checks, and continue if a node does not answer
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
  description:
    - The overall verdict, which is the worst verdict of all nodes. Here, a node with V(no_answer) counts as V(unknown);
      RV(counts) lists V(no_answer) separately. If all nodes have the verdict V(skip), the overall verdict is
      V(unknown).
  returned: success
  type: str
  sample: fail
counts:
  description: Number of nodes per verdict, and of nodes without a result (C(no_answer)).
  returned: success
  type: dict
  sample: {"fail": 2, "no_answer": 1, "unknown": 0, "warn": 2, "pass": 595, "skip": 0}
outliers:
  description: Number of outliers.
  returned: success
  type: int
  sample: 3
table:
  description:
    - Summary of the report, line by line. It ends with the nodes on physical hosts that had a hardware fault before, if
      M(hpcai.azure.vmss_impact) has recorded such hosts in the same folder.
  returned: success
  type: list
  elements: str
  sample:
    - "Health of trainer, tier periodic, 12 nodes: 1 fail, 11 pass"
    - ""
    - "NODE       VERDICT  PHYSICAL HOST  WHAT"
    - "compute-7  fail     BN4PrdHPC0003  gpu_count: 7 of 8 GPUs: 0003:00:00.0 not on the PCI bus"
html:
  description: Path of the page.
  returned: success
  type: str
  sample: /home/azureuser/ops/health-report/report.html
json:
  description: Path of the same report in JSON. The field C(schema), the version of its format, is V(1).
  returned: success
  type: str
  sample: /home/azureuser/ops/health-report/report.json
"""
