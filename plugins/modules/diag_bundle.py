#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: diag_bundle
short_description: Join the diagnostics of several machines to one archive
version_added: "0.2.0"
description:
  - Joins the archives that M(hpcai.azure.node_diag) made and that were fetched, to one archive with a first page.
  - What a machine sent is not trusted. Only files that C(hpcnode diag) makes are copied, with size limits, and each
    machine's first page is made again.
  - Always runs on the machine where Ansible runs. The playbook C(hpcai.azure.diagnose) calls it.
author:
  - hpcai.azure contributors (@hpcai)
extends_documentation_fragment:
  - hpcai.azure.internal
options:
  path:
    description: Folder for the archive, on the machine where Ansible runs. It is created if it does not exist.
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
    description: Why each machine belongs to the incident, by its inventory name.
    type: dict
    default: {}
  cluster:
    description: The cluster's name, for the title.
    type: str
    default: ""
  pseudonyms:
    description: Whether the machines have used pseudonyms. Then the archive contains no names of the inventory.
    type: bool
    default: false
attributes:
  action:
    description: Runs on the machine where Ansible runs, because the fetched files are there.
    support: full
  check_mode:
    description: Reports where it would write.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Each run writes a new archive.
    support: none
  platform:
    description: The machine where Ansible runs.
    support: full
    platforms: posix
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
  description: What it has of each machine.
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
  description: The same in lines for people.
  returned: always
  type: list
  elements: str
  sample: ["compute-3: 38 items"]
"""
