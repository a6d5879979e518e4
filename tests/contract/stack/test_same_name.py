# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two teams that give their stacks or resource groups the same name."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError

from .cloud import IMAGE, KEY, Azure, smallest


def test_two_stacks_of_one_name_in_two_groups_do_not_meet(azure: Azure) -> None:
    keys: dict[str, Any] = {"storage": {"containers": []}, "shared_home": {"source": "none"}}
    first, second = (smallest(group={"name": name}, **keys) for name in ("one", "two"))
    owners = {azure.run(wanted)["owner"] for wanted in (first, second)}
    azure.run(first, state="absent")

    assert len(owners) == 2
    assert azure.run(second)["changed"] is False
    assert not azure.exists(azure.names(first).controller)


def test_two_descriptions_of_one_name_in_one_group_are_one_stack(azure: Azure) -> None:
    keys: dict[str, Any] = {"storage": {"containers": []}, "shared_home": {"source": "none"}}
    first = smallest(**keys)
    second = smallest(
        **keys,
        ssh_public_keys=[KEY.replace("AAAAI", "AAAAB")],
        scale_sets=[{"name": "gpu", "vm_size": "Standard_ND96asr_v4", "max": 4, "image": IMAGE}],
    )
    azure.run(first)
    shown = azure.run(second, check=True)

    # Check mode shows that the stack exists: there is only one new resource, and the controller has other keys.
    assert [(one["label"], one["action"]) for one in shown["changes"]] == [
        ("virtualMachineScaleSets/gpu", "create"),
    ]
    removed, keys_note = sorted(shown["notes"])
    assert removed.startswith("virtualMachineScaleSets/compute is no longer in hpcai_stack. It stays")
    assert "hpcai-controller was made with none of hpcai_stack.ssh_public_keys" in keys_note
    assert "give hpcai_stack another name" in keys_note
    assert keys_note in azure.run(second, check=True, state="absent")["notes"]

    # A person of the same team has a key in common, with another comment.
    again = azure.run({**first, "ssh_public_keys": [*second["ssh_public_keys"], f"{KEY} laptop"]}, check=True)
    assert (again["changed"], again["notes"]) == (False, [])

    deleted = azure.run(second, state="absent")["deleted"]
    assert azure.names().controller in deleted


def test_foreign_group_of_the_same_name_is_refused(azure: Azure) -> None:
    group = f"/subscriptions/{azure.simulator.subscription_id}/resourceGroups/hpcai"
    azure.put(group, {"location": "southcentralus", "tags": {"hpcai_stack": "hpcai/another"}})
    azure.simulator.clear()

    with pytest.raises(InventoryError, match="its tag hpcai_stack is hpcai/another"):
        azure.run()
    assert azure.sent() == []
