# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host variables as the inventory plugin sets them."""

from __future__ import annotations

from typing import Any

ND96 = "Standard_ND96asr_v4"
H100 = "Standard_ND96isr_H100_v5"


def uniform(scale_set: str, instance_id: int, size: str | None = ND96, **more: Any) -> dict[str, Any]:
    """An instance of a Uniform scale set."""
    return {
        "inventory_hostname": f"{scale_set}{instance_id:06}",
        "azure_vmss": scale_set,
        "azure_instance_id": str(instance_id),
        "azure_computer_name": f"{scale_set}{instance_id:06}",
        "azure_vm_size": size,
        "azure_private_ipv4": f"10.77.{instance_id // 256}.{instance_id % 256}",
        **more,
    }


def flexible(name: str, size: str = ND96, **more: Any) -> dict[str, Any]:
    """An instance of a Flexible scale set: it has no instance id."""
    return uniform("flex", 4, size, azure_instance_id=None, azure_computer_name=name, inventory_hostname=name, **more)
