# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of topology.conf: one switch for each scale set, and none above them, so that no job crosses two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress

from .cluster import ClusterError, Node


def switch_lines(nodes: Iterable[Node], by_hand: Mapping[str, Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return one mapping of topology.conf keys for each switch.

    :param nodes: in the order of ``in_order``.
    :param by_hand: the user's switches by name: keys are added to the derived ones, or replace them; null leaves a
        switch out; one that no scale set has needs its ``Nodes`` or ``Switches``.
    :raises ClusterError: a switch of the user's has neither.
    """
    derived = {
        name: {"Nodes": compress(node.name for node in group)}
        for name, group in groupby(nodes, key=lambda node: node.partition)
    }
    lines = []
    for name in [*derived, *(extra for extra in by_hand if extra not in derived)]:
        own = by_hand.get(name, {})
        if own is None:
            continue
        if not isinstance(own, Mapping):
            raise ClusterError(f"slurm_topology.{name} must be a mapping of Nodes or Switches, or null.")
        line = {"SwitchName": name, **derived.get(name, {}), **own}
        if not line.get("Nodes") and not line.get("Switches"):
            raise ClusterError(
                f"switch {name} of slurm_topology has neither Nodes nor Switches, and no scale set has that name."
            )
        lines.append(line)
    return lines
