# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which nodes an incident is about. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..slurm.arbiter.reasons import has_machine
from ..slurm.nodes import OUR_PREFIX, NodeState

_KINDS = ("health:", "prolog:", "epilog:", "boot:", "hardware:", "slurmd:")
_STATES = ("DOWN", "FAIL", "INVAL")


def incident_nodes(known: Mapping[str, NodeState]) -> dict[str, str]:
    """Return the nodes that are drained for a fault, down or not answering, each with the reason.

    Nodes without a machine, and nodes that somebody drained for another reason, such as maintenance, are left out.
    """
    found = {}
    for name, node in known.items():
        if not has_machine(node):
            continue
        ours = any(node.reason.startswith(f"{OUR_PREFIX} {kind}") for kind in _KINDS)
        if node.out and (ours or any(state in _STATES for state in node.states)):
            found[name] = node.reason or "down"
        elif not node.answers:
            found[name] = node.reason or "does not answer"
    return found
