# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The content of the simulated subscriptions."""

from __future__ import annotations

from typing import Any

TAGS = {"hpcai_cluster": "sim"}
COMPUTE = {**TAGS, "hpcai_role": "compute"}

# One machine or scale set of each kind. Computer names are PREFIX plus six digits: compute000000, compute000003,
# compute00000H, flex...
CLUSTER: dict[str, Any] = {
    "virtual_machines": [{"name": "ctl", "tags": {**TAGS, "hpcai_role": "controller,login"}, "public_ip": True}],
    "scale_sets": [
        {"name": "compute", "capacity": 3, "instance_ids": [0, 3, 17], "tags": COMPUTE, "zones": ["1"]},
        {
            "name": "flex",
            "capacity": 2,
            "orchestration_mode": "Flexible",
            "vm_size": "standard_hb120rs_v3",
            "tags": COMPUTE,
            "single_placement_group": False,
        },
    ],
}

UNIFORM = {"compute000000", "compute000003", "compute00000H"}
"""The hosts of the cluster's Uniform scale set."""
