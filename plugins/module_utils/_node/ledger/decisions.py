# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The decisions of the recovery, one JSON object a line: what was decided about which job, when and why.

Users cause decisions, so each of the two logs has a size limit: a full file becomes the older one of two. The checks of
nodes have a log of their own, because its entries are few, and limit how many checks a user may cause.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..machine.root import Root

LOG = "/var/lib/hpcai/ledger/decisions.jsonl"
CHECKS = "/var/lib/hpcai/ledger/checks.jsonl"
OLDER = ".1"
"""Added to the name of the log, this is the name of the older file."""
LARGEST = 8 << 20
"""Size in bytes at which a file is full: some 25,000 decisions. Each pass of the recovery may read all files."""
MOST_OF_A_USER = 1000
"""Decisions about jobs of a user in 24 hours. Without this limit, a user could remove those of others in an hour."""


def append_decision(root: Root, now: float, job: int, runs: int, decision: Mapping[str, Any], path: str = LOG) -> None:
    """Append a decision.

    :param runs: how many runs of the job had ended.
    :raises OSError: it cannot be written.
    """
    os.makedirs(os.path.dirname(root.at(path)), mode=0o750, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if os.stat(root.at(path)).st_size >= LARGEST:
            os.replace(root.at(path), root.at(f"{path}{OLDER}"))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(root.at(path), flags, 0o640), "a", encoding="utf-8") as file:
        file.write(json.dumps({"time": int(now), "job": job, "runs": runs, **decision}) + "\n")


def count_by_user(log: Sequence[Mapping[str, Any]], since: float) -> dict[str, int]:
    """Return how many decisions since a time were about jobs of each user. Pure."""
    return Counter(str(one["user"]) for one in log if one["time"] >= since and "user" in one)


def read_decisions(root: Root, since: float, until: float) -> list[dict[str, Any]]:
    """Return the decisions and checks of a time, oldest first. A line that was cut by a full disk is skipped."""
    found = []
    for name in (f"{CHECKS}{OLDER}", CHECKS, f"{LOG}{OLDER}", LOG):
        with contextlib.suppress(OSError), open(root.at(name), encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    one = json.loads(line)
                    if since <= float(one["time"]) <= until:
                        found.append(dict(one))
                except (ValueError, LookupError, TypeError):
                    continue
    return sorted(found, key=lambda one: float(one["time"]))
