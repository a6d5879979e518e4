# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What comes after a drain that did not help: a restart, then another machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .message import Fault, Report
from .records import Machine
from .settings import DRAINS

RESTART_IT, MARK_IT = "restart", "mark"
_RESET, _REBOOT, _REPLACE = "reset_gpu", "reboot", "replace"
_REPEATED = 2


@dataclass(frozen=True)
class Step:
    """The next step, and the fault for which it is taken."""

    kind: str
    fault: Fault


def next_step(report: Report, machine: Machine, now: float) -> Step | None:
    """Return the next step for a node that is out by us and still fails; None where there is nothing but to wait.

    A hardware fault is marked for replacement at once. So is what a restart did not mend, and what was drained three
    times in 24 h. What a restart mends, and a GPU that needs a reset for the second time, is restarted once in 24 h.
    """
    if machine.marked:
        return None
    for fault in report.faults:
        if fault.action == _REPLACE:
            return Step(MARK_IT, fault)
    restart = machine.last_restart(now)
    for fault in report.faults:
        repeated = machine.drains_lately(now, fault.check) >= _REPEATED
        if fault.action == _REBOOT or (fault.action == _RESET and repeated):
            if restart is None:
                return Step(RESTART_IT, fault)
            # Of the same boot, it was called off: somebody has his reasons.
            return Step(MARK_IT, fault) if report.boot != restart.boot else None
    if machine.drains_lately(now) >= DRAINS:
        return Step(MARK_IT, report.faults[0])
    return None
