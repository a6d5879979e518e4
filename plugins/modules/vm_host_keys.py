#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vm_host_keys
short_description: Let ssh know the host keys of new Azure machines before it contacts them
version_added: "0.1.0"
description:
  - Reads the public host keys that cloud-init printed on the serial console of a machine at its first boot, and adds
    them to ssh's file of known hosts under the machine's C(vmId). ssh then verifies its first contact, where it would
    accept any key otherwise.
  - Azure keeps the log of the serial console if boot diagnostics are enabled with managed storage. The keys come from
    the machine's system to Azure, and from Azure over TLS to this module. Nobody in the network can change them.
  - Only lines that consist of a key and nothing else count, in a block of cloud-init's after the start of a kernel.
    Users of a machine can bring text to its console, but it has a time, a name or a process id in front.
    R(The guide to security, ansible_collections.hpcai.azure.docsite.guide_security) says what remains.
  - A key that ssh has already is never replaced. If the console shows other keys, the task fails and names both.
  - Runs where Ansible runs, whatever host the task is for. No host is contacted.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
extends_documentation_fragment:
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  machines:
    description: The machines, each by what the inventory says of it. They need O(path). This or O(hosts) is needed.
    type: list
    elements: dict
    suboptions:
      name:
        description: What messages call it. The default is its O(machines[].azure_id).
        type: str
      azure_id:
        description: Its resource id, the inventory's C(azure_id).
        type: str
        required: true
      vm_id:
        description: Its C(vmId), the inventory's C(azure_vm_id), under which ssh knows it (C(HostKeyAlias)).
        type: str
        required: true
  hosts:
    description:
      - Names of hosts instead, whose variables C(azure_id), C(azure_vm_id) and C(hpcai_known_hosts) tell the same.
      - A host without these variables is in RV(left_out). One with an C(ansible_connection) other than ssh is ignored.
    type: list
    elements: str
  path:
    description:
      - The file of known hosts (C(UserKnownHostsFile)) on the machine where Ansible runs. It is made where it is
        missing.
      - With O(hosts), the default is each host's variable C(hpcai_known_hosts).
    type: path
  known:
    description:
      - V(compare) also reads the consoles of machines that ssh has keys of, and compares. A console that shows no keys
        any more is no error then.
      - V(skip) does not ask Azure for such machines.
    type: str
    choices: [compare, skip]
    default: compare
  required:
    description: Whether it is an error if the keys of a machine cannot be verified. Otherwise it is a warning.
    type: bool
    default: false
  timeout:
    description: Seconds for all that is asked of Azure.
    type: int
    default: 300
attributes:
  action:
    description: Runs on the machine where Ansible runs, because that is where ssh and the credentials are.
    support: full
  check_mode:
    description: Reads the keys and compares them, and writes nothing.
    support: full
  diff_mode:
    description: Shows the file of known hosts before and after.
    support: full
  idempotent:
    description: Keys that ssh has already are not added a second time.
    support: full
  platform:
    description: Nothing runs on a node.
    platforms: linux
    support: full
notes:
  - The identity needs C(Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action), and for instances of
    scale sets C(Microsoft.Compute/virtualMachineScaleSets/virtualMachines/retrieveBootDiagnosticsData/action). The role
    Reader has neither, the role Virtual Machine Contributor has both.
seealso:
  - ref: ansible_collections.hpcai.azure.docsite.guide_azure
    description: How nodes are reached, and what the first contact by ssh risks.
"""

EXAMPLES = r"""
- name: Let ssh know all new machines, with the options of the inventory
  hpcai.azure.vm_host_keys:
    hosts: "{{ groups['azure_hosts'] }}"
    known: skip
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"
  run_once: true

- name: Compare all keys that ssh has with what the machines printed
  hpcai.azure.vm_host_keys:
    hosts: "{{ groups['azure_hosts'] }}"
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"
  run_once: true
  check_mode: true

- name: Let ssh know one machine, and fail if Azure cannot tell its keys
  hpcai.azure.vm_host_keys:
    machines:
      - name: compute000003
        azure_id: "{{ hostvars['compute000003'].azure_id }}"
        vm_id: "{{ hostvars['compute000003'].azure_vm_id }}"
    path: ~/.ssh/known_hosts
    required: true
"""

RETURN = r"""
verified:
  description: Machines whose consoles show keys that agree with those that ssh had, if any.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The host, or the name that was given.
      type: str
      sample: compute000003
    vm_id:
      description: Its C(vmId).
      type: str
      sample: 6f0c2a6e-3a0e-4f6c-9a1b-2f1f0a3b4c5d
    keys:
      description: Type and fingerprint of each key.
      type: list
      elements: str
      sample: ["ssh-ed25519 SHA256:uNiVztksCsDhcc0u9e8BrWYYdBgZlWeLlGNrWzGyLOk"]
known:
  description: Machines that ssh has keys of, and that were skipped or whose consoles show none.
  returned: success
  type: list
  elements: str
  sample: [compute000000]
unverified:
  description: Machines that ssh has no key of and whose keys could not be verified, each with the C(reason).
  returned: success
  type: list
  elements: dict
  sample: []
left_out:
  description: Hosts of O(hosts) that lack a variable.
  returned: success
  type: list
  elements: str
  sample: []
"""
