# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of topology.conf."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import ClusterError, Node, in_order
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.topology import switch_lines

SIZE = SIZES["Standard_ND96asr_v4"]
NODES = in_order(Node(f"{name}-{number}", "", name, SIZE) for name in ("b", "a") for number in range(12))


def test_a_switch_for_each_set_and_none_above_them() -> None:
    assert switch_lines(NODES, {}) == [
        {"SwitchName": "a", "Nodes": "a-[0-11]"},
        {"SwitchName": "b", "Nodes": "b-[0-11]"},
    ]
    assert switch_lines([], {}) == []


def test_switches_by_hand_add_replace_and_delete() -> None:
    by_hand: dict[str, Any] = {"a": {"LinkSpeed": 200}, "b": None, "root": {"Switches": ["a"]}}
    assert switch_lines(NODES, by_hand) == [
        {"SwitchName": "a", "Nodes": "a-[0-11]", "LinkSpeed": 200},
        {"SwitchName": "root", "Switches": ["a"]},
    ]
    assert switch_lines(NODES, {"a": None, "b": None}) == []


@pytest.mark.parametrize(
    ("by_hand", "words"),
    [
        ({"root": {}}, "^switch root of slurm_topology has neither Nodes nor Switches"),
        ({"a": {"Nodes": None}}, "^switch a of slurm_topology has neither Nodes nor Switches"),
        ({"a": "a-[0-1]"}, "^slurm_topology.a must be a mapping"),
    ],
)
def test_says_what_is_wrong_with_a_switch(by_hand: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        switch_lines(NODES, by_hand)
