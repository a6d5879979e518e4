# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes are faulty, by their reasons and states."""

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.reasons import (
    faulty_nodes,
    incident_nodes,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import NodeState


def test_an_incident_is_about_faulty_nodes_only() -> None:
    known = {
        "a": NodeState("a", ("IDLE", "DRAIN"), "hpcai: health: gpu_count: 7 of 8"),
        "b": NodeState("b", ("IDLE", "DRAIN"), "maintenance by alice"),
        "c": NodeState("c", ("DOWN", "NOT_RESPONDING"), "Not responding"),
        "d": NodeState("d", ("IDLE",), ""),
        "e": NodeState("e", ("DOWN", "DRAIN"), "hpcai: no such instance"),
        "f": NodeState("f", ("MIXED", "NOT_RESPONDING"), ""),
        "g": NodeState("g", ("IDLE", "DRAIN"), "hpcai: hardware: 7 GPUs"),
    }
    faulty = {"a": "hpcai: health: gpu_count: 7 of 8", "c": "Not responding"}
    assert incident_nodes(known) == {**faulty, "f": "does not answer", "g": "hpcai: hardware: 7 GPUs"}
    # A training that failed there did not fail because of what the node lacked before.
    assert faulty_nodes(known) == faulty
