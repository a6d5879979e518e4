#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vmss_impact
short_description: Report hardware faults to Azure, and notice bad physical hosts that come back
version_added: "0.1.0"
description:
  - Makes the reports that Azure's Guest Health Reporting takes (workload impacts of C(Microsoft.Impact)) out of what
    the health checks of nodes found, and writes them to C(impacts.json) below O(path). Nothing is sent unless O(send)
    says so.
  - A hardware fault is a check that failed by the node's own fault and whose action is C(replace). What a user's job
    left behind, what a restart mends, what only warns and what could not be measured is never reported.
  - A report has the same name each time for the same fault of the same machine on the same physical host. What Azure
    has already is not sent again.
  - Keeps C(hosts.json) below O(path), which says which physical host had which fault. A node without a fault on a host
    that had one is named, for example after a redeployment that ended on the same host.
  - Runs where Ansible runs, whatever host the task is for.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1, with O(send)
extends_documentation_fragment:
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  nodes:
    description: The nodes whose health was looked at, sound ones too. This or O(hosts) is needed.
    type: list
    elements: dict
    suboptions:
      azure_id:
        description: The instance's resource id, the inventory's C(azure_id).
        type: str
        required: true
      vm_id:
        description: Its C(vmId), the inventory's C(azure_vm_id). A health result of another machine is refused.
        type: str
        required: true
      health:
        description: What C(hpcnode health run --json) printed there, which M(hpcai.azure.node_health_info) returns.
        type: dict
        required: true
  hosts:
    description:
      - Names of hosts instead, whose variables C(azure_id), C(azure_vm_id) and O(variable) tell the same. It needs
        O(variable).
      - A host that is no instance, or that gave no health result, is left out. It does not count as sound. If all are,
        nothing is written.
    type: list
    elements: str
  variable:
    description: The variable that M(hpcai.azure.node_health_info) was registered in.
    type: str
  path:
    description: Folder on the machine where Ansible runs. It is made where it is missing. Keep it from one run to the
      next, and in one place for all who run this.
    type: path
    required: true
  send:
    description:
      - Send the reports to Azure. Azure takes a machine that is reported as unhealthy out of service, so drain it
        before. The subscription must be admitted to Guest Health Reporting, see the guide.
      - A report without the name of the physical host is not sent, because Azure takes none.
      - Without it, O(sources) is not read.
    type: bool
    default: false
  keep_days:
    description: Days after which a physical host is forgotten on which a fault was not seen again.
    type: int
    default: 90
  timeout:
    description: Seconds for all that is asked of Azure.
    type: int
    default: 1800
attributes:
  action:
    description: Runs on the machine where Ansible runs, because that is where the credentials are.
    support: full
  check_mode:
    description: Writes and sends nothing. With O(send) it looks what Azure has already, and says what it would send.
    support: full
  diff_mode:
    description: Shows both files before and after.
    support: full
  idempotent:
    description: The same health results change nothing a second time.
    support: full
  platform:
    description: Nothing runs on a node.
    platforms: linux
    support: full
seealso:
  - ref: ansible_collections.hpcai.azure.docsite.guide_health_azure
    description: What is reported, what Azure needs for it, and how bad machines are replaced.
"""

EXAMPLES = r"""
- name: Run the checks
  hpcai.azure.node_health_info:
    tier: periodic
  register: checked
  ignore_errors: true

- name: Prepare reports of what is broken, and name bad hosts that came back
  hpcai.azure.vmss_impact:
    path: health-report
    hosts: "{{ ansible_play_hosts_all }}"
    variable: checked
  run_once: true

- name: Tell Azure as well, with the options of the inventory
  hpcai.azure.vmss_impact:
    path: health-report
    send: true
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"
    nodes:
      - azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
        health: "{{ hostvars['compute000003'].checked.health }}"
"""

RETURN = r"""
impacts:
  description: The reports, sent or not.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name at Azure.
      type: str
      sample: hpcai-6f0c2a6e-3a0e-4f6c-9a1b-2f1f0a3b4c5d-HpcMissingGpu-0a1b2c3d4e5f
    node:
      description: The node's name.
      type: str
      sample: compute-3
    request:
      description: The request that sends it, below the endpoint of Resource Manager.
      type: str
    body:
      description: The request's content.
      type: dict
    lacks:
      description: Why it cannot be sent; empty if it can.
      type: str
      sample: ""
known:
  description: With O(send), names of the reports that Azure has already.
  returned: success
  type: list
  elements: str
  sample: []
sent:
  description: With O(send), names of the reports that were sent, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: []
not_sent:
  description: With O(send), the reports that could not be sent, each with the reason.
  returned: success
  type: dict
  sample: {}
suspects:
  description:
    - Nodes without a hardware fault on a physical host that had one. C(warning) says it in one line; C(node), C(vm_id),
      C(host) and C(faults) are the parts.
  returned: success
  type: list
  elements: dict
  sample: []
left_out:
  description: Hosts of O(hosts) that are no instances, or gave no health result.
  returned: success
  type: list
  elements: str
  sample: []
unknown_hosts:
  description: Nodes that do not know their physical host, so that nothing can be said of it.
  returned: success
  type: list
  elements: str
  sample: []
"""
