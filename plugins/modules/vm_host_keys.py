#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vm_host_keys
short_description: Add the SSH host keys of new Azure machines to known_hosts before the first contact
version_added: "0.1.0"
description:
  - Reads the public host keys that cloud-init printed on the serial console of a machine at its first boot, and adds
    them to SSH's known hosts file under the machine's C(vmId). SSH then verifies the key at the first contact. Without
    this, it would have to accept any key.
  - Azure keeps the log of the serial console if boot diagnostics are enabled with managed storage. The keys go from the
    machine's system to Azure, and from Azure over TLS to this module, so nobody in the network can change them.
  - Accepts only lines that contain nothing but a key. These lines must be in the block of keys that cloud-init prints,
    and the start of the kernel must come before this block. Users of a machine can write to its console, but their
    lines start with a time, a name or a process id. See
    R(the guide to security, ansible_collections.hpcai.azure.docsite.guide_security) for the remaining risk.
  - Replaces a key in the known hosts file only with O(known=replace). With O(known=compare), if the console shows other
    keys, the task fails and shows the known keys and those of the console.
  - Sends requests only to Azure, and does not connect to the machines.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  machines:
    description: The machines, identified by values of the inventory. Requires O(path). Set either this or O(hosts).
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the machine in messages. Defaults to its O(machines[].azure_id).
        type: str
      azure_id:
        description: Resource id of the machine, the inventory's C(azure_id).
        type: str
        required: true
      vm_id:
        description: C(vmId) of the machine, the inventory's C(azure_vm_id), under which SSH knows it (C(HostKeyAlias)).
        type: str
        required: true
  hosts:
    description:
      - Names of hosts, instead of O(machines). The module then reads the values from the hosts' variables C(azure_id),
        C(azure_vm_id) and C(hpcai_known_hosts).
      - A host that lacks one of these variables is listed in RV(left_out). If O(path) is set, C(hpcai_known_hosts) is
        not needed. A host with an C(ansible_connection) other than ssh is ignored.
    type: list
    elements: str
  path:
    description:
      - The known hosts file (C(UserKnownHostsFile)) on the control node. It is created if it is missing.
      - With O(hosts), it defaults to each host's variable C(hpcai_known_hosts).
    type: path
  known:
    description:
      - For machines whose keys are in the known hosts file already, V(compare) also reads the consoles and compares the
        keys. A console that no longer shows keys is then not an error.
      - V(skip) does not query Azure for such machines.
      - V(replace) removes known keys that the console does not show, and adds those that it shows. Use it only for
        machines that you have just reimaged, because it does not report unexpected keys. If the new systems may not
        have booted yet, set O(previous) and O(wait) too.
    type: str
    choices: [compare, skip, replace]
    default: compare
  previous:
    description:
      - Keys of the systems that were replaced. Set this to RV(verified) of a task that read the keys before the
        reimage, with O(known=replace) and in check mode.
      - Until a reimaged machine boots, its console may still show the keys of its previous system. These keys are
        ignored.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the machine. It is ignored.
        type: str
      vm_id:
        description: C(vmId) of the machine.
        type: str
        required: true
      keys:
        description: Type and fingerprint of each key.
        type: list
        elements: str
        required: true
  wait:
    description:
      - Seconds to wait until the consoles of all machines show keys. By default, the consoles are read once.
      - If a console cannot be read for a minute, for example because boot diagnostics are not enabled, the task does
        not wait longer for this machine.
    type: int
    default: 0
  required:
    description: Whether the task fails if the keys of a machine cannot be verified. Otherwise it only warns.
    type: bool
    default: false
  timeout:
    description: Timeout in seconds for all requests to Azure together, each time when the consoles are read.
    type: int
    default: 300
attributes:
  check_mode:
    description: Reads the keys and compares them, and writes nothing.
    support: full
  diff_mode:
    description: Shows the known hosts file before and after.
    support: full
  idempotent:
    description: Keys that are already in the known hosts file are not added again.
    support: full
notes:
  - The identity that signs in to Azure needs the permission
    C(Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action). For instances of scale sets it needs
    C(Microsoft.Compute/virtualMachineScaleSets/virtualMachines/retrieveBootDiagnosticsData/action). Azure's role
    Virtual Machine Contributor contains these permissions. The role Reader does not.
seealso:
  - ref: ansible_collections.hpcai.azure.docsite.guide_azure
    description: How nodes are reached, and the risk of the first SSH contact.
"""

EXAMPLES = r"""
- name: Add the keys of all new machines, with the connection options of the inventory
  hpcai.azure.vm_host_keys:
    hosts: "{{ groups['azure_hosts'] }}"
    known: skip
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"
  run_once: true

- name: Compare all keys in the known hosts file with those that the machines printed
  hpcai.azure.vm_host_keys:
    hosts: "{{ groups['azure_hosts'] }}"
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"
  run_once: true
  check_mode: true

- name: Read the host keys of a machine that will be reimaged
  hpcai.azure.vm_host_keys:
    hosts: [compute000003]
    known: replace
  check_mode: true
  register: keys_before

- name: Wait up to half an hour for the keys of its new system, after the reimage
  hpcai.azure.vm_host_keys:
    hosts: [compute000003]
    known: replace
    previous: "{{ keys_before.verified }}"
    wait: 1800

- name: Add the keys of one machine, and fail if they cannot be verified
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
  description: Machines whose consoles show keys. The known hosts file agrees with these keys, and missing keys were
    added to it. In check mode, nothing was added.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the host, or the given name.
      type: str
      sample: compute000003
    vm_id:
      description: C(vmId) of the machine.
      type: str
      sample: 6f0c2a6e-3a0e-4f6c-9a1b-2f1f0a3b4c5d
    keys:
      description: Type and fingerprint of each key.
      type: list
      elements: str
      sample: ["ssh-ed25519 SHA256:uNiVztksCsDhcc0u9e8BrWYYdBgZlWeLlGNrWzGyLOk"]
known:
  description:
    - Machines whose keys are in the known hosts file already, and that were not compared, because of O(known=skip) or
      because their consoles show no keys.
  returned: success
  type: list
  elements: str
  sample: [compute000000]
unverified:
  description:
    - Machines that have no key in the known hosts file, and whose keys could not be verified. Each has a C(name) and a
      C(reason).
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
