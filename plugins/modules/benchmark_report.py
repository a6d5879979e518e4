#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: benchmark_report
short_description: Write a page about the results of benchmarks
version_added: "0.2.0"
description:
  - Reads the result of C(hpcnode bench run --json), finds outliers among the nodes, and writes C(report.html) and
    C(report.json), in the same form as M(hpcai.azure.health_report).
  - Keeps the newest result of each node in C(benchmarks.json) in the folder of the health report. The next health
    report shows these results beside the checks. There, a failed benchmark counts as a warning. A benchmark never
    drains a node.
  - The playbook C(hpcai.azure.benchmark) runs the benchmarks and this module.
author:
  - hpcai.azure contributors (@hpcai)
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.internal
options:
  path:
    description: Folder for the page, on the control node. It is created if it does not exist.
    type: path
    default: benchmark-report
  health_report:
    description: Folder of the health report, which M(hpcai.azure.health_report) writes.
    type: path
    default: health-report
  found:
    description: The result of C(hpcnode bench run --json).
    type: dict
    required: true
  hosts:
    description: Inventory names of the compute nodes. The page shows those that took part in the benchmark.
    type: list
    elements: str
    required: true
  cluster:
    description: The cluster's name, for the title.
    type: str
    default: ""
attributes:
  check_mode:
    description: Builds the page and returns its summary, without writing files.
    support: full
  diff_mode:
    description: Shows the table of the old page and of the new one.
    support: full
  idempotent:
    description: The same results give the same files.
    support: full
seealso:
  - module: hpcai.azure.health_report
"""

EXAMPLES = r"""
- name: Run a benchmark
  ansible.builtin.command:
    argv: [hpcnode, bench, run, nccl_allreduce, --nodes, "compute-[0-15]", --vm-size, nd96asr_v4, --json]
  register: ran
  changed_when: false
  failed_when: ran.rc not in [0, 1, 2]

- name: Write the page
  hpcai.azure.benchmark_report:
    found: "{{ ran.stdout | from_json }}"
    hosts: "{{ groups['hpcai_compute'] }}"
"""

RETURN = r"""
verdict:
  description:
    - The worst verdict of all nodes, V(fail), V(unknown), V(warn) or V(pass). V(unknown) means that a benchmark could
      not be measured.
  returned: success
  type: str
  sample: pass
table:
  description:
    - Summary of the page, line by line. For collectives, it ends with the environment that NCCL used, the curve and
      the scaling efficiency, which are not on the page. In the first line, C(tier benchmark) means that the results
      are from benchmarks, and not from health checks.
  returned: success
  type: list
  elements: str
  sample: ["Health of trainer, tier benchmark, 16 nodes: 16 pass"]
html:
  description: Path of the page.
  returned: success
  type: str
  sample: /home/azureuser/ops/benchmark-report/report.html
json:
  description: Path of the same report in JSON. The field C(schema), the version of its format, is V(1).
  returned: success
  type: str
  sample: /home/azureuser/ops/benchmark-report/report.json
"""
