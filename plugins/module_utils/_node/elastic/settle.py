# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The machines that a set is getting: a rollout goes on only when they have joined.

Machines that come later are not waited for: in a busy set there is always one on its way.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, Callable

from ..machine.root import Root
from . import status
from .book import JOINED, LEASED

LOOK_S = 5.0
GRACE_S = 30.0
"""Slurm needs some seconds to order a node again whose machine was deleted."""
_COMING = (status.WANTED, status.ORDERED, LEASED)


def coming(shown: Mapping[str, Any]) -> set[str]:
    """Return the slots of a set that are getting a machine.

    :param shown: the set in the daemon's status.
    """
    return {
        one["slot"]
        for one in shown["slots"]
        if one["state"] in _COMING or (one["state"] == status.OFF and "POWERING_UP" in one["slurm"].split("+"))
    }


def obstacle(name: str, shown: Mapping[str, Any], awaited: Collection[str], since: int) -> str:
    """Return why no further machine may be replaced; empty if nothing is in the way. Pure.

    :param awaited: the slots that were getting a machine.
    :param since: when the rollout began: failures up to this second do not count.
    """
    words = status.why_no_orders(name, shown)
    failed = shown["boot_failed"]
    if words or int(failed["time"]) > since:
        return words or str(failed["words"])
    joined = [one for one in shown["slots"] if one["slot"] in awaited and one["state"] == JOINED]
    return next(filter(None, map(status.why_no_jobs, joined)), "")


def wait(
    root: Root,
    name: str,
    since: int,
    timeout_s: float,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[bool, str]:
    """Wait until the machines that a set is getting have joined. Return whether they have, and a line about it.

    :param since: when the rollout began.
    """
    began = clock()
    awaited: set[str] = set()
    open_slots: set[str] = set()
    while clock() - began < timeout_s:
        found = status.read_status(root) or {}
        shown = found.get("sets", {}).get(name)
        # A pass from before this began may not show what Slurm has ordered since.
        if shown and found["time"] >= int(began):
            now_coming = coming(shown)
            if clock() - began <= GRACE_S:
                awaited |= now_coming
            words = obstacle(name, shown, awaited, since)
            if words:
                return False, words
            open_slots = awaited & now_coming
            if not open_slots and clock() - began > GRACE_S:
                joined = [one["slot"] for one in shown["slots"] if one["slot"] in awaited and one["state"] == JOINED]
                return True, f"{name}: {', '.join(joined)} joined" if joined else f"{name}: no machine is on its way"
        sleep(LOOK_S)
    late = ", ".join(sorted(open_slots)) or "hpcai-elastic made no pass, or its machines"
    return False, f"{name}: {late} did not join within {timeout_s:.0f} s"
