#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: elastic_leave
short_description: Let the daemon of elastic sets delete machines when their jobs have ended
version_added: "0.2.0"
description:
  - Requests that C(hpcai-elastic) drains the nodes of these machines and deletes the machines when their jobs have
    ended, and waits for that. Shows how many machines are left.
  - Repeats the request until the machines are gone, so a daemon that is restarted meanwhile also gets it. Nothing is
    killed, and the daemon continues if the run ends early.
author:
  - hpcai.azure contributors (@hpcai)
options:
  vm_ids:
    description: C(vmId) of each machine.
    type: list
    elements: str
    required: true
  reason:
    description: Drain reason that users see.
    type: str
    required: true
  timeout:
    description: Time limit in seconds. When it has passed, the module fails, and the daemon continues.
    type: int
    default: 3600
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Reports the change without a request to the daemon.
  diff_mode:
    support: none
  platform:
    description: Run it on the controller, as root.
seealso:
  - module: hpcai.azure.slurm_leave
"""

EXAMPLES = r"""
- name: Delete a machine of an elastic set when its job has ended
  hpcai.azure.elastic_leave:
    vm_ids: [1c7a3f0e-5b0a-4b1e-9a55-0f7c2f2b8f11]
    reason: faulty
  become: true
"""

RETURN = r"""
machines:
  description: The C(vmId) of each machine that is left, by node. Empty if all are gone.
  returned: always
  type: dict
  sample: {}
"""
