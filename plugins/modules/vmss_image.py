#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vmss_image
short_description: Set the image of Azure scale sets for new and updated instances
version_added: "0.2.0"
description:
  - Changes the image reference in the model of Uniform scale sets, and nothing else. New instances get the image.
    Existing instances keep theirs until they are updated, which M(hpcai.azure.slurm_roll) does.
  - Lists the instances that have another image than the model. Without O(image), the module changes nothing and only
    lists them.
  - Fails, and changes none of the sets, if one of them is Flexible. It also fails, and changes none of them, if a set
    that would change has an upgrade policy other than Manual, or is in a region to which the image version is not
    replicated.
  - Also fails if Azure cannot give the image to a set. A set with a marketplace image cannot get a gallery or managed
    image, or the other way round. Of a marketplace image with a plan, Azure can change only the version.
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
  scale_sets:
    description: Resource ids of the scale sets, the inventory's C(azure_vmss_id). The ids of their instances are
      accepted too.
    type: list
    elements: str
    required: true
  image:
    description:
      - The image. It is the id of a gallery's image version, the id of a managed image,
        C(publisher:offer:sku:version), or only a version, which means this version of the image that the set has now.
      - C(latest) is refused, because it changes without notice.
    type: str
  timeout:
    description: Timeout in seconds, including the time that Azure needs for the change.
    type: int
    default: 600
attributes:
  check_mode:
    description: Reports the sets whose image would change.
    support: full
  diff_mode:
    description: Shows the image of each changed set.
    support: full
  idempotent:
    description: A set that has the image is not changed.
    support: full
seealso:
  - module: hpcai.azure.slurm_roll
  - module: hpcai.azure.azure_gallery_version
"""

EXAMPLES = r"""
- name: Give new instances version 1.2.3 of the image that the set has now
  hpcai.azure.vmss_image:
    scale_sets: ["{{ hostvars['compute000003'].azure_vmss_id }}"]
    image: 1.2.3
    sources: "{{ azure_inventory.sources | map(attribute='source') }}"
"""

RETURN = r"""
scale_sets:
  description: The scale sets.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Resource id.
      type: str
    name:
      description: Name.
      type: str
    before:
      description: Image of the model before the change. Empty if it is the image of a shared or community gallery.
      type: str
    image:
      description: Image of the model after the change.
      type: str
    image_name:
      description: Short name of that image.
      type: str
    outdated:
      description: Resource ids of the instances with another image.
      type: list
      elements: str
    outdated_vm_ids:
      description: The vmIds of the same instances, in the same order, because Azure may reuse a resource id.
      type: list
      elements: str
    current:
      description: Resource ids of the instances with this image.
      type: list
      elements: str
  sample:
    - id: "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/hpc/providers/Microsoft.Compute/\
        virtualMachineScaleSets/compute"
      name: compute
      before: "microsoft-dsvm:ubuntu-hpc:2204:22.04.2025091101"
      image: "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/hpc/providers/Microsoft.Compute/\
        galleries/hpc/images/node-image/versions/1.2.3"
      image_name: node-image/1.2.3
      outdated: []
      outdated_vm_ids: []
      current: []
"""
