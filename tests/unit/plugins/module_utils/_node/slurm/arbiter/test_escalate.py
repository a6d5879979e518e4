# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What comes after a drain that did not help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.actions import RESTART, REWRITE, STUCK
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.judge import Judged, judge
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.message import Fault
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.records import (
    Drain,
    Machine,
    Out,
    Restart,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.settings import Settings

from .playing import FULL, HUNG, LOST, NOW, RESET, drained, node, report, seen

HOUR = 3600.0
SETTINGS = Settings(escalate=True)


def ill(fault: Fault, drains: int = 1, restarts: tuple[Restart, ...] = (), escalate: bool = True) -> Judged:
    """What is done about a node that is out for a fault and still has it."""
    times = tuple(Drain(NOW - (n + 1) * HOUR, fault.check) for n in range(drains))
    machine = Machine("vm-0", "compute-0", "host-a", drains=times, restarts=restarts, out=Out(NOW - HOUR))
    one = seen(drained(f"hpcai: health: {fault.check}: {fault.summary}"), report(fault))
    return judge(one, {"vm-0": machine}, replace(SETTINGS, escalate=escalate), NOW)


def kind(done: Judged) -> str:
    """What it does, in a word."""
    return done.action.kind if done.action else "nothing"


@pytest.mark.parametrize("fault", [LOST, HUNG, RESET])
def test_nothing_of_it_is_done_unasked(fault: Fault) -> None:
    assert kind(ill(fault, drains=2, escalate=False)) == "nothing"


def test_what_a_restart_mends_is_restarted() -> None:
    done = ill(HUNG)
    assert done.action
    assert done.action.kind == RESTART
    assert done.action.reason == "hpcai: health: reboot: gpu_xid: XID 79 of 0001:00:00.0: fallen off the bus"
    assert done.action.machine.restarts == (Restart(NOW, "b007b007"),)


def test_a_gpu_that_needs_a_reset_is_restarted_the_second_time() -> None:
    assert kind(ill(RESET, drains=1)) == "nothing"
    assert kind(ill(RESET, drains=2)) == RESTART


def test_what_a_restart_did_not_mend_is_marked_for_replacement() -> None:
    done = ill(HUNG, drains=2, restarts=(Restart(NOW - HOUR, "an older"),))
    assert done.action
    assert done.action.kind == REWRITE
    assert done.action.reason.startswith("hpcai: health: replace: gpu_xid: ")
    assert done.action.machine.marked
    assert (done.action.machine.marked.host, done.action.machine.marked.action) == ("host-a", "reboot")


def test_a_restart_that_somebody_called_off_is_not_asked_for_again() -> None:
    assert kind(ill(HUNG, restarts=(Restart(NOW - HOUR, "b007b007"),))) == "nothing"


def test_a_restart_of_the_day_before_counts_no_more() -> None:
    assert kind(ill(HUNG, restarts=(Restart(NOW - 25 * HOUR, "an older"),))) == RESTART


def test_a_hardware_fault_is_marked_at_once() -> None:
    done = ill(LOST)
    assert done.action
    assert done.action.machine.marked
    assert done.action.reason == "hpcai: health: replace: gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there"
    # And once.
    one = seen(drained(done.action.reason), report(LOST))
    assert kind(judge(one, {"vm-0": done.action.machine}, SETTINGS, NOW)) == "nothing"


def test_three_drains_in_a_day_are_marked_whatever_for() -> None:
    assert kind(ill(FULL, drains=2)) == "nothing"
    done = ill(FULL, drains=3)
    assert done.action
    assert done.action.machine.marked


def test_a_node_in_scheduling_is_drained_before_anything_else() -> None:
    done = judge(seen(node(), report(HUNG)), {}, SETTINGS, NOW)
    assert kind(done) == "drain"


def test_another_ones_node_is_not_restarted() -> None:
    assert kind(judge(seen(drained("ticket 4711"), report(HUNG)), {}, SETTINGS, NOW)) == "nothing"


def test_a_restart_that_does_not_end_is_told() -> None:
    one = seen(node(states=("IDLE", "DRAIN", "REBOOT_REQUESTED"), reason="hpcai: health: reboot: x"), report(HUNG))
    machine = Machine("vm-0", "compute-0", restarts=(Restart(NOW - 3601, "b007b007"),))
    done = judge(one, {"vm-0": machine}, SETTINGS, NOW)
    assert done.alert
    assert (done.alert.kind, kind(done)) == (STUCK, "nothing")
    young = replace(machine, restarts=(Restart(NOW - 3599, "b007b007"),))
    assert judge(one, {"vm-0": young}, SETTINGS, NOW).alert is None
