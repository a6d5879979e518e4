# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Patterns of the requests for each list, for faults."""

from __future__ import annotations

SCALE_SETS = r"GET /subscriptions/[^/]+/providers/Microsoft.Compute/virtualMachineScaleSets\?"
INSTANCES = r"GET .*/virtualMachineScaleSets/compute/virtualMachines\?"
INTERFACES = r"GET .*/virtualMachineScaleSets/compute/networkInterfaces\?"
FLEXIBLE = r"GET .*/resourceGroups/[^/]+/providers/Microsoft.Compute/virtualMachines\?.*virtualMachineScaleSet/id"
OTHER_INTERFACES = r"GET /subscriptions/[^/]+/providers/Microsoft.Network/networkInterfaces\?"
NETWORKS = r"GET .*/virtualNetworks\?"
ALL_LISTS = [SCALE_SETS, INSTANCES, INTERFACES, FLEXIBLE, OTHER_INTERFACES, NETWORKS]
