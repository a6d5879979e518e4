# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the modules that configure NCCL on a node."""

from __future__ import annotations


class ModuleDocFragment:
    """VM size of the node, and whether to apply the settings now."""

    DOCUMENTATION = r"""
options:
  vm_size:
    description:
      - VM size of the node, in any spelling that Azure accepts.
      - If this option is not set, the module uses C(vm_size) in C(/etc/hpcai/node.json). Without that setting, it asks
        the instance metadata service. If the service does not answer, the module uses the service's last answer, which
        is kept in C(/var/lib/hpcai/instance.json).
      - With the inventory plugin P(hpcai.azure.azure_vmss#inventory), you can use the variable C(azure_vm_size).
    type: str
  vm_sizes:
    description:
      - VM sizes that you describe yourself, in the form of the variable C(hpcai_vm_sizes). It is a mapping of names to
        facts. These facts take precedence over the built-in table and over C(/etc/hpcai/node.json).
    type: dict
    default: {}
  apply:
    description:
      - V(false) only saves the options for the next boot. Use V(false) when you bake an image, because the VM size on
        which the image will run is not known yet.
    type: bool
    default: true
"""
