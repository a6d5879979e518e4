# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A log of which machine each node is: one JSON object a line, appended when a node's machine changes.

A line has about 100 bytes, and a cluster of 600 nodes that replaces 10 % of them each month adds 70 KiB a year.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from ...machine.root import Root
from .observed import ObservedNode

LOG = "/var/lib/hpcai/health/machines.jsonl"


def append_changes(
    root: Root, nodes: Iterable[ObservedNode], known: dict[str, str], now: float, path: str = LOG
) -> int:
    """Append a line for each node whose machine differs from the known one, and return their number.

    :param known: the last machine of each node; it is updated. At the first call it is empty, and is read from the log.
    :raises OSError: the log cannot be written.
    """
    if not known:
        known.update(_last(root, path))
    changed = {
        node.name: node.report.vm_id
        for node in nodes
        if node.report and node.report.vm_id and known.get(node.name) != node.report.vm_id
    }
    lines = [json.dumps({"time": int(now), "node": node, "vm_id": vm_id}) + "\n" for node, vm_id in changed.items()]
    if lines:
        os.makedirs(os.path.dirname(root.at(path)), mode=0o750, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(root.at(path), flags, 0o640), "a", encoding="utf-8") as file:
            file.write("".join(lines))
        # Not before: a line that was not written is tried again in the next pass.
        known.update(changed)
    return len(lines)


def _last(root: Root, path: str) -> dict[str, str]:
    found = {}
    try:
        with open(root.at(path), encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                    found[str(entry["node"])] = str(entry["vm_id"])
                except (ValueError, LookupError, TypeError):
                    continue
    except FileNotFoundError:
        pass
    return found
