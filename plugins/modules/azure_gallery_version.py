#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: azure_gallery_version
short_description: Capture a virtual machine as an image version of a Compute Gallery
version_added: "0.2.0"
description:
  - Deallocates the machine, marks it as generalised, creates the image version from it, and waits until the version is
    replicated to all regions. Meanwhile, the module shows the progress of the replication.
  - B(A generalised machine cannot start again.) You can only capture or delete it. Before you run this module, remove
    the machine's identity and keys with M(hpcai.azure.image_generalise).
  - Never overwrites a version. If the version exists and was captured from this machine, the module adds missing
    regions and tags, and waits for the replication. If the version was captured from something else, the module fails
    and changes nothing.
  - Before the module stops the machine, it checks that the machine has the C(vmId) of O(vm_id) and no ephemeral system
    disk, and that Azure accepts O(tags). It also checks the image definition. The definition must be for generalised
    images, and have the machine's region, generation, marketplace plan and security type. If a check fails, the module
    fails and changes nothing.
  - If the module is interrupted or times out, Azure finishes the operation that it has started. Run the module again.
    The next run does what is still missing, and waits for the replication. It also repeats a replication that failed.
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
  version:
    description: Resource id of the image version. The gallery and the image definition must exist.
    type: str
    required: true
  virtual_machine:
    description: Resource id of the stand-alone virtual machine to capture.
    type: str
    required: true
  vm_id:
    description:
      - The machine's C(vmId), by which Azure identifies it. If the machine has another C(vmId), the module fails. The
        module writes the C(vmId) to the tag C(hpcai_source_vm_id) of the version.
    type: str
    required: true
  regions:
    description:
      - Regions to replicate to. The region of the image definition is always added. Regions of an existing version are
        never removed.
    type: list
    elements: str
    default: []
  tags:
    description: Tags of the version, at most 49. Other tags of an existing version stay.
    type: dict
    default: {}
  timeout:
    description: Timeout in seconds for the entire run, including the replication.
    type: int
    default: 7200
attributes:
  check_mode:
    description: Reports in check mode what it would do, after the same checks.
    support: full
  diff_mode:
    description: Shows the version's regions and tags before and after.
    support: full
  idempotent:
    description: A version that was captured from this machine, with these regions and tags, is not changed.
    support: full
notes:
  - For the gallery, the identity needs C(Microsoft.Compute/galleries/images/read),
    C(Microsoft.Compute/galleries/images/versions/read) and C(Microsoft.Compute/galleries/images/versions/write).
  - For the machine, the identity needs C(Microsoft.Compute/virtualMachines/read),
    C(Microsoft.Compute/virtualMachines/deallocate/action) and C(Microsoft.Compute/virtualMachines/generalize/action).
seealso:
  - module: hpcai.azure.image_generalise
  - module: hpcai.azure.vmss_image
"""

EXAMPLES = r"""
- name: Capture a machine that was baked and generalised
  hpcai.azure.azure_gallery_version:
    version: "{{ gallery_id }}/images/node-image/versions/1.2.3"
    virtual_machine: "{{ azure_id }}"
    vm_id: "{{ azure_vm_id }}"
    regions: [southcentralus, eastus]
    tags:
      kernel: 6.8.0-1030-azure
"""

RETURN = r"""
id:
  description: Resource id of the version.
  returned: success
  type: str
  sample: "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/hpc/providers/Microsoft.Compute/\
    galleries/hpc/images/node-image/versions/1.2.3"
action:
  description:
    - What the module did. In check mode, what it would do.
    - V(create) creates the version. V(change) adds regions or tags. V(retry) repeats a failed replication. V(wait) only
      waits for a replication that an earlier run started. V(nothing) means that the version is complete.
  returned: success
  type: str
  sample: create
state:
  description: Azure's provisioning state of the version, in lower case. V(absent) if the version does not exist.
  returned: success
  type: str
  sample: succeeded
regions:
  description: Regions of the version.
  returned: success
  type: list
  elements: str
  sample: [southcentralus, eastus]
tags:
  description: Tags of the version.
  returned: success
  type: dict
  sample: {"hpcai_source_vm_id": "00000000-0000-4000-8000-00000000000a"}
"""
