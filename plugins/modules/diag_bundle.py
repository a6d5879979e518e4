#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: diag_bundle
short_description: Join the diagnostics of several machines into one archive
version_added: "0.2.0"
description:
  - Joins the fetched archives of M(hpcai.azure.node_diag) into one archive, and adds an index page.
  - The module does not trust what a machine sent. It copies only files that C(hpcnode diag) makes, and generates the
    index page of each machine again. If the files in a machine's archive are too large (24 MiB for one file, 128 MiB
    together), the module leaves out the entire archive of this machine. RV(machines) gives the reason in C(problem).
  - The playbook C(hpcai.azure.diagnose) runs this module.
author:
  - hpcai.azure contributors (@hpcai)
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.internal
options:
  path:
    description: Folder for the archive, on the control node. It is created if it does not exist.
    type: path
    default: diagnostics
  parts:
    description: Folder with the fetched archives, named C(HOST.tar.gz).
    type: path
    required: true
  hosts:
    description: Inventory names of the machines.
    type: list
    elements: str
    required: true
  variable:
    description: Name of the variable in which the result of M(hpcai.azure.node_diag) is registered.
    type: str
    required: true
  reasons:
    description:
      - Why each machine is part of the diagnostics, such as its drain reason. A mapping of inventory names to texts.
    type: dict
    default: {}
  unlisted:
    description:
      - Machines from which nothing could be collected because they are not in the inventory, with the reasons. A
        mapping of their names in Slurm to texts. The archive lists them with a problem.
    type: dict
    default: {}
  cluster:
    description: The cluster's name, for the title.
    type: str
    default: ""
  pseudonyms:
    description:
      - Whether the archives of the machines contain pseudonyms instead of names. The joined archive then contains no
        inventory names.
    type: bool
    default: false
attributes:
  check_mode:
    description: Reports which archive it would write.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Each run writes a new archive.
    support: none
"""

EXAMPLES = r"""
- name: Join the diagnostics
  hpcai.azure.diag_bundle:
    parts: /tmp/parts
    hosts: "{{ ansible_play_hosts_all }}"
    variable: collected
  run_once: true
"""

RETURN = r"""
path:
  description: The archive.
  returned: always
  type: str
  sample: /srv/diagnostics/hpcai-incident-20260101T000000Z.tar.gz
machines:
  description:
    - What the archive contains from each machine. C(items) is the number of collected files, and C(hidden) the number
      of values that were hidden in these files. C(page) is the machine's index page in the archive. C(reason) comes
      from O(reasons) or O(unlisted), and is empty if O(pseudonyms=true).
    - C(problem) says why the archive contains nothing from the machine. It is empty if there was no problem.
    - Empty in check mode.
  returned: always
  type: dict
  sample:
    compute-3:
      reason: "hpcai: health: gpu_count: 7 of 8 GPUs"
      problem: ""
      items: 38
      hidden: 12
      page: compute-3/index.html
table:
  description: The number of items or the problem of each machine, as lines of text.
  returned: always
  type: list
  elements: str
  sample: ["compute-3: 38 items"]
"""
