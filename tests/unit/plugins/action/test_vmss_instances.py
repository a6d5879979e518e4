# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a replacement reports if Azure deletes only some of the instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.action import vmss_instances
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.targets import SetName, Target

SETS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets"
LEFT, RIGHT = SetName("s", "g", "left"), SetName("s", "g", "right")
TARGETS = [
    Target(f"{SETS}/{name}/virtualMachines/{number}", f"{name}-{number}")
    for name in ("left", "right")
    for number in (1, 2)
]


class Operations:
    """Azure, which deletes both instances of one set, and one of two instances of the other set."""

    def __init__(self) -> None:
        self.capacities = {LEFT: 5, RIGHT: 5}
        self.raised: dict[SetName, int] = {}

    def read_capacity(self, _clients: Any, sets: Iterable[SetName]) -> dict[SetName, int]:
        return {name: self.capacities[name] for name in sets}

    def delete(self, _clients: Any, _targets: Any) -> None:
        self.capacities = {LEFT: 3, RIGHT: 4}
        raise InventoryError("could not delete the instances 1, 2 of scale set right: 409 Conflict.")

    def set_capacity(self, _clients: Any, wanted: Mapping[SetName, int]) -> None:
        self.raised |= wanted


def test_set_with_some_deleted_instances_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = Operations()
    for name in ("read_capacity", "delete", "set_capacity"):
        monkeypatch.setattr(vmss_instances.instance_operations, name, getattr(azure, name))

    with pytest.raises(InventoryError) as failed:
        vmss_instances._replace(None, TARGETS)  # type: ignore[arg-type]

    assert azure.raised == {LEFT: 5}
    assert str(failed.value) == (
        "could not delete the instances 1, 2 of scale set right: 409 Conflict. Some were deleted, but not replaced: "
        "scale set right of resource group g (subscription s) has the capacity 4, and had 5."
    )
