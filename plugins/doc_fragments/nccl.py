# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the modules that set NCCL up on a node."""

from __future__ import annotations


class ModuleDocFragment:
    """Which VM size it is for, and whether the node is that already."""

    DOCUMENTATION = r"""
options:
  vm_size:
    description:
      - VM size of the node, in any spelling that Azure takes.
      - By default C(vm_size) of C(/etc/hpcai/node.json), else what the instance metadata service says, else what that
        service said last, kept in C(/var/lib/hpcai/instance.json). The inventory plugin
        P(hpcai.azure.azure_vmss#inventory) knows it as well.
    type: str
  vm_sizes:
    description:
      - VM sizes described by hand, by name, as the variable C(hpcai_vm_sizes) holds them. They win over the built-in
        table and over C(/etc/hpcai/node.json).
    type: dict
    default: {}
  apply:
    description:
      - V(false) keeps the options for the boot, and does nothing else. It is meant for an image, which does not know on
        which VM size it will run.
    type: bool
    default: true
"""
