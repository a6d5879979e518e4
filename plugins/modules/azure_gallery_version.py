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
    replicated to all regions. Ansible shows how far the replication is.
  - B(The machine can only be captured afterwards). Remove its identity and keys first, with
    M(hpcai.azure.image_generalise).
  - Never overwrites a version. If the version exists and was captured from this machine, it adds missing regions and
    tags, and waits. If it was captured from something else, the module fails and changes nothing.
  - Before the machine is stopped, it checks the C(vmId), the image definition (generalised, the same generation and
    security type) and the tags.
  - If the module is interrupted or times out, Azure continues, and the next run waits. A failed replication is tried
    again.
  - Always runs on the machine where Ansible runs, for any host of the task.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
extends_documentation_fragment:
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  version:
    description: Resource id of the image version. Gallery and image definition must exist.
    type: str
    required: true
  virtual_machine:
    description: Resource id of the stand-alone virtual machine to capture.
    type: str
    required: true
  vm_id:
    description: C(vmId) of the machine. It is also written to the tag C(hpcai_source_vm_id) of the version.
    type: str
    required: true
  regions:
    description:
      - Regions to replicate to. The region of the image definition is always one of them. Regions are never removed.
    type: list
    elements: str
    default: []
  tags:
    description: Tags of the version, at most 49. Other tags of an existing version stay.
    type: dict
    default: {}
  timeout:
    description: Timeout in seconds, including the replication.
    type: int
    default: 7200
attributes:
  action:
    description: Runs on the machine where Ansible runs, because the credentials are there.
    support: full
  check_mode:
    description: Reports in check mode what it would do, after the same checks.
    support: full
  diff_mode:
    description: Shows the version's regions and tags before and after.
    support: full
  idempotent:
    description: A version that was captured from this machine, with these regions and tags, is not changed.
    support: full
  platform:
    description: Nothing runs on a node.
    platforms: linux
    support: full
notes:
  - The identity needs C(Microsoft.Compute/galleries/images/versions/read) and C(write),
    C(Microsoft.Compute/galleries/images/read), C(Microsoft.Compute/virtualMachines/read), C(deallocate/action) and
    C(generalize/action).
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
    - What was done, or in check mode would be. V(create), V(change) (more regions or other tags), V(retry) (after a
      failed replication), V(wait) (for another run's replication), or V(nothing).
  returned: success
  type: str
  sample: create
state:
  description: Azure's provisioning state in lower case, or V(absent).
  returned: success
  type: str
  sample: succeeded
regions:
  description: Its regions.
  returned: success
  type: list
  elements: str
  sample: [southcentralus, eastus]
tags:
  description: Its tags.
  returned: success
  type: dict
  sample: {"hpcai_source_vm_id": "00000000-0000-4000-8000-00000000000a"}
"""
