# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The decisions of the recovery, one JSON object a line: what was decided about which job, when and why."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..machine.root import Root

LOG = "/var/lib/hpcai/ledger/decisions.jsonl"


def append_decision(root: Root, now: float, job: int, runs: int, decision: Mapping[str, Any], path: str = LOG) -> None:
    """Append a decision.

    :param runs: how many runs of the job had ended.
    :raises OSError: it cannot be written.
    """
    os.makedirs(os.path.dirname(root.at(path)), mode=0o750, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(root.at(path), flags, 0o640), "a", encoding="utf-8") as file:
        file.write(json.dumps({"time": int(now), "job": job, "runs": runs, **decision}) + "\n")


def read_decisions(root: Root, since: float, until: float, path: str = LOG) -> list[dict[str, Any]]:
    """Return the decisions of a time, oldest first. A line that was cut by a full disk is skipped."""
    found = []
    try:
        with open(root.at(path), encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    one = json.loads(line)
                    if since <= float(one["time"]) <= until:
                        found.append(dict(one))
                except (ValueError, LookupError, TypeError):
                    continue
    except OSError:
        pass
    return found
