#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vmss_impact
short_description: Report hardware faults to Azure, and warn about nodes on physical hosts that had a fault
version_added: "0.1.0"
description:
  - Creates reports for Azure's Guest Health Reporting (workload impacts of C(Microsoft.Impact)) from the results of the
    nodes' health checks, and writes them to C(impacts.json) below O(path). Nothing is sent unless O(send) is set.
  - A hardware fault is a failed check whose result has C(cause=node) (not C(user)) and C(action=replace). Leftovers of
    a user's job, faults that a restart fixes, warnings, and failed measurements are never reported.
  - The same fault of the same machine on the same physical host always has the same report name. A report that Azure
    already has is not sent again.
  - Maintains C(hosts.json) below O(path), which records which physical host had which fault. The module warns if a node
    without a fault runs on a physical host that had a fault, for example after a redeployment to the same host.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1, with O(send)
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  nodes:
    description: The nodes that were checked, including healthy ones. Set either this or O(hosts).
    type: list
    elements: dict
    suboptions:
      azure_id:
        description: Resource id of the instance, the inventory's C(azure_id).
        type: str
        required: true
      vm_id:
        description:
          - C(vmId) of the instance, the inventory's C(azure_vm_id). If the health result contains another C(vmId), the
            module fails and writes nothing.
        type: str
        required: true
      health:
        description: Output of C(hpcnode health run --json) on the node, as M(hpcai.azure.node_health_info) returns it.
        type: dict
        required: true
  hosts:
    description:
      - Names of hosts in the inventory, instead of O(nodes). These are not physical hosts. The module then reads the
        values from the hosts' variables C(azure_id), C(azure_vm_id) and the one that O(variable) names. Requires
        O(variable).
      - A host that is not an instance, or that has no health result, is skipped. It does not count as healthy. If all
        hosts are skipped, nothing is written.
    type: list
    elements: str
  variable:
    description: Name of the variable in which the result of M(hpcai.azure.node_health_info) is registered.
    type: str
  path:
    description: Folder on the control node. It is created if it is missing. Keep it between runs. All
      operators who run this task must use the same folder.
    type: path
    required: true
  send:
    description:
      - Send the reports to Azure. Azure takes a machine that is reported as unhealthy out of service, so drain it
        first. Azure must have admitted the subscription to Guest Health Reporting, see
        R(the guide to hardware faults, ansible_collections.hpcai.azure.docsite.guide_health_azure).
      - A report without the name of the physical host is not sent, because Azure does not accept it.
      - If V(false), O(sources) is not read.
    type: bool
    default: false
  keep_days:
    description: Days after which a fault that was not seen again is removed from the record of its physical host.
    type: int
    default: 90
  timeout:
    description: Timeout in seconds for all requests to Azure together.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Writes and sends nothing. With O(send), it asks Azure which reports exist, and returns those to send.
    support: full
  diff_mode:
    description: Shows C(impacts.json) and C(hosts.json) before and after.
    support: full
  idempotent:
    description: A second run with the same health results changes nothing.
    support: full
seealso:
  - ref: ansible_collections.hpcai.azure.docsite.guide_health_azure
    description: What is reported, what Azure requires for it, and how faulty machines are replaced.
"""

EXAMPLES = r"""
- name: Run the checks
  hpcai.azure.node_health_info:
    tier: periodic
  register: checked
  ignore_errors: true

- name: Prepare reports of hardware faults, and warn about nodes on physical hosts that had a fault
  hpcai.azure.vmss_impact:
    path: health-report
    hosts: "{{ ansible_play_hosts_all }}"
    variable: checked
  run_once: true

- name: Send the reports to Azure as well, with the connection options of the inventory
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
  description: All reports, including reports that were not sent.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the report in Azure.
      type: str
      sample: hpcai-6f0c2a6e-3a0e-4f6c-9a1b-2f1f0a3b4c5d-HpcMissingGpu-0a1b2c3d4e5f
    node:
      description: The node's name.
      type: str
      sample: compute-3
    request:
      description: The request that sends the report, relative to the endpoint of Resource Manager.
      type: str
    body:
      description: Body of the request.
      type: dict
    lacks:
      description: Why the report cannot be sent. Empty if it can be sent.
      type: str
      sample: ""
known:
  description: With O(send), names of the reports that Azure already has.
  returned: success
  type: list
  elements: str
  sample: []
sent:
  description:
    - With O(send), names of the reports that the module sent. In check mode, the names of those that it would send.
  returned: success
  type: list
  elements: str
  sample: []
not_sent:
  description: With O(send), the reports that cannot be sent, as a mapping of their names to the reasons.
  returned: success
  type: dict
  sample: {}
suspects:
  description:
    - Nodes that have no hardware fault, but run on a physical host that had one. C(warning) is a message of one line.
      C(node) and C(vm_id) identify the node, C(host) is the physical host, and C(faults) are its recorded faults.
  returned: success
  type: list
  elements: dict
  sample: []
left_out:
  description: Hosts of O(hosts) that were skipped, because they are not instances or have no health result.
  returned: success
  type: list
  elements: str
  sample: []
unknown_hosts:
  description: Nodes whose health result does not contain the name of the physical host.
  returned: success
  type: list
  elements: str
  sample: []
"""
